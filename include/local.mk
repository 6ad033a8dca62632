# SPDX-License-Identifier: GPL-3.0-or-later
pkginclude_HEADERS = %D%/lull/types.h %D%/lull/policy.h %D%/lull/device.h
