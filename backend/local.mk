# SPDX-License-Identifier: GPL-3.0-or-later
liblull_a_SOURCES += \
  %D%/adapter.c \
  %D%/adapter.h \
  %D%/adapter_config.c \
  %D%/adapter_layout.h \
  %D%/config.c \
  %D%/config.h \
  %D%/cpu/attention.inc \
  %D%/cpu/cpu.c \
  %D%/cpu/cpu.h \
  %D%/cpu/kernels.h \
  %D%/cpu/kernels_scalar.c \
  %D%/cpu/linear.inc \
  %D%/cpu/pool.c \
  %D%/cpu/pool.h \
  %D%/cpu/rows.inc \
  %D%/cpu/sample.c \
  %D%/cpu/sample.h \
  %D%/cpu/vec_scalar.inc \
  %D%/draw.c \
  %D%/draw.h \
  %D%/engine.h \
  %D%/fields.c \
  %D%/fields.h \
  %D%/ops.h \
  %D%/safetensors.c \
  %D%/safetensors.h \
  %D%/safetensors_write.c \
  %D%/store.c \
  %D%/store.h \
  %D%/tensor.h \
  %D%/weights.c \
  %D%/weights.h \
  %D%/weights_random.c \
  %D%/weights_roles.c \
  %D%/weights_roles.h
