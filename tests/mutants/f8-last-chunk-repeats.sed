# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/plan.c: the step that ends a prompt is merged with those before it
s/ - (left % c->tokens == 0 && left > c->tokens);/;/
