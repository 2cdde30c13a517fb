#!/usr/bin/env bash
# The workloads that a seed draws from bench/peers/families.py: their list, their programs, the table of the cost model. With torch
# also that some of them compute what torch does.
# test: timeout 300
# test: quick release
set -u
. tests/shell.sh
export MICA_DB="$work/test.db" FAMILIES="$work/families"

if ! command -v python3 >/dev/null; then
  echo "skipped: no python3"
  exit 77
fi
peers() { python3 bench/peers.py --families "$@"; }
names() { sed -n 's/^\(fam\/[^ ]*\/[0-9]*\) .*/\1/p' "$1"; }

for seed in 1 1 2; do
  peers $seed --list >"$work/list$seed.new" 2>"$work/err" || complain "no list of seed $seed"
  [ ! -e "$work/list$seed" ] || cmp "$work/list$seed" "$work/list$seed.new" || complain "seed $seed draws two lists"
  mv "$work/list$seed.new" "$work/list$seed"
done
cmp -s "$work/list1" "$work/list2" && complain "two seeds draw one list"
[ "$(names "$work/list1" | wc -l)" -ge 150 ] || complain "fewer than 150 workloads"
[ "$(names "$work/list1" | cut -d/ -f2 | sort -u | wc -l)" -ge 30 ] || complain "fewer than 30 families"
[ -z "$(names "$work/list1" | sort | uniq -d)" ] || complain "a name is there twice"
grep -Eq '^fam/argmax +no program: ' "$work/list1" || complain "a family without a program is not listed with the reason"
grep '^fam/' "$work/list1" | sed 's/^[^ ]* *//' | grep -v '^no program' | sort | uniq -d >"$work/twice"
[ "$(wc -l <"$work/twice")" -le 3 ] || complain "workloads alike: $(cat "$work/twice")"

expect 0 '^fam/softmax/0 .*/1/fam_softmax_0.mica$' python3 bench/survey.py --families 1 --list
names "$work/out" | cmp -s - <(names "$work/list1") || complain "survey.py has other workloads than peers.py"
expect 2 'invalid int' peers x --list
for file in "$FAMILIES"/1/*.mica; do
  "$MICA" show "$file" >"$work/out" 2>"$work/err" || complain "$file"
done
[ "$(ls "$FAMILIES/1" | wc -l)" = "$(names "$work/list1" | wc -l)" ] || complain "a file for each workload"

model() { peers 1 --model "$work/model.csv" --mica-binary "$MICA" --limit-s 30 --only '^fam/rms_norm/0$'; }
expect 0 'fam/rms_norm/0 .*modelled +[0-9.]+ kernels +1 ' model
expect 0 '' model
[ "$(grep -c '^fam/rms_norm/0,' "$work/model.csv")" = 1 ] || complain "a row that is there is made again"
expect 0 'exit status 1' peers 1 --model "$work/false.csv" --mica-binary false --only '^fam/rms_norm/0$'

if python3 -c 'import torch, numpy' 2>/dev/null; then
  expect 0 ' agree$' peers 1 --agree --mica-binary "$MICA" --only '/(softmax|mla_cache|rotary|group_norm|loss)/'
  expect 1 'DIFFERS|FAILED' peers 1 --agree --mica-binary false --only '/softmax/0'
fi

finish
