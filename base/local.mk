# SPDX-License-Identifier: GPL-3.0-or-later
liblull_a_SOURCES += \
  %D%/error.c \
  %D%/error.h \
  %D%/h5.c \
  %D%/h5.h \
  %D%/h5_outfile.c \
  %D%/hist.c \
  %D%/hist.h \
  %D%/outfile.c \
  %D%/outfile.h \
  %D%/rng.c \
  %D%/rng.h \
  %D%/units.c \
  %D%/units.h
