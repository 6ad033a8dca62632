#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# make holdout-page: imports every published table of the public data sets ($LULL_DATA) and renews the
# tables of held-out errors between the marks of the page. Needs $LULL and $HOLDOUT.
set -u
LC_ALL=C
export LC_ALL
page=${1:?must name the page}
k=${LULL_DATA:?must name the folder of the public data sets}/kernels
: "${LULL:?must name the program}" "${HOLDOUT:?must name the program}"
scratch=$(mktemp -d) || exit 6
trap 'rm -rf "$scratch"' EXIT
trap 'exit 5' HUP INT TERM

# The errors of one import as rows: WHAT NAME GPU MODEL OPTION... ; NAME is the file to keep.
import() {
  what=$1 file=$scratch/$2.h5 gpu=$3 model=$4
  shift 4
  "$LULL" import --gpu "$gpu" --model "$model" -o "$file" "$@" 2>"$scratch/told" ||
    { cat "$scratch/told" >&2; exit 1; }
  sed -n 's/^  \(.*[^ ]\) *  *\([0-9][0-9]*\)  *\([0-9][0-9]*\)  *\([0-9.]*\)%  *\([0-9.]*\)%  *\([0-9.]*\)%$/| \1 | \2 | \3 | \4 | \5 | \6 |/p' \
    "$scratch/told" | sed "s/^/| $what /"
}
aic() { # FILES: the three tables of a GPU and engine
  echo "$k/aic-$1-gemm${2:-}.csv.gz $k/aic-$1-context-attention.csv.gz $k/aic-$1-generation-attention.csv.gz"
}
lss() {
  echo "$k/llmservingsim-$1-dense.csv.gz $k/llmservingsim-$1-per_sequence.csv $k/llmservingsim-$1-attention.csv.gz"
}

# shellcheck disable=SC2046
{
  echo '| table | part | samples | held out | p50 % | p95 % | max % |'
  echo '|---|---|---:|---:|---:|---:|---:|'
  s='--from llmservingsim'
  import 'RTX PRO 6000, Llama-3.1-8B' rtx-pro-6000 rtx-pro-6000 llama-3.1-8b $s $(lss rtxpro6000-llama3.1-8b-tp1) \
    "$k/llmservingsim-rtxpro6000-llama3.1-8b-tp1-skew.csv.gz"
  import 'RTX PRO 6000, Qwen3-32B, 1 of 2' rtx-pro-6000-tp2 rtx-pro-6000 qwen3-32b $s --tp 2 $(lss rtxpro6000-qwen3-32b-tp2)
  import 'RTX 4090, Llama-3.1-8B' rtx-4090 rtx-4090 llama-3.1-8b $s $(lss rtx4090-llama3.1-8b-tp1)
  s='--from aiconfigurator --law tables'
  import 'H200, bf16, Llama-3.1-8B' h200 h200-sxm llama-3.1-8b $s --weights bfloat16 --kv bfloat16 $(aic h200-vllm0.24.0)
  import 'H200, fp8, Llama-3.1-8B' h200-fp8 h200-sxm llama-3.1-8b $s --weights fp8 --kv fp8 $(aic h200-vllm0.24.0)
  import 'H200, fp8, Llama-3.1-70B, 1 of 4' h200-tp4 h200-sxm llama-3.1-70b $s --tp 4 --weights fp8 --kv fp8 \
    $(aic h200-vllm0.24.0) "$k/aic-h200-vllm0.24.0-custom-allreduce.csv" "$k/aic-h200-nccl2.29.2.csv"
  import 'H100, bf16, Llama-3.1-8B' h100 h100-sxm llama-3.1-8b $s --weights bfloat16 --kv bfloat16 $(aic h100-vllm0.24.0 -bf16)
  import 'A100, bf16, Llama-3.1-8B' a100 a100-80g llama-3.1-8b $s --weights bfloat16 --kv bfloat16 $(aic a100-vllm0.14.0)
  s='--from vidur'
  import 'A30, Qwen2-7B (vidur)' a30 a30 qwen2-7b $s "$k/vidurfork-a30-qwen2-7b-mlp.csv.gz" "$k/vidurfork-a30-qwen2-7b-attention.csv.gz"
  s='--from vidur --derive'
  import 'H100, Llama-2-7B (vidur)' h100-v h100-sxm llama-2-7b $s "$k/vidur-h100-llama2-7b-mlp.csv.gz"
  import 'H100, Llama-2-70B, 1 of 4 (vidur)' h100-v70 h100-sxm llama-2-70b $s --tp 4 "$k/vidur-h100-llama2-70b-mlp.csv.gz" \
    "$k/vidur-h100_dgx-all_reduce.csv.gz"
  import 'A100, Llama-3-8B (vidur)' a100-v a100-80g llama-3.1-8b $s "$k/vidur-a100-llama3-8b-mlp.csv.gz"
  s='--from splitwise'
  import 'H100 x 8, Llama-2-70B (splitwise)' h100-s h100-sxm llama-2-70b $s --tp 8 "$k/splitwise-perf-model.csv.gz"
  import 'A100 x 8, Llama-2-70B (splitwise)' a100-s a100-80g llama-2-70b $s --tp 8 "$k/splitwise-perf-model.csv.gz"
} >"$scratch/tables" || exit 1

{
  echo '| table | part | samples | held out | p50 % | p95 % | max % |'
  echo '|---|---|---:|---:|---:|---:|---:|'
  whole() { "$HOLDOUT" "$1" "$2" "$k/aic-$3-context-attention.csv.gz" "$k/aic-$3-generation-attention.csv.gz"; }
  whole h200-sxm bfloat16 h200-vllm0.24.0 && whole h200-sxm fp8 h200-vllm0.24.0 &&
    whole h100-sxm bfloat16 h100-vllm0.24.0 && whole a100-80g bfloat16 a100-vllm0.14.0
} >"$scratch/whole" || exit 1

# How far the roofline is from a measured calibration: WHAT FILE GPU MODEL TYPE TP.
derived() {
  "$LULL" import -q --from roofline --gpu "$3" --model "$4" --weights "$5" --kv "$5" --tp "$6" -o "$scratch/r.h5" || exit 1
  "$LULL" calibration diff "$scratch/$2.h5" "$scratch/r.h5" |
    sed -n '/^size of/,$s/^  \(.*[^ ]\) *  *\([0-9][0-9]*\)  *\([0-9.]*\)%  *\([0-9.]*\)%  *\([0-9.]*\)%$/| \1 | \2 | \3 | \4 | \5 |/p' |
    sed "s/^/| $1 /"
}
{
  echo '| measured | part | points | p50 % | p95 % | max % |'
  echo '|---|---|---:|---:|---:|---:|'
  derived 'H200, bf16, Llama-3.1-8B' h200 h200-sxm llama-3.1-8b bfloat16 1
  derived 'H200, fp8, Llama-3.1-8B' h200-fp8 h200-sxm llama-3.1-8b fp8 1
  derived 'H200, fp8, Llama-3.1-70B, 1 of 4' h200-tp4 h200-sxm llama-3.1-70b fp8 4
  derived 'H100, bf16, Llama-3.1-8B' h100 h100-sxm llama-3.1-8b bfloat16 1
  derived 'A100, bf16, Llama-3.1-8B' a100 a100-80g llama-3.1-8b bfloat16 1
  derived 'RTX PRO 6000, bf16, Llama-3.1-8B' rtx-pro-6000 rtx-pro-6000 llama-3.1-8b bfloat16 1
  derived 'RTX 4090, bf16, Llama-3.1-8B' rtx-4090 rtx-4090 llama-3.1-8b bfloat16 1
  derived 'A30, bf16, Qwen2-7B' a30 a30 qwen2-7b bfloat16 1
} >"$scratch/roofline" || exit 1

awk -v dir="$scratch" '
  /^<!-- end -->$/ { inside = 0 }
  !inside
  /^<!-- (tables|whole|roofline) -->$/ {
    inside = 1
    f = dir "/" $2
    while ((getline line < f) > 0) print line }' "$page" >"$scratch/page" && cp "$scratch/page" "$page"
