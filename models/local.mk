# SPDX-License-Identifier: GPL-3.0-or-later
liblull_a_SOURCES += \
  %D%/calibration.c \
  %D%/calibration.h \
  %D%/calibration_check.c \
  %D%/calibration_doubts.c \
  %D%/calibration_io.h \
  %D%/calibration_layout.c \
  %D%/calibration_read.c \
  %D%/calibration_write.c \
  %D%/cost.c \
  %D%/cost.h \
  %D%/cost_bytes.h \
  %D%/cost_compile.c \
  %D%/cost_model.h \
  %D%/cost_tables.c \
  %D%/describe.c \
  %D%/describe.h \
  %D%/embedded.h \
  %D%/gpu.c \
  %D%/gpu.h \
  %D%/lattice.c \
  %D%/lattice.h \
  %D%/llm.c \
  %D%/llm.h \
  %D%/measured.c \
  %D%/measured.h \
  %D%/measured_csv.c \
  %D%/measured_json.c \
  %D%/measured_reader.h \
  %D%/measured_vllm.c \
  %D%/problems.c \
  %D%/problems.h \
  %D%/recording.c \
  %D%/recording.h \
  %D%/recording_calls.c \
  %D%/recording_calls.h \
  %D%/replay.c \
  %D%/simdev.c \
  %D%/simdev.h \
  %D%/trace.c \
  %D%/trace.h \
  %D%/trace_csv.c \
  %D%/trace_ids.c \
  %D%/trace_json.c \
  %D%/trace_json.h \
  %D%/trace_reader.h \
  %D%/trace_source.c \
  %D%/trace_source.h \
  %D%/trace_stamp.c \
  %D%/trace_stats.c
models_data = \
  %D%/data/a100-80g.xml \
  %D%/data/a30.xml \
  %D%/data/h100-sxm.xml \
  %D%/data/h200-sxm-qwen3-8b-bf16.h5 \
  %D%/data/h200-sxm-qwen3-8b-fp8.h5 \
  %D%/data/h200-sxm.xml \
  %D%/data/llama-2-70b.xml \
  %D%/data/llama-2-7b.xml \
  %D%/data/llama-3.1-70b.xml \
  %D%/data/llama-3.1-8b.xml \
  %D%/data/qwen2-7b.xml \
  %D%/data/qwen3-0.6b.xml \
  %D%/data/qwen3-1.7b.xml \
  %D%/data/qwen3-14b.xml \
  %D%/data/qwen3-32b.xml \
  %D%/data/qwen3-4b.xml \
  %D%/data/qwen3-8b.xml \
  %D%/data/qwen3-tiny.xml \
  %D%/data/rtx-4090.xml \
  %D%/data/rtx-pro-6000.xml
embedded += $(models_data)
EXTRA_DIST += $(models_data)

# Weights of our own training, small enough to be shipped: README.md there says how they are made.
tinydir = $(pkgdatadir)/models/tiny
dist_tiny_DATA = \
  %D%/data/tiny/README.md \
  %D%/data/tiny/config.json \
  %D%/data/tiny/model.safetensors \
  %D%/data/tiny/tokenizer.json
