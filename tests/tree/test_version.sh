#!/usr/bin/env bash
# The version stands in CMakeLists.txt; files of others that have to repeat it have the same.
set -eu
version=$(sed -n 's/^project(mica VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[ -n "$version" ] || { echo "FAILED: CMakeLists.txt has no version"; exit 1; }
same() { # FILE PATTERN
  [ "$(sed -n "s/$2/\\1/p" "$1")" = "$version" ] || { echo "FAILED: $1 has not version $version"; exit 1; }
}
same CITATION.cff '^version: \(.*\)$'
same editors/vscode/package.json '^ *"version": "\(.*\)",$'
"$MICA" version | grep -q "^mica $version " || { echo "FAILED: mica version"; exit 1; }
! grep -qF "\"$version\"" pyproject.toml || { echo "FAILED: pyproject.toml repeats the version"; exit 1; }
