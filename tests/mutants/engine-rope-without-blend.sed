# SPDX-License-Identifier: GPL-3.0-or-later
# backend/model.c: frequencies between the two bounds are not blended
# noticed by check_engine
s/smooth \* freq;/freq;/
