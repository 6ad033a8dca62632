# SPDX-License-Identifier: GPL-3.0-or-later
# policies/priority.c: the victim is of the most important class
# noticed by check_conformance
s/ranked_class(h, rank)/ranked_class(h, h->classes - 1 - rank)/
