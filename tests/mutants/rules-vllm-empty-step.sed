# SPDX-License-Identifier: GPL-3.0-or-later
# policies/priority.c: in a step of nothing those who had no turn are held as in any other
# noticed by check_conformance
s/if (!one_runs(&w))/if (0)/
