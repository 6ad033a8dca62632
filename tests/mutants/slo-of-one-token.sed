# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/request.c: the target for the time of a token is missed by one that has no such time
/^static inline void settle_done/,/^}/s/(base_int128)stream <= /(base_int128)stream < /
