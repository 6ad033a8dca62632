# SPDX-License-Identifier: GPL-3.0-or-later
liblull_a_SOURCES += \
  %D%/cap.c \
  %D%/dedicated.c \
  %D%/fcfs.c \
  %D%/priority.c \
  %D%/queue.h \
  %D%/ranked.h \
  %D%/walk.h
