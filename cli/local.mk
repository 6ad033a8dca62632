# SPDX-License-Identifier: GPL-3.0-or-later
lull_SOURCES += \
  %D%/bench.c \
  %D%/calibrate.c \
  %D%/calibration.c \
  %D%/commands.h \
  %D%/cores.c \
  %D%/cores.h \
  %D%/device.c \
  %D%/device.h \
  %D%/device_cpu.c \
  %D%/device_cpu.h \
  %D%/generate.c \
  %D%/help.c \
  %D%/import.c \
  %D%/inspect.c \
  %D%/lesson.c \
  %D%/lesson.h \
  %D%/main.c \
  %D%/models.c \
  %D%/options.c \
  %D%/options.h \
  %D%/outputs.c \
  %D%/outputs.h \
  %D%/progress.c \
  %D%/progress.h \
  %D%/run.c \
  %D%/speed_load.c \
  %D%/speed_load.h \
  %D%/speed_run.c \
  %D%/speed_run.h \
  %D%/subject.c \
  %D%/subject.h \
  %D%/train.c \
  %D%/validate.c \
  %D%/weights.c \
  %D%/weights.h
