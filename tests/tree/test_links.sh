#!/usr/bin/env bash
# Links of pages lead to files of the tree and to headings of pages. Not run outside of a git checkout.
# test: release
set -u
. tests/shell.sh
needs_checkout
links() { # TREE STATUS PATTERN < PAGES
  expect "$2" "$3" python3 tests/tree/links.py "$1"
}

# The check can fail.
printf '%s\n' '# A page' '## Two `words`, twice' '## Two words twice' '[x](#two-words-twice) [y](#two-words-twice-1) [z](b.md)' '`[a](b)`' \
  '[p](https://none.example/#q) [r](#three) [s](c.md) [t](b.md#gone)' >"$work/a.md"
echo '# B' >"$work/b.md"
links "$work" 1 '^a.md:6: #three$' <<<a.md
[ "$(cut -d' ' -f2 "$work/out" | tr '\n' ' ')" = '#three c.md b.md#gone ' ] || complain "other links of the page"

git ls-files -- '*.md' ':!tests' >"$work/pages"
links . 0 '' <"$work/pages"
finish
