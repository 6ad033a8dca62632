# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/step.c: F6, the highest class with a row keeps the remainder
/^static int residue_class/,/^}/s/for (uint32_t c = 0; s->rows && c < w->nclasses; c++)/for (uint32_t c = w->nclasses; s->rows \&\& c-- > 0;)/
