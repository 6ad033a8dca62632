# SPDX-License-Identifier: GPL-3.0-or-later
# sim/scenario/engines.c: a row more than the budget is let pass
# noticed by check_scenario
s/> raw->token_budget)/> raw->token_budget + 1)/
