#!/usr/bin/env bash
# Installs what Mica needs to build, run and test on Debian and Ubuntu, and only what is missing; quick when all is
# there. docs/dependencies.md has the reason for each package.
#
#   scripts/setup.sh [--mpi|--docs]     --mpi: also what a build with -DMICA_MPI=ON needs; --docs: what `make docs` needs
set -euo pipefail

packages=(gcc g++ libc6-dev cmake ninja-build pkg-config libjansson-dev libsqlite3-dev libxxhash-dev
          libopenblas-openmp-dev libcmocka-dev libz3-dev clang-format-14 python3-dev python3-venv)
[ "${1:-}" != --mpi ] || packages+=(libopenmpi-dev openmpi-bin)
[ "${1:-}" != --docs ] || packages+=(doxygen)

fail() {
  echo "setup: $1" >&2
  echo "  hint: $2" >&2
  exit 3
}

if ! command -v dpkg-query >/dev/null; then
  for tool in gcc cmake ninja pkg-config; do
    command -v "$tool" >/dev/null || fail "$tool is missing and this is not Debian" "install the counterparts of: ${packages[*]}"
  done
  pkg-config --exists jansson sqlite3 libxxhash cmocka ||
    fail "libraries are missing and this is not Debian" "install the counterparts of: ${packages[*]}"
  exit 0
fi

missing=()
installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' "${packages[@]}" 2>/dev/null || true) "
for p in "${packages[@]}"; do
  [[ $installed == *" installed:$p "* ]] || missing+=("$p")
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "setup: installing ${missing[*]}"
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || fail "packages are missing and this is neither root nor a machine with sudo" \
    "as root: apt-get install ${missing[*]}"
  as_root=(sudo)
  [ -t 0 ] || as_root=(sudo -n)
fi
export DEBIAN_FRONTEND=noninteractive
install() { "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; }
# The package lists of a fresh machine are empty or old: fetch them, then install.
"${as_root[@]}" apt-get update -qq || echo "setup: apt-get update failed; trying with the lists at hand" >&2
install || fail "apt-get could not install ${missing[*]}" "look at the lines above; then run the command again"
