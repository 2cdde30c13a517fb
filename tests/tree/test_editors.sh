#!/usr/bin/env bash
# The grammars of editors/ are those of the tables, and every word of the examples and kernels that is a function is one in them.
# test: release
set -euo pipefail
command -v python3 >/dev/null || exit 77
python3 editors/generate.py --check
python3 - <<'PYTHON'
import glob, json, re
for language, folder in (("mica", "examples/**/*.mica"), ("mica-tile", "kernels/**/*.tile")):
    grammar = json.load(open(f"editors/vscode/syntaxes/{language}.tmLanguage.json"))
    rules = [(p["name"], re.compile(p["match"], re.M)) for p in grammar["patterns"]]
    seen = set()
    files = glob.glob(folder, recursive=True)
    assert files
    for path in files:
        for line in open(path, encoding="utf-8"):
            at = 0
            while at < len(line):  # as an editor does: the earliest match, of these the first rule
                found = min(((m.start(), i, m) for i, (_, r) in enumerate(rules) if (m := r.search(line, at)) and m.end() > m.start()),
                            default=None, key=lambda x: x[:2])
                if not found:
                    break
                name, m = rules[found[1]][0], found[2]
                assert "invalid" not in name, f"{path}: {m.group()} is no function: {line}"
                seen.add(name.split(".")[0])
                at = m.end()
    assert {"comment", "keyword", "storage", "support", "constant"} <= seen, seen
PYTHON

# Every operator that can be written is known.
[ -z "${MICA:-}" ] || "$MICA" ops --json - | python3 -c '
import json, sys
names = {o["name"] for o in json.load(sys.stdin)["operators"]}
grammar = json.load(open("editors/vscode/syntaxes/mica.tmLanguage.json"))
known = next(p["match"] for p in grammar["patterns"] if p["name"].startswith("support.function"))
missing = names - set(known[known.index("(") + 1:known.index(")")].split("|"))
sys.exit(f"not in the grammar: {missing}" if missing else 0)'
