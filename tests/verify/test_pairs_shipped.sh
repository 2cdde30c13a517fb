# Pairs of programs whose answer is known: those of pairs/unequal differ as functions of real numbers, those of pairs/equal agree where
# both are defined. Under every seed `mica verify` ends with 1 and 0.
# test: timeout 600
set -u
cd "$(dirname "$0")/pairs"
seeds=$(seq 1 20)
[ -z "${MICA_SANITIZED:-}" ] || seeds="1 2"
bad=0
for kind in equal unequal; do
  for p in $kind/*.p.mica; do
    for seed in $seeds; do
      "$MICA" verify "$p" "${p%.p.mica}.g.mica" --seed "$seed" >/dev/null 2>&1
      status=$?
      [ $kind = equal ] && wanted=0 || wanted=1
      [ $status = $wanted ] || { echo "${p%.p.mica}, seed $seed: status $status, not $wanted"; bad=1; break; }
    done
  done
done
exit $bad
