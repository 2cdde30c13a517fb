#!/usr/bin/env bash
# The command's database: whose database it takes, and that one which was tampered with, or is not Mica's, changes nothing.
# test: release
set -u
. tests/shell.sh
export HOME=$work/home TMPDIR=$work
unset XDG_CACHE_HOME MICA_DB
mkdir "$HOME"
cat >"$work/soft.mica" <<'MICA'
program soft() {
  X: f32[8, 64]
  E = exp(X)
  return E / sum(E, dim=1)
}
MICA
soft=("$MICA" optimize "$work/soft.mica" --measure 1 --tune 1 --max-block-ops 3 --disturbed)

# ---- the default database ----
(umask 000; "${soft[@]}" --quiet) >"$work/out" 2>&1 || complain "an open umask"
[ "$(stat -c %a "$HOME/.cache" "$HOME/.cache/mica" "$HOME/.cache/mica/mica.db" "$HOME/.cache/mica/key" | tr '\n' ' ')" = "700 700 600 600 " ] ||
  complain "other users may write: $(stat -c '%n %a' "$HOME/.cache/mica"/*)"
expect 0 'recalled from the database' "${soft[@]}"
expect 0 'warning: no database is used: there is no default database' env -u HOME "${soft[@]}" --quiet
expect 0 'no default database' env -u HOME "$MICA" search "$work/soft.mica" --max-block-ops 3
chmod 777 "$HOME/.cache/mica"
expect 0 'can be written by other users' "${soft[@]}"
expect 3 '\[untrusted\]' "${soft[@]}" --db "$HOME/.cache/mica/mica.db"
expect 3 '\[untrusted\]' env MICA_DB="$HOME/.cache/mica/mica.db" "${soft[@]}"
chmod 700 "$HOME/.cache/mica"

# ---- rows that were changed ----
if command -v python3 >/dev/null && python3 -c 'import sqlite3' 2>/dev/null; then
  db() { python3 -c 'import sqlite3, sys; s = sqlite3.connect(sys.argv[1]); s.execute(sys.argv[2]); s.commit()' "$@"; }
  db "$HOME/.cache/mica/mica.db" "UPDATE best SET json = replace(json, '\"program\": \"soft\"', '\"program\": \"evil\"')"
  expect 0 'was changed, or made by another user' "${soft[@]}"
  grep -q "recalled\|evil" "$work/out" && complain "a changed row was used"
  expect 0 'recalled from the database' "${soft[@]}"
  db "$work/other.db" 'CREATE TABLE people (name TEXT)'
  chmod 600 "$work/other.db"
  before=$(sha256sum <"$work/other.db")
  expect 3 'another program' "${soft[@]}" --db "$work/other.db"
  [ "$before" = "$(sha256sum <"$work/other.db")" ] || complain "another program's database was changed"
else
  echo "skipped: changed rows, as there is no sqlite3 of Python"
fi

# ---- of another user ----
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null; then
  chmod 755 "$work"
  mkdir -m 755 "$work/theirs"
  chown 65534:65534 "$work/theirs"
  expect 3 'belongs to user 65534' "${soft[@]}" --db "$work/theirs/x.db"
  mkdir -m 1777 "$work/tmp"
  setpriv --reuid 65534 --regid 65534 --clear-groups ln -s "$HOME/.cache/mica" "$work/tmp/link"
  expect 3 'link belongs to user 65534' "${soft[@]}" --db "$work/tmp/link/mica.db"
  if setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$MICA"; then
    under=(setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$work/theirs" TMPDIR="$work/theirs")
    expect 0 '' "${soft[@]}" --quiet
    expect 0 'recalled from the database' "${soft[@]}"
    chmod 755 "$HOME/.cache" "$HOME/.cache/mica"
    expect 0 'mica belongs to user 0, and this is user 65534' env HOME="$HOME" "$MICA" search "$work/soft.mica" --max-block-ops 3
    under=()
  fi
else
  echo "skipped: files of another user, which root can make"
fi
finish
