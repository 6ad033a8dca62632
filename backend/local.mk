# SPDX-License-Identifier: GPL-3.0-or-later
liblull_a_SOURCES += \
  %D%/adapter.h \
  %D%/config.h \
  %D%/cpu/cpu.h \
  %D%/engine.h \
  %D%/ops.h \
  %D%/tensor.h \
  %D%/weights.h
