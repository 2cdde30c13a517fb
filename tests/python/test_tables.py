"""bench/tables.py: the score of SOL-ExecBench, and its column in the existing tables."""
import os
import shutil
import subprocess
import sys

import pytest

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
tables = pytest.importorskip("tables")


def test_score():
    assert tables.score(10, 10, 20) == "1.000" and tables.score(20, 10, 20) == "0.500" and tables.score(40, 10, 20) == "0.250"
    assert tables.score("9", "10", "20") == "1.000"  # below the bound: no more than at it
    assert tables.score(10, 20, 15) == ""


@pytest.mark.parametrize("name", ["peers_h200.csv", "families_2_h200.csv", "families_2_h100.csv"])  # two with comments
def test_the_table_has_it(tmp_path, name):
    path = os.path.join(BENCH, name)
    shutil.copy(path, tmp_path / name)
    said = subprocess.run([sys.executable, os.path.join(BENCH, "tables.py"), "--score", tmp_path / name], capture_output=True, text=True, check=True)
    with open(path) as a, open(tmp_path / name) as b:
        assert a.read() == b.read()
    rows = tables.read_table(path)[1]
    assert len(rows) > 12 and all(bool(r["sol score"]) == (float(r["peer us"]) > float(r["floor us"])) for r in rows)
    assert f"one of {len(rows)}," in said.stdout


def test_the_page_of_others_has_them():
    with open(os.path.join(BENCH, "..", "docs", "others.md"), encoding="utf-8") as f:
        page = f.read()
    for line in tables.by_peer(os.path.join(BENCH, "peers_h200.csv")):
        assert line in page, f"docs/others.md lacks: {line}"
