# Shared by the shell tests of searches: an answer without what depends on the clock or on who did the work.
. tests/shell.sh
answer() { sed -E 's/"(seconds|first_seconds|resumed)": *[^,}]*//g' "$1"; }
