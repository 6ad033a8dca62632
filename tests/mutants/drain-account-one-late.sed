# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/account.c: idle time after the window is not drain
/^static void charge_idle/,/^}/s/from >= w->window/from > w->window/
