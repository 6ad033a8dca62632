# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/host.c: F11, the watermark is asked for on an empty pool
s/return s->fixed_blocks + s->decode_blocks == 0 ? 0 : /return /
