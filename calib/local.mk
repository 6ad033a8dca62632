# SPDX-License-Identifier: GPL-3.0-or-later
liblull_a_SOURCES += \
  %D%/aiconfigurator.c \
  %D%/calib.h \
  %D%/csv.c \
  %D%/csv.h \
  %D%/fit.c \
  %D%/fit.h \
  %D%/fit_prefill.c \
  %D%/tables.c \
  %D%/tables.h
