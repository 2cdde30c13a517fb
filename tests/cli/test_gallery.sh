#!/usr/bin/env bash
# docs/gallery.md: each command's program can be read with its settings, and has the inputs and results of the graph that is shown.
# test: quick release
set -u
. tests/shell.sh
python3 - "$MICA" docs/gallery.md <<'PYTHON' || complain "the gallery"
import re, shlex, subprocess, sys

mica, page = sys.argv[1], open(sys.argv[2]).read()


def signature(text):
    """Inputs with their types, and types of results."""
    rows = [line.split() for line in text.split("\n") if re.match(r"  (input|output) ", line)]
    return sorted((r[0], r[1] if r[0] == "input" else "", " ".join(r[2:])) for r in rows)


blocks = re.findall(r"\n\$ build/mica optimize (\S+\.mica)((?: --set \S+)*) --target \S+\n```\n.*?```text\n(.*?)\n```", page, re.S)
assert len(blocks) == len(re.findall(r"^\$ ", page, re.M)) >= 12, len(blocks)
for path, settings, graph in blocks:
    shown = subprocess.run([mica, "show", path, *shlex.split(settings)], capture_output=True, text=True)
    assert shown.returncode == 0, (path, shown.stderr)
    assert len(signature(graph)) > 1 and signature(graph) == signature(shown.stdout), (path, signature(graph), signature(shown.stdout))
PYTHON
finish
