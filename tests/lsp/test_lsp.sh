#!/usr/bin/env bash
# `mica lsp`: a conversation as editors have it, and messages that are none.
set -u
. tests/shell.sh
python3 tests/lsp/lsp_client.py "$MICA" || exit 1
finish
