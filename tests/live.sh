#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Scenarios on the real engine of this machine, in real time: counts, tokens, sums, exit codes, and
# that a recording replays to the same bytes. Nothing here depends on how fast the machine is.
set -u
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/real.sh"

: "${LULL:?must name the program}"
scenario=$srcdir/scenarios/ci-live-batch-cpu.xml
out=$scratch/out
arms='shared-priority shared-fcfs dedicated'

# column N of the line of a run in the table of the device: 4 steps, 5 finished, 6 tokens
on_device() { # ARM COLUMN
  awk -v arm="$1," -v column="$2" '/^On the device/ { on = 1 } on && $1 == arm { print $column }' "$out"
}

# requests ARM: how many of the file are there, how many finished, and their generated tokens
requests() {
  awk -F, -v arm="$1" '$1 == arm { n++; done += $17 == "finished"; tokens += $13
    bad += ($17 == "finished") != ($12 == $13) || $8 < $7 || $9 <= $8 || $10 < $9 }
    END { print n + 0, done + 0, tokens + 0, bad + 0 }' "$scratch/requests.csv"
}

"$LULL" models init tiny --seed 1 -o "$scratch/tiny" >"$out" 2>&1
check 'random weights' $? "$out"

# ------------------------------------------------------------------ C4 at tiny scale, for real ----
"$LULL" run "$scenario" --set 's:run/@window=700ms' --device cpu --weights "$scratch/tiny" \
  --threads 1 --record "$scratch/c4.lull" --json "$scratch/real.json" --log "$scratch/real.csv" \
  --requests "$scratch/requests.csv" >"$out" 2>"$scratch/err"
code=$?
cat "$scratch/err" >>"$out"
[ $code = 0 ]
check 'C4: all arms run on the cpu device' $? "$out"
for arm in $arms; do
  # shellcheck disable=SC2046
  set -- $(requests "$arm")
  [ "$1" -gt 60 ] && [ "$1" = "$2" ] && [ "$4" = 0 ]
  check "C4, $arm: all of $1 requests finish, with all their tokens, in order" $? "$out"
  [ "$2 $3" = "$(on_device "$arm" 5) $(on_device "$arm" 6)" ]
  check "C4, $arm: the device finished as many, and sampled the $3 tokens" $? "$out"
done
grep -q '"name": "cpu"' "$scratch/real.json" && grep -q '"kernels": "' "$scratch/real.json" &&
  grep -qE '"weights": "[0-9a-f]{32}"' "$scratch/real.json"
check 'C4: the JSON says which device, kernels and weights' $? "$scratch/real.json"

for arm in $arms; do
  echo "$(on_device "$arm" 4) $(on_device "$arm" 5)"
done >"$scratch/real.device"

"$LULL" run "$scenario" --set 's:run/@window=700ms' --device replay --recording "$scratch/c4.lull" \
  --json "$scratch/again.json" --log "$scratch/again.csv" --requests "$scratch/again-requests.csv" \
  >"$out" 2>&1
check 'C4: its recording replays' $? "$out"
for arm in $arms; do
  echo "$(on_device "$arm" 4) $(on_device "$arm" 5)"
done >"$scratch/again.device"
cmp "$scratch/real.device" "$scratch/again.device" >"$scratch/differ" 2>&1
check 'C4: the replay tells of as many steps and finished requests' $? "$out"
cmp "$scratch/real.csv" "$scratch/again.csv" >"$scratch/differ" 2>&1
check 'C4: the same decision log' $? "$scratch/differ"
cmp "$scratch/requests.csv" "$scratch/again-requests.csv" >"$scratch/differ" 2>&1
check 'C4: the same requests' $? "$scratch/differ"
same_results "$scratch/real.json" "$scratch/again.json"
check 'C4: the same results and ledger' $? "$scratch/differ"

# ------------------------------------------------------- what is not the same run says so, with 3 ----
fails() { # NAME CODE TEXT OPTION...: a run that must fail
  name=$1 want=$2 text=$3
  shift 3
  "$LULL" run "$@" >"$out" 2>"$scratch/err"
  [ $? = "$want" ] && grep -qF -e "$text" "$scratch/err"
  check "$name" $? "$scratch/err"
}
fails 'a replay of other requests' 3 'recorded on other requests' "$scenario" --device replay \
  --recording "$scratch/c4.lull"
fails 'a replay of other decisions' 3 'call 4 of the run is reserve' "$scenario" \
  --set 's:run/@window=700ms' --set 's:engine/@kv-blocks=2047' --device replay \
  --recording "$scratch/c4.lull"
fails 'a replay of another scenario' 3 "a recording of scenario 'ci-live-batch-cpu'" \
  "$srcdir/scenarios/mm1.xml" --device replay --recording "$scratch/c4.lull"
head -c 2000 "$scratch/c4.lull" >"$scratch/cut.lull"
fails 'a recording that is cut' 3 'cut or damaged' "$scenario" --device replay \
  --recording "$scratch/cut.lull"
fails 'speculation is not there for real' 3 'has speculation' c4-live-batch --device cpu \
  --weights "$scratch/tiny"
fails 'contexts longer than the model' 3 'the model takes 2048' "$scenario" \
  --set 's:engine/@max-context=4096tok' --device cpu --weights "$scratch/tiny"
fails 'no weights' 2 'needs --weights' "$scenario" --device cpu
fails 'no such folder' 3 'nowhere' "$scenario" --device cpu --weights "$scratch/nowhere"

# -------------------------------------------------- every policy and means: the tokens are the same ----
cat >"$scratch/arms.xml" <<'XML'
<scenario xmlns="urn:lull:scenario:1" version="1" id="arms">
  <title>The same requests under every policy</title>
  <run window="200ms" drain="none" seeds="5"/>
  <machine><analytic base="100us" per-token="10us" kv-per-token="512B" layers="2"/></machine>
  <engine max-seqs="8" token-budget="48tok" block="16tok" kv-blocks="24" host-link="5GB/s"
          max-context="256tok"/>
  <class id="live" kind="live">
    <arrivals process="constant" rate="100/s"/>
    <prompt dist="lognormal" mean="40tok" sigma="0.5" max="100tok"/>
    <output dist="lognormal" mean="40tok" sigma="0.5" max="100tok"/>
    <slo ttft="1s" tpot="1s"/>
  </class>
  <class id="late" kind="batch">
    <arrivals process="constant" rate="150/s"/>
    <prompt dist="lognormal" mean="40tok" sigma="0.5" max="100tok"/>
    <output dist="lognormal" mean="60tok" sigma="0.5" max="120tok"/>
  </class>
  <arm id="fcfs" policy="fcfs"><server id="s" gpu="0" classes="live late"/></arm>
  <arm id="fcfs-swap" policy="fcfs"><param name="preempt" value="swap"/>
    <server id="s" gpu="0" classes="live late"/></arm>
  <arm id="priority" policy="priority"><server id="s" gpu="0" classes="live late"/></arm>
  <arm id="priority-swap" policy="priority"><param name="preempt" value="swap"/>
    <server id="s" gpu="0" classes="live late" token-budget="16tok"/></arm>
  <arm id="cap" policy="cap"><param name="limit" value="4"/>
    <server id="s" gpu="0" classes="live late" block="8tok" kv-blocks="60"/></arm>
  <arm id="dedicated" policy="dedicated"><server id="l" gpu="0" classes="live"/>
    <server id="b" gpu="1" classes="late" max-seqs="3"/></arm>
</scenario>
XML
"$LULL" run "$scratch/arms.xml" --device cpu --weights "$scratch/tiny" --threads 1 \
  --record "$scratch/arms.lull" --json "$scratch/real.json" --log "$scratch/real.csv" >"$out" 2>&1
check 'every policy runs on the cpu device' $? "$out"
cp "$out" "$scratch/arms.txt"
for policy in $("$LULL" policies | grep -v '^ '); do
  grep -q "policy=\"$policy\"" "$scratch/arms.xml"
  check "policy $policy is among them" $?
done
awk '/^On the device/ { on = 1; next } on { n++; digest[$NF]++ }
  END { for (d in digest) k++; exit !(n == 6 && k == 1) }' "$out"
check 'whatever was shared, preempted, swapped or cut: the same tokens' $? "$out"
"$LULL" run "$scratch/arms.xml" --device replay --recording "$scratch/arms.lull" \
  --json "$scratch/again.json" --log "$scratch/again.csv" >"$out" 2>&1
check 'every policy replays' $? "$out"
cmp "$scratch/real.csv" "$scratch/again.csv" >"$scratch/differ" 2>&1 &&
  same_results "$scratch/real.json" "$scratch/again.json"
check 'to the same decisions and results' $? "$scratch/differ"
if [ "$(getconf _NPROCESSORS_ONLN)" -gt 1 ]; then
  "$LULL" run "$scratch/arms.xml" --arm dedicated --device cpu --weights "$scratch/tiny" \
    --cores 0:1 >"$out" 2>&1 &&
    [ "$(awk '/^On the device/ { on = 1; next } on { print $NF }' "$out")" = \
      "$(awk '/^On the device/ { on = 1; next } on { d = $NF } END { print d }' "$scratch/arms.txt")" ]
  check 'bound to processors: the same tokens' $? "$out"
fi

# ---------------------------------------------------------------------------------------- a signal ----
"$LULL" run "$scenario" --device cpu --weights "$scratch/tiny" --threads 1 \
  --record "$scratch/none.lull" --json "$scratch/part.json" >"$out" 2>"$scratch/err" &
interrupt $! "$scratch/none.lull"
code=$?
[ $code = 5 ] && grep -q '^PARTIAL' "$out" && grep -q '"partial": true' "$scratch/part.json"
check 'SIGINT: the ledger is closed, the results are partial, exit 5' $? "$scratch/err"
! [ -e "$scratch/none.lull" ]
check 'SIGINT: no recording of a part' $?
done_testing
