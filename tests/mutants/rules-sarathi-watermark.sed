# SPDX-License-Identifier: GPL-3.0-or-later
# sim/scenario/engines.c: Sarathi leaves nothing free
# noticed by check_conformance
s/0, 0, 10000, 0, 0}/0, 0, 0, 0, 0}/
