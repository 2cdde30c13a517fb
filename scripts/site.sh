#!/usr/bin/env bash
# Builds the site, build/site/index.html: Doxygen reads include/mica.h, docs/generate.py writes the pages that are tables of the sources,
# Sphinx makes HTML of these and docs/*.md. Warnings are errors. $MICA is the command (build/mica).
#
#   scripts/site.sh [--no-install]     --no-install: status 77 where the tools are not there yet
#
# MICA_SITE_VERSIONS="0.1.0=https://... next=https://..." names the sites of other versions; the sidebar lists them.
set -euo pipefail
cd "$(dirname "$0")/.."
export MICA=${MICA:-$PWD/build/mica}
venv=build/docs/venv
stamp=$venv/$(sha256sum docs/requirements.txt | cut -c1-16)

if [ ! -f "$stamp" ] || ! command -v doxygen > /dev/null; then
  [ "${1:-}" != --no-install ] || { echo "skipped: \`make docs\` installs what the site needs"; exit 77; }
  bash scripts/setup.sh --docs
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r docs/requirements.txt
  touch "$stamp"
fi

source=build/docs/source
rm -rf "$source" build/docs/doxygen
mkdir -p "$source" build/docs/doxygen
cp -r docs/*.md docs/conf.py docs/_static docs/_templates "$source"
# Sphinx has a search.html of its own.
mv "$source/search.md" "$source/searching.md"
sed -i -E 's/\]\(search\.md/](searching.md/g; s/^search$/searching/' "$source"/*.md
# Links to files of the tree lead to the files.
for name in README.md LICENSE bench examples include kernels src tests; do ln -sfn "../../$name" "build/docs/$name"; done
MICA_SITE_VERSION=$(sed -n 's/^project(mica VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
export MICA_SITE_VERSION
python3 docs/generate.py "$source"
doxygen docs/Doxyfile
"$venv/bin/sphinx-build" -q -W --keep-going -b html -d build/docs/doctrees "$source" build/site
echo "build/site/index.html"
