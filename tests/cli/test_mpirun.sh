#!/usr/bin/env bash
# mpirun: processes that share a search find what one finds. A build without MPI says so instead of searching K times.
# test: timeout 300
set -u
. tests/cli/searches.sh

if [ -z "${MICA_MPI:-}" ]; then
  OMPI_COMM_WORLD_SIZE=2 "$MICA" search examples/softmax.mica --no-db >"$work/out" 2>&1
  [ $? = 3 ] && grep -q 'without MPI' "$work/out" || complain "a build without MPI does not say so"
  OMPI_COMM_WORLD_SIZE=1 "$MICA" search examples/softmax.mica --no-db --quiet || complain "one process is no crew"
else
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  for program in m_gqa m_lora g_lstm; do
    search() { "$@" search examples/$program.mica --dtype f32 --threads 2 --top 2 --quiet --db "$work/$program.db" --json "$work/now.json"; }
    search "$MICA" || complain "$program alone failed"
    mv "$work/now.json" "$work/alone.json"
    for k in 1 2 3; do
      search mpirun --oversubscribe -n $k "$MICA" || complain "$program with $k processes failed"
      cmp -s <(answer "$work/alone.json") <(answer "$work/now.json") || complain "$program with $k processes has another answer"
      rm -f "$work/now.json"
    done
  done
  mpirun --oversubscribe -n 2 "$MICA" search examples/none.mica >"$work/out" 2>&1 && complain "a missing program is no error"
  mpirun --oversubscribe -n 2 "$MICA" search examples/m_rms.mica --no-db >"$work/out" 2>"$work/err" || complain "text output failed"
  [ "$(grep -c 'operators tried' "$work/out")" = 1 ] || complain "not exactly one process answers"
fi

finish
