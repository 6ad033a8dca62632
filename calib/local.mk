# SPDX-License-Identifier: GPL-3.0-or-later
liblull_a_SOURCES += \
  %D%/aiconfigurator.c \
  %D%/calib.h \
  %D%/csv.c \
  %D%/csv.h \
  %D%/fit.c \
  %D%/fit.h \
  %D%/fit_prefill.c \
  %D%/grid_fit.c \
  %D%/grid_fit.h \
  %D%/llmservingsim.c \
  %D%/operators.c \
  %D%/operators.h \
  %D%/operators_falls.c \
  %D%/skew.c \
  %D%/skew.h \
  %D%/source.c \
  %D%/source.h \
  %D%/tables.c \
  %D%/tables.h
