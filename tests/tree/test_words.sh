#!/usr/bin/env bash
# No sentence of comments and docs begins with What, Of, Where or Those, prose of pages has at most 150 columns, and headings skip no
# level. Not run outside of a git checkout.
# test: release
set -u
. tests/shell.sh
needs_checkout
words() { # TREE STATUS PATTERN < FILES
  expect "$2" "$3" python3 tests/tree/words.py "$1"
}

# The check can fail.
cat >"$work/page.md" <<'PAGE'
# What may stand in a heading
Text. Where is the question?
| Of a cell | text |
```text
What is shown.
```
PAGE
printf '%s\n' '// Where a comment' '// goes on.' 'int x; // those. Those' 'char *s = "What"; /* Of a block' ' * What follows */' >"$work/code.c"
printf '%s\n' '"""What a string says.' '' 'Of many lines."""' 'x = 1  # Where it is' 'What = Of' >"$work/code.py"
words "$work" 1 '^page.md:3: Of a cell$' <<<page.md
[ "$(wc -l <"$work/out")" = 1 ] || complain "more of the page"
long=$(printf '%0151d' 0)
printf '%s\n' "$long" "| $long |" '```' "$long" '```' "${long%0}" >"$work/wide.md"
words "$work" 1 '^wide.md:1: 151 columns$' <<<wide.md
[ "$(wc -l <"$work/out")" = 1 ] || complain "other long lines of the page"
printf '%s\n' '# Page' '### Section' '```' '##### code' '```' '## Section' '### Part' >"$work/levels.md"
words "$work" 1 '^levels.md:2: the heading skips a level$' <<<levels.md
[ "$(wc -l <"$work/out")" = 1 ] || complain "other headings of the page"
words "$work" 1 '^code.c:1: Where a comment$' <<<code.c
[ "$(cut -d: -f2 "$work/out" | tr '\n' ' ')" = '1 3 4 5 ' ] || complain "other lines of C"
words "$work" 1 '^code.py:1: What a string says.$' <<<code.py
[ "$(cut -d: -f2 "$work/out" | tr '\n' ' ')" = '1 3 4 ' ] || complain "other lines of Python"

git ls-files -- '*.md' '*.c' '*.h' '*.def' '*.inc' '*.cuh' '*.cc' '*.js' '*.css' '*.py' '*.sh' '*.cmake' '*.txt' '*.mica' '*.tile' '*.toml' '*.yml' \
  Makefile ':!tests/golden/texts' ':!tests/fuzz' ':!tests/tree' >"$work/files"
words . 0 '' <"$work/files"
finish
