# SPDX-License-Identifier: GPL-3.0-or-later
# policies/priority.c: who sits out loses its place to those that sit out later
# noticed by check_conformance
s/return r->word ? r->word : r->entered;/return r->entered;/
