# What docs/tile.md and the README's section on it show is true: programs are read, excerpts stand in their files, commands print what
# is printed there.
#
# An indented block that begins with `order` or `program` is a file named after its kernel or program; one that begins with
# `// FILE` is an excerpt; one that begins with `$ ` is a session. `...` is any lines.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
mkdir "$folder/bin" "$folder/block"
ln -s "$MICA" "$folder/bin/mica"
PATH="$folder/bin:$PATH"
for name in kernels examples tests; do ln -s "$PWD/$name" "$folder/$name"; done

# Blocks, one a file, without their indentation. Empty lines inside belong to them, but a session begins anew.
blocks() {
  awk -v to="$folder/block/" '
    /^    / {
      if (!open || (gap != "" && /^    \$ /)) { open = 1; file = sprintf("%s%03d", to, ++n); gap = "" }
      printf "%s%s\n", gap, substr($0, 5) > file
      gap = ""
      next
    }
    open && /^$/ { gap = gap "\n"; next }
    { open = 0 }' "$@"
}

# In `got`, the lines of `want` in order; trimmed where they are excerpts of a file.
follows() {
  awk -v trim="$1" -v first="$3" -v name="$4" '
    function line(x) { if (trim) gsub(/^ +| +$/, "", x); return x }
    FILENAME == first { got[++n] = line($0); next }
    { x = line($0) }
    x == "..." { loose = 1; next }
    { from = at + 1
      while (at < n && got[at + 1] != x && loose) at++
      if (at == n || got[at + 1] != x) { print name ": not there: " $0 " (after line " (from - 1) ")"; bad = 1; exit 1 }
      at++; loose = 0 }
    END { if (!bad && !loose && at < n) { print name ": more is printed: " got[at + 1]; exit 1 } }' "$3" "$2" >&2
}

session() { # FILE: commands with what they print
  : > "$folder/want"
  command=
  { cat "$1"; echo '$ true'; } | while IFS= read -r text; do
    case $text in
    '$ '*)
      if [ -n "$command" ]; then
        (cd "$folder" && bash -c "$command") > "$folder/got" 2>&1 < /dev/null || true
        follows 0 "$folder/want" "$folder/got" "$command" || exit 1
      fi
      command=${text#'$ '}
      : > "$folder/want"
      ;;
    *) printf '%s\n' "$text" >> "$folder/want" ;;
    esac
  done
}

excerpt() { # FILE: `// PATH`, then its lines
  path=$(sed -n '1s,^// ,,p' "$1")
  { echo ...; sed 1d "$1"; echo ...; } > "$folder/want"
  follows 1 "$folder/want" "$path" "$path" || fail "an excerpt of $path"
}

blocks docs/tile.md README.md
programs=0 sessions=0 excerpts=0
for b in "$folder"/block/*; do
  case $(head -n 1 "$b") in
  order*) cp "$b" "$folder/$(sed -n 's/^kernel \([a-z0-9_]*\) {.*/\1/p' "$b").tile"; programs=$((programs + 1)) ;;
  "program mm"*) cp "$b" "$folder/mm.mica" ;;
  esac
done
for b in "$folder"/block/*; do
  case $(head -n 1 "$b") in
  "// "*) excerpt "$b"; excerpts=$((excerpts + 1)) ;;
  '$ '*) session "$b" || fail "docs/tile.md says something else"; sessions=$((sessions + 1)) ;;
  esac
done
[ "$programs" -ge 3 ] && [ "$sessions" -ge 12 ] && [ "$excerpts" -ge 8 ] ||
  fail "only $programs programs, $sessions sessions, $excerpts excerpts were found"
for f in "$folder"/*.tile; do
  case $f in */other.tile | */odd.tile) continue ;; esac # shown as refused
  "$MICA" tile check "$f" > /dev/null || fail "$f"
done

# Every row of the tables that a program can name is in the reference; of a family the part that is named.
rows() { sed -n "s/^$1(\([A-Z0-9]*, \)*\"\([^\"]*\)\".*/\2/p" "src/tile/$2" | sort -u; }
named=0
for row in $(rows EVENT instr.def) $(rows TYPE type.def) $(rows SPEC spec.def) $(rows UNARY_OP pointwise.def) \
  $(rows BINARY_OP pointwise.def | grep '[a-z]') $(sed -n 's/^TARGET([0-9]*, "\(.*\)",.*/\1/p' src/tile/target.def); do
  word=$row
  until grep -qF "\`$word\`" docs/tile.md || grep -qF "\`$word, " docs/tile.md; do
    case $word in *.*.* | barrier.*) word=${word%.*} ;; *) fail "docs/tile.md does not name $row" ;; esac
  done
  named=$((named + 1))
done
[ "$named" -ge 60 ] || fail "only $named rows were read"
echo "$named rows, $programs programs, $sessions sessions, $excerpts excerpts"
