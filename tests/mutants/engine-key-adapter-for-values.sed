# SPDX-License-Identifier: GPL-3.0-or-later
# backend/model.c: values get the adapter of keys
# noticed by check_engine
s/LORA_V, V, NORMED/LORA_K, V, NORMED/
