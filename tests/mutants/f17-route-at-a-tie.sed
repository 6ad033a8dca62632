# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: F17, of equally loaded servers the highest is taken
/^static inline int default_route/,/^}/s/unfinished < w->srv/unfinished <= w->srv/
