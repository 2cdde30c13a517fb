# Pairs of programs whose answer is known: those of pairs/unequal differ as functions of real numbers, those of pairs/equal agree where
# both are defined. Under every seed `mica verify` ends with 0 for the latter. The former end with 1, or with 2 where the language
# has no such program, as with a constant that is infinite. Pairs of pairs/beyond are equal, too, by laws that nobody asks of the
# verifier: it may leave them undecided, and must not call them unequal. MICA_ALL=1 takes all 20 seeds; without it
# pairs run under one seed, and those that take seconds are left out.
# test: release
# test: timeout 900
set -u
cd "$(dirname "$0")/pairs"
seeds=1 slow='norm-count norm-heads '
[ -z "${MICA_ALL:-}" ] || seeds=$(seq 1 20) slow=''
bad=0
for kind in equal unequal beyond; do
  for p in $kind/*.p.mica; do
    name=${p##*/}
    [[ $slow != *"${name%.p.mica} "* ]] || continue
    for seed in $seeds; do
      said=$("$MICA" verify "$p" "${p%.p.mica}.g.mica" --seed "$seed" 2>&1)
      status=$?
      wanted=$([ $kind = unequal ] && echo 1 || echo 0)
      [[ $kind = unequal && $said = *"is no finite number"* ]] && wanted=2
      [[ $kind = beyond && $said = undecided* ]] && wanted=1
      [ $status = "$wanted" ] || { echo "${p%.p.mica}, seed $seed: status $status, not $wanted"; echo "$said"; bad=1; break; }
    done
  done
done
exit $bad
