#!/usr/bin/env bash
# The extension of VS Code with a stand-in of its interface, and `mica lsp` behind it.
set -euo pipefail
command -v node >/dev/null || { echo "skipped: node is not installed"; exit 77; }
MICA=${MICA:?} exec node tests/lsp/vscode_standin.js
