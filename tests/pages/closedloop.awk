# SPDX-License-Identifier: GPL-3.0-or-later
# Tables of docs/closed-loop.md from points: model gpu backend weights prompt output users tp
# measured-ttft measured-tpot ttft later-ttft first-ttft tpot kind id (ttft: of all rounds).

function abs(x) { return x < 0 ? -x : x }

# Quantile p of a list of n numbers that stand with blanks between.
function quantile(text, p,    v, n, i, j, t, h) {
  n = split(text, v, " ")
  for (i = 2; i <= n; i++)
    for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
  h = (n - 1) * p + 1
  i = int(h)
  return i >= n ? v[n] + 0 : v[i] + (v[i + 1] - v[i]) * (h - i)
}

function add(table, key) {
  if (!((table, key) in count)) { order[table, ++rows[table]] = key }
  count[table, key]++
  between[table, key] += $9 >= ($12 < $13 ? $12 : $13) && $9 <= ($12 < $13 ? $13 : $12)
  for (k = 0; k < 2; k++) {
    size[table, key, k] = size[table, key, k] " " abs(error[k])
    signed[table, key, k] = signed[table, key, k] " " error[k]
  }
}

# Rows by the first number of their key; as they came where keys do not begin with one.
function sort_rows(table,    i, j, t) {
  for (i = 2; i <= rows[table]; i++)
    for (j = i; j > 1 && order[table, j] + 0 < order[table, j - 1] + 0; j--) {
      t = order[table, j]; order[table, j] = order[table, j - 1]; order[table, j - 1] = t
    }
}

function print_table(table, heading,    i, key) {
  sort_rows(table)
  print ""
  print "| " heading " | points | TPOT | size, p50 | p90 | TTFT | size, p50 | p90 | TTFT between |"
  print "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
  for (i = 1; i <= rows[table]; i++) {
    key = order[table, i]
    printf "| %s | %d", key, count[table, key]
    for (k = 0; k < 2; k++)
      printf " | %+.0f%% | %.0f%% | %.0f%%", 100 * quantile(signed[table, key, k], 0.5),
        100 * quantile(size[table, key, k], 0.5), 100 * quantile(size[table, key, k], 0.9)
    printf " | %.0f%% |\n", 100 * between[table, key] / count[table, key]
  }
}

$11 == "-" { skipped++; next }
{
  error[0] = $14 / $10 - 1
  error[1] = $11 / $9 - 1
  add("all", $15 == "tables" ? "from kernel tables" : "from the roofline (derived)")
  add("engine", $1 ", " $2 ", " $3 ", " ($4 == "fp8" ? "fp8" : "bf16") ($15 == "tables" ? "" : ", derived"))
  if ($15 == "tables") {
    add("tp", $8)
    add("users", $7 <= 8 ? "4 to 8" : $7 <= 16 ? "9 to 16" : $7 <= 32 ? "17 to 32" : $7 <= 64 ? "33 to 64" : "65 and more")
    add("prompt", $5 <= 1024 ? "1,000 and 1,024" : $5 <= 2048 ? "2,000 and 2,048" : $5 <= 4096 ? "4,000 and 4,096" : "8,000 and 8,192")
    add("output", $6 <= 128 ? "100 to 128" : $6 <= 256 ? "256" : $6 <= 512 ? "500 and 512" : "1,000 and more")
    for (k = 0; k < 2; k++) {
      n++
      miss[k, n] = abs(log(1 + error[k]))
      what[n] = sprintf("%s, %s, %s, TP %d, %d + %d tokens, %d users | %s | %.1f | %.1f | %+.0f%%", $1, $2, $3, $8, $5, $6, $7,
        k ? "TTFT" : "TPOT", $(10 - k), $(k ? 11 : 14), 100 * error[k])
    }
  }
}
END {
  print_table("all", "costs")
  print ""
  printf "Left out, for the memory does not hold them or there is no table: %d.\n", skipped
  print_table("engine", "model, GPU, engine, weights")
  print ""
  print "From kernel tables alone:"
  print_table("users", "users")
  print_table("prompt", "prompt tokens")
  print_table("output", "output tokens")
  print_table("tp", "tensor parallel")
  print ""
  print "The largest misses (of the ratio, either way), eight of each:"
  print ""
  print "| point | | measured, ms | predicted, ms | error |"
  print "|---|---|---:|---:|---:|"
  for (k = 0; k < 2; k++)
    for (i = 1; i <= 8; i++) {
      best = 0
      for (j = 1; j <= n; j++)
        if ((k, j) in miss && !(j in told) && (!best || miss[k, j] > miss[k, best]))
          best = j
      if (!best)
        break
      told[best]
      print "| " what[best] " |"
    }
}
