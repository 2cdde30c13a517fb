#!/usr/bin/env bash
# `make report`: every table has the rows of its file, and no place of a table is left. test: release
set -euo pipefail
command -v python3 >/dev/null || { echo "skipped: python3 is not there"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH=/usr/bin:/bin python3 docs/report/report.py "$work" >"$work/said" 2>&1
python3 - "$work/report.html" <<'PYTHON'
import csv, html, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
assert "{{" not in page and page.count("<table>") == page.count("</table>") == 7, page.count("<table>")
tables = re.findall(r"<caption>(.*?)</caption>(.*?)</table>", page, re.S)
for file, column in (("peers_h200.csv", "workload"), ("cpu.csv", "program"), ("torch_models.csv", "model")):
    rows = [r[column] for r in csv.DictReader(line for line in open(f"bench/{file}", encoding="utf-8") if not line.startswith("#"))]
    body = next(b for c, b in tables if f"bench/{file}" in c)
    assert [html.unescape(x) for x in re.findall(r"<tr><td>(.*?)</td>", body)] == rows, file
onnx = next(b for c, b in tables if "onnx_nodes" in c)
assert re.search(r"<td>wrong</td><td>0</td>", onnx) and re.search(r"<td>passed</td><td>\d{4}</td>", onnx)
PYTHON
