#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# make closed-loop-page: predicts the measured closed-loop points of dense models in the public data
# sets ($LULL_DATA) and renews the tables between the marks of the page. Needs $LULL.
set -u
LC_ALL=C
export LC_ALL
page=${1:?must name the page}
data=${LULL_DATA:?must name the folder of the public data sets}
: "${LULL:?must name the program}"
points=${POINTS:-$data/e2e/aic-silicon-sample-hopper.csv.gz}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d) || exit 6
trap 'rm -rf "$scratch"' EXIT
trap 'exit 5' HUP INT TERM

# model gpu backend weights prompt output users tp ttft tpot id, a line a point; weights that the file
# does not name are bf16, the engines' default. Separate prefill and decode servers are left out.
list() {
  gzip -dc "$points" | awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
    $c["mode"] != "agg" || $c["pp_size"] > 1 { next }
    { model = "" }
    $c["model_path"] ~ /Llama-3.1-8B/ { model = "llama-3.1-8b" }
    $c["model_path"] ~ /Llama-3.1-70B/ { model = "llama-3.1-70b" }
    $c["model_path"] ~ /Qwen3-32B/ { model = "qwen3-32b" }
    model == "" { next }
    { gpu = $c["system"]; sub(/_/, "-", gpu)
      print model, gpu, $c["backend"], $c["gemm_quant_mode"] ~ /fp8/ ? "fp8" : "bfloat16",
        $c["isl"], $c["osl"], $c["batch_size"], $c["tp_size"], $c["silicon_ttft_ms"],
        $c["silicon_tpot_ms"], $c["id"] }' | sort
}

# The calibration of MODEL GPU WEIGHTS TP KV: from tables where there are some, else derived.
calibrate() {
  file=$scratch/$1-$2-$3-$4-$5.h5
  [ -f "$file" ] && return 0
  k=$data/kernels/aic
  reduce="$k-h200-nccl2.29.2.csv $k-h200-vllm0.24.0-custom-allreduce.csv"
  [ "$4" -gt 1 ] && [ "$2" = h200-sxm ] || reduce=
  case $2-$3 in
  h200-sxm-*)
    tables="$k-h200-vllm0.24.0-gemm.csv.gz $k-h200-vllm0.24.0-context-attention.csv.gz $k-h200-vllm0.24.0-generation-attention.csv.gz" ;;
  h100-sxm-bfloat16)
    tables="$k-h100-vllm0.24.0-gemm-bf16.csv.gz $k-h100-vllm0.24.0-context-attention.csv.gz $k-h100-vllm0.24.0-generation-attention.csv.gz" ;;
  *)
    "$LULL" import -q --from roofline --model "$1" --gpu "$2" --weights "$3" --kv "$5" --tp "$4" -o "$file"
    return ;;
  esac
  # shellcheck disable=SC2086
  "$LULL" import -q --from aiconfigurator --law tables --model "$1" --gpu "$2" --weights "$3" \
    --kv "$5" --tp "$4" -o "$file" $tables $reduce
}

# The scenario of CALIBRATION PROMPT OUTPUT USERS WINDOW: so many users who ask again when answered.
# Outputs vary by a tenth either way: of one length, users who began in one step would end and ask
# again in one step for ever.
scenario() {
  cat <<XML
<scenario xmlns="urn:lull:scenario:1" version="1" id="closed-loop">
  <title>so many users who ask again</title>
  <run window="$5" seeds="1"/>
  <machine calibration="$1"/>
  <engine max-seqs="512" token-budget="8192tok" block="16tok" memory-fraction="90%" reserve="3.5GiB"
          host-link="55GB/s" max-context="$(($2 + $3 * 11 / 10))tok">
    <host step="1ms"/>
  </engine>
  <class id="users" kind="live">
    <arrivals process="none"/>
    <prompt dist="constant" mean="$2tok"/>
    <output dist="uniform" min="$(($3 * 9 / 10))tok" max="$(($3 * 11 / 10))tok"/>
    <slo ttft="1000s" tpot="1000s"/>
  </class>
  <arm id="loop" policy="fcfs">
    <server id="one" gpu="0" classes="users"/>
    <backlog server="one" class="users" below="$4"/>
  </arm>
</scenario>
XML
}

# Mean TTFT of all five rounds, behind the first and in it (there all ask at once), and mean TPOT
# behind it, ms; of all where there is no second.
means() {
  awk -F, -v users="$1" '
    NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
    $c["fate"] != "finished" { next }
    { n++; ttft[n] = ($c["first_token_ps"] - $c["arrival_ps"]) / 1e9
      tpot[n] = ($c["last_token_ps"] - $c["first_token_ps"]) / 1e9 / ($c["output"] - 1)
      id[n] = $c["id"]; if (id[n] >= users) later++ }
    END { for (i = 1; i <= n; i++) {
            if (!later || id[i] >= users) { a += ttft[i]; b += tpot[i]; m++ }
            if (!later || id[i] < users) { c1 += ttft[i]; m1++ }
            all += ttft[i] }
          if (m) print all / n, a / m, c1 / m1, b / m; else print "- - - -" }' "$scratch/requests.csv"
}

predict() {
  while read -r model gpu backend weights prompt output users tp ttft tpot id; do
    kind=tables
    [ "$gpu-$weights" = h100-sxm-fp8 ] && kind=roofline
    kv=bfloat16 # the engines' default; fp8 models of TensorRT-LLM are quantised with their cache
    [ "$backend-$weights" = trtllm-fp8 ] && kv=fp8
    window=$(awk -v t="$ttft" -v d="$tpot" -v o="$output" 'BEGIN { printf "%.3fs", 5 * (t + d * o) / 1000 }')
    if calibrate "$model" "$gpu" "$weights" "$tp" "$kv" 2>"$scratch/err" &&
      scenario "$scratch/$model-$gpu-$weights-$tp-$kv.h5" "$prompt" "$output" "$users" "$window" >"$scratch/s.xml" &&
      "$LULL" run "$scratch/s.xml" -q --requests "$scratch/requests.csv" >/dev/null 2>"$scratch/err"; then
      # shellcheck disable=SC2046
      set -- $(means "$users")
    else
      set -- - - - -
      echo "$id: $(tail -n 1 "$scratch/err")" >&2
    fi
    echo "$model $gpu $backend $weights $prompt $output $users $tp $ttft $tpot $1 $2 $3 $4 $kind $id"
  done
}

list | predict >"$scratch/points" || exit 1
awk -f "$here/closedloop.awk" "$scratch/points" >"$scratch/table" || exit 1
awk -v f="$scratch/table" '
  /^<!-- end -->$/ { inside = 0 }
  !inside
  /^<!-- table -->$/ { inside = 1; while ((getline line < f) > 0) print line }' "$page" >"$scratch/page" &&
  cp "$scratch/page" "$page"
[ -z "${KEEP:-}" ] || cp "$scratch/points" "$KEEP"
