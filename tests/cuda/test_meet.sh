#!/usr/bin/env bash
# The exchange of ranks on GPUs (src/cuda/meet.cuh) on a CPU: threads are fibers, and stores to other ranks arrive late, in any order. The text is
# right, and each mistake that is planted in it is found.
# test: release
# test: timeout 300
set -u
. tests/shell.sh
command -v g++ >/dev/null || { echo "skipped: g++ is not there"; exit 77; }
under=()

options=(-std=c++17 -Wall -Werror -Wno-unknown-pragmas -Wno-unused-function -fno-strict-aliasing -I src -I tests/cuda)
mapfile -t sources < <(g++ "${options[@]}" -MM -DWORLD=2 -DMEET_TEXT='"cuda/meet.cuh"' tests/cuda/meet_shim.cc tests/cuda/meet_rows.cc |
  tr ' ' '\n' | grep / | sort -u)
[ ${#sources[@]} -gt 5 ] || complain "the sources of the test are ${sources[*]}"
compile() { # OUT TEXT OPTION...: OUT of a text like meet.cuh, once (tests/once.sh)
  expect 0 '' bash tests/once.sh "$1" "$2" "${sources[@]}" -- g++ "${options[@]}" "${@:3}" -o "$1"
}
with_text() { # TEXT RANKS HOW: meet.cuh or a text like it, with the machine and the test of so many ranks, which is compiled once
  [ -f "$work/machine$2.o" ] || compile "$work/machine$2.o" src/cuda/meet.cuh -O1 -DWORLD="$2" -c tests/cuda/meet_shim.cc
  compile "$work/meet" "$1" "$3" -DWORLD="$2" -DMEET_TEXT="\"$1\"" tests/cuda/meet_rows.cc "$work/machine$2.o"
}
for ranks in 2 4 8; do
  with_text "$PWD/src/cuda/meet.cuh" "$ranks" -O1
  expect 0 "of $ranks ranks: right; a rank that stays away ends all" "$work/meet" 20
done

# planted WHAT OLD NEW: text that is there is replaced everywhere, and the test must fail.
planted() {
  local text
  text=$(cat src/cuda/meet.cuh)
  [[ $text == *"$2"* ]] || complain "there is no text to plant: $1"
  printf '%s\n' "${text//"$2"/$3}" >"$work/planted.cuh"
  with_text "$work/planted.cuh" 4 -O0
  "$work/meet" 20 >"$work/out" 2>&1 && complain "not found: $1"
}
planted 'words do not alternate' '((epoch & 1) * RANKS + source) * m.word' 'source * m.word'
planted 'slots do not alternate' '((epoch & 1) * RANKS + source) * m.slot' 'source * m.slot'
planted 'flags do not alternate' '((epoch & 1) * 2 + shot)' 'shot'
planted 'a word is taken with any epoch' 'v.w != epoch' 'v.w == 0'
planted 'a word without its epoch' '{0, 0, 0, epoch}' '{0, 0, 0, 1}'
planted 'words go to the slot of another rank' 'meet_words<RANKS>(w, m, r, epoch, w.rank) + i, v' 'meet_words<RANKS>(w, m, r, epoch, r) + i, v'
planted 'words come from the slot of another rank' 'v[r] = meet_get(meet_words<RANKS>(w, m, w.rank, epoch, r)' \
  'v[r] = meet_get(meet_words<RANKS>(w, m, w.rank, epoch, r ^ 1)'
planted 'data go to the slot of another rank' 'meet_slot<RANKS, U>(w, m, r, epoch, w.rank)' 'meet_slot<RANKS, U>(w, m, r, epoch, r)'
planted 'sums go to the place of another part' 'meet_result<RANKS, U>(w, m, r) + first + i' 'meet_result<RANKS, U>(w, m, r) + i'
planted 'nobody waits for data' 'if (!meet_flags(w, epoch, 0)) return;' ''
planted 'nobody waits for sums' 'if (!meet_flags(w, epoch, 1)) return;' ''
planted 'a flag does not wait for the stores before it' 'meet_release(meet_flag' 'meet_store(meet_flag'
planted 'a flag does not wait for the threads of the block' $'meet_all(true);\n  if (MEET_TID < w.ranks' 'if (MEET_TID < w.ranks'
planted 'the epoch stays' 'meet_tell(meet_head(w, w.rank, MEET_EPOCH), epoch);' ''
planted 'an epoch is what fresh memory has' 'epoch ? epoch : 2' 'epoch'
planted 'places do not alternate where epochs wrap around' 'epoch ? epoch : 2' 'epoch ? epoch : 1'
planted 'blocks that ended are not forgotten' 'meet_tell(meet_head(w, w.rank, MEET_ENDED), 0);' ''
planted 'the first block ends the epoch' 'before + 1 < (u32)MEET_GRID' 'before + 1 < 1'
planted 'ranks are added in another order' 'for (int r = 1; r < RANKS; r++) s +=' 'for (int r = RANKS - 1; r; r--) s +='
planted 'own data come from another part' 'in[first + i], i, epoch' 'in[i], i, epoch'
planted 'a part is too short' 'n - rank * part < part ? n - rank * part : part' 'n - rank * part < part ? 0 : part'
planted 'a fault is not told' 'meet_tell(w.told, late + 1);' ''
planted 'other ranks do not tell a fault' 'meet_tell(w.told, MEETING_OTHERS);' ''
finish
