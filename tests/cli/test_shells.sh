#!/usr/bin/env bash
# The texts that the command prints for shells and man: every command and option is in it, shells complete by it, and man has no complaint.
set -u
. tests/shell.sh

for shell in bash zsh fish; do expect 0 'mica' "$MICA" completion $shell; cp "$work/out" "$work/$shell"; done
expect 2 'did you mean fish' "$MICA" completion fis
mapfile -t commands < <(sed -n 's/^CMD(\([a-z]*\),.*/\1/p' src/cli/cmd.def)
mapfile -t options < <(sed -n 's/^OPT([A-Z_]*, \([a-z-]*\),.*/\1/p' src/cli/opt.def)
[ ${#commands[@]} -gt 15 ] && [ ${#options[@]} -gt 50 ] || complain "the tables are not read"
for word in "${commands[@]}"; do
  for shell in bash zsh fish; do grep -q -- "\b$word\b" "$work/$shell" || complain "$shell: $word is missing"; done
done
for word in "${options[@]}"; do
  for shell in bash zsh; do grep -q -- "--$word\b" "$work/$shell" || complain "$shell: --$word is missing"; done
  grep -q -- "-l $word " "$work/fish" || complain "fish: $word is missing"
done

# completes LINE... EXPECTED: bash, at the end of the line
completes() {
  local wanted=${!#}
  COMP_WORDS=("${@:1:$#-1}") COMP_CWORD=$(($# - 2)) COMPREPLY=()
  _mica
  [ "${COMPREPLY[*]}" = "$wanted" ] || complain "bash: ${COMP_WORDS[*]}: ${COMPREPLY[*]}, not $wanted"
}
# shellcheck source=/dev/null
. "$work/bash"
completes mica opt 'optimize'
completes mica optimize --max-b '--max-block-ops'
completes mica optimize --accept '' 'proved full reduced'
completes mica optimize --target sm_90 'sm_90a'
completes mica layout --order r 'row'
completes mica tile em 'emit'
completes mica help sear 'search'
completes mica optimize --csv-without ''
completes mica run examples/softmax.m 'examples/softmax.mica'

if command -v zsh >/dev/null; then expect 0 '' zsh -n "$work/zsh"; fi
if command -v fish >/dev/null; then
  expect 0 'optimize' env HOME="$work" fish -c "source $work/fish; complete -C 'mica opt'"
  expect 0 '--max-block-ops' env HOME="$work" fish -c "source $work/fish; complete -C 'mica search --max-b'"
  expect 0 'reduced' env HOME="$work" fish -c "source $work/fish; complete -C 'mica optimize --accept '"
fi

expect 0 'NO_COLOR' "$MICA" man
expect 2 'did you mean optimize' "$MICA" man optimise
for page in '' "${commands[@]}"; do
  "$MICA" man $page >"$work/page.1" || complain "man $page"
  if command -v groff >/dev/null; then
    groff -man -ww -z -Tutf8 -Kutf8 "$work/page.1" 2>"$work/err" || complain "groff: $page"
    [ ! -s "$work/err" ] || complain "groff complains: $page"
  fi
done
finish
