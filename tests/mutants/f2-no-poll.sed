# SPDX-License-Identifier: GPL-3.0-or-later
# sim/world/deliver.c: F2, boundaries that an interrupt finds at now are not taken in by this instant
/^static int poll_device/,/^}/s/^  int n = .*/  int n = 0;/
