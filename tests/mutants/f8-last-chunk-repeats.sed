# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/batch.c: the step that ends a prompt is merged with those before it
s/ - (left % c->tokens == 0);/;/
