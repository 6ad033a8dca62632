#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Training in the background on the real engine of this machine: counts, conservation, that it
# learns, that the adapter depends on the number of micro-steps alone, and that a recording replays.
# Nothing here depends on how fast the machine is.
set -u
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/real.sh"

: "${LULL:?must name the program}"
scenario=$srcdir/scenarios/ci-train-cpu.xml
harvest=$(dirname "$LULL")/tests/nasty-harvest.so
out=$scratch/out

# column N, from the right, of the line of an arm in the table of trainings: 1 digest, 2 loss after,
# 3 loss before, 4 steps, 5 micro-steps
trained() { # ARM COLUMN
  awk -v arm="$1" -v column="$2" '/^Trained on the device/ { on = 1 }
    on && index($0, ": " arm ",") { print $(NF + 1 - column) }' "$out"
}
counted() { # ARM: micro-steps of its job in the world
  awk -v arm="$1" '/^Job / { on = 1 } /^Ledger/ { on = 0 } on && $2 == arm { print $4 }' "$out"
}
# requests ARM: how many there are, and how many of them finished with all their tokens
requests() {
  awk -F, -v arm="$1" '$1 == arm { n++; done += $17 == "finished" && $12 == $13 }
    END { print n + 0, done + 0 }' "$scratch/requests.csv"
}
on_cpu() { # OPTION...
  "$LULL" run "$@" --device cpu --weights "$scratch/tiny" --threads 1 >"$out" 2>"$scratch/err"
  code=$?
  cat "$scratch/err" >>"$out"
  return $code
}

"$LULL" models init tiny --seed 1 -o "$scratch/tiny" >"$out" 2>&1
check 'random weights' $? "$out"

# ------------------------------------------------------------- a GPU each, and one for both ----
on_cpu "$scenario" --set 's:run/@window=1500ms' --record "$scratch/train.lull" \
  --json "$scratch/real.json" --log "$scratch/real.csv" --requests "$scratch/requests.csv"
check 'a job trains on a GPU of its own, and on the server'"'"'s' $? "$out"
for arm in dedicated shared; do
  # shellcheck disable=SC2046
  set -- $(requests "$arm")
  [ "$1" -gt 0 ] && [ "$1" = "$2" ]
  check "$arm: all of $1 requests finish, with all their tokens" $? "$out"
  n=$(counted $arm) m=$(trained $arm 5)
  [ "$n" -gt 0 ] && { [ "$m" = "$n" ] || [ "$m" = $((n + 1)) ]; } && [ "$(trained $arm 4)" = "$m" ]
  check "$arm: $n micro-steps in the world, $m in the adapter, each with its step" $? "$out"
  awk -v before="$(trained $arm 3)" -v after="$(trained $arm 2)" 'BEGIN { exit !(after < before) }'
  check "$arm: what is not learnt gets more likely too" $? "$out"
done
[ "$(trained dedicated 3)" = "$(trained shared 3)" ]
check 'both began alike' $? "$out"
[ "$(awk '/^On the device/ { on = 1; next } !NF { on = 0 } on { print $NF }' "$out" | uniq | wc -l)" = 1 ]
check 'the same tokens beside it and without it' $? "$out"
grep -q '"loss_after": [0-9]' "$scratch/real.json" &&
  grep -q "\"adapter\": \"$(trained shared 1)\"" "$scratch/real.json"
check 'the JSON says what was learnt' $? "$scratch/real.json"
awk '/^training/ { busy = $2 + $4 } /^paid/ { paid = $2 + $4 } END { exit !(busy > 0 && paid > busy) }' "$out"
check 'its time is in the account of training' $? "$out"

"$LULL" run "$scenario" --set 's:run/@window=1500ms' --device replay \
  --recording "$scratch/train.lull" --json "$scratch/again.json" --log "$scratch/again.csv" \
  >"$out" 2>&1
check 'the recording replays without a trainer' $? "$out"
cmp "$scratch/real.csv" "$scratch/again.csv" >"$scratch/differ" 2>&1 &&
  same_results "$scratch/real.json" "$scratch/again.json"
check 'to the same decisions, results and ledger' $? "$scratch/differ"
! grep -q '"training": \[' "$scratch/again.json" && ! grep -q '^Trained' "$out"
check 'and learns nothing' $? "$out"

# ------------------------------------- as many micro-steps are the same adapter, in any company ----
cat >"$scratch/counted.xml" <<XML
<scenario xmlns="urn:lull:scenario:1" version="1" id="counted">
  <title>Six micro-steps</title>
  <run window="2s" drain="none" seeds="5"/>
  <machine><analytic base="100us" per-token="10us" kv-per-token="512B" layers="2"/></machine>
  <engine max-seqs="8" token-budget="48tok" block="16tok" kv-blocks="64" host-link="5GB/s"
          max-context="256tok"/>
  <class id="live" kind="live">
    <arrivals process="constant" rate="5/s"/>
    <prompt dist="constant" mean="40tok"/>
    <output dist="constant" mean="30tok"/>
    <slo ttft="1s" tpot="1s"/>
  </class>
  <arm id="alone" policy="fcfs">
    <server id="s" gpu="0" classes="live"/><server id="t" gpu="1" classes=""/>
    <job id="job" gpu="1" micro-step="1ms" contention="2" micro-steps="6" batch="2" accumulate="2"/>
  </arm>
  <arm id="beside" policy="fcfs">
    <server id="s" gpu="0" classes="live"/>
    <job id="job" gpu="0" micro-step="1ms" contention="2" micro-steps="6" batch="2" accumulate="2"
         learning-rate="0.002"/>
  </arm>
  <arm id="in-lulls" policy="$harvest">
    <server id="s" gpu="0" classes="live"/>
    <job id="job" gpu="0" micro-step="1ms" contention="2" micro-steps="6" batch="2" accumulate="2"
         paused="yes"/>
  </arm>
  <arm id="never" policy="fcfs">
    <server id="s" gpu="0" classes="live"/>
    <job id="job" gpu="0" micro-step="1ms" contention="2" paused="yes"/>
  </arm>
</scenario>
XML
on_cpu "$scratch/counted.xml" --adapters "$scratch/kept" --record "$scratch/counted.lull" --json "$scratch/real.json" \
  --log "$scratch/real.csv"
check 'jobs alone, beside a server, and paused and let run by a policy' $? "$out"
for arm in alone beside in-lulls; do
  [ "$(counted $arm) $(trained $arm 5) $(trained $arm 4)" = '6 6 3' ]
  check "$arm: six micro-steps, three steps" $? "$out"
  [ -n "$(trained $arm 1)" ] && [ "$(trained $arm 1)" = "$(trained alone 1)" ]
  check "$arm: the same adapter" $? "$out"
done
cmp "$scratch/kept/alone+job+5/adapter_model.safetensors" \
  "$scratch/kept/in-lulls+job+5/adapter_model.safetensors" >"$scratch/differ" 2>&1 &&
  "$LULL" generate --weights "$scratch/tiny" --adapter "$scratch/kept/beside+job+5" --tokens 1,2 \
    --max-tokens 3 >"$scratch/text" 2>&1
check 'adapters are kept, and can be served' $? "$scratch/text"
[ "$(counted never) $(trained never 5)" = '0 0' ] && [ "$(trained never 1)" != "$(trained alone 1)" ]
check 'one that is paused for ever learns nothing' $? "$out"
grep -q ',train,' "$scratch/real.csv"
check 'the policy paused it' $? "$scratch/real.csv"
"$LULL" run "$scratch/counted.xml" --device replay --recording "$scratch/counted.lull" \
  --json "$scratch/again.json" --log "$scratch/again.csv" >"$out" 2>&1 &&
  cmp "$scratch/real.csv" "$scratch/again.csv" >"$scratch/differ" 2>&1 &&
  same_results "$scratch/real.json" "$scratch/again.json"
check 'they replay' $? "$out"

# ------------------------------------------------------------------------------------ failures ----
on_cpu "$scratch/counted.xml" --arm beside --set "s:arm[@id='beside']/s:job/@learning-rate=1000" \
  --set "s:arm[@id='beside']/s:job/@micro-steps=0" --set 's:run/@window=100s' \
  --json "$scratch/none.json"
[ $? = 6 ] && grep -q "job 'job': the device failed a micro-step" "$scratch/err" &&
  grep -q 'is no number: the learning rate may be too high' "$scratch/err" &&
  ! [ -e "$scratch/none.json" ]
check 'a loss that is no number ends the run with exit 6' $? "$scratch/err"
"$LULL" run "$scenario" --adapters "$scratch/kept" >"$out" 2>"$scratch/err"
[ $? = 2 ] && grep -q -e '--adapters is for --device cpu' "$scratch/err"
check 'a simulated job has no adapter to keep' $? "$scratch/err"
on_cpu "$scenario" --adapters "$scratch/none/there"
[ $? = 6 ] && grep -q 'cannot make the folder' "$scratch/err"
check 'a folder that cannot be made is told before anything runs' $? "$scratch/err"
"$LULL" run "$scenario" --arm shared --set 's:run/@window=100s' --device cpu \
  --weights "$scratch/tiny" --threads 1 --record "$scratch/none.lull" >"$out" 2>"$scratch/err" &
interrupt $! "$scratch/none.lull"
[ $? = 5 ] && grep -q '^PARTIAL' "$out" && [ "$(trained shared 2)" = - ]
check 'SIGINT: how far it came, and no loss of it; exit 5' $? "$out"
done_testing
