# SPDX-License-Identifier: GPL-3.0-or-later
# sim/scenario/engines.c: prefix caching is off in vLLM V1 unless asked for
# noticed by check_conformance
s/{"vllm-v1", "fcfs priority", 1, 1,/{"vllm-v1", "fcfs priority", 1, 0,/
