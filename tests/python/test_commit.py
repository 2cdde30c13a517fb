"""bench/commit.py: one rule for the commit in tables of figures."""
import os
import subprocess
import sys

import pytest

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
commit = pytest.importorskip("commit").commit


def test_the_variable_comes_first(monkeypatch):
    monkeypatch.setenv("MICA_COMMIT", "0123abcd")
    assert commit() == "0123abcd"


def test_else_it_is_the_checkouts(monkeypatch):
    monkeypatch.delenv("MICA_COMMIT", raising=False)
    head = subprocess.run(["git", "-C", BENCH, "rev-parse", "HEAD"], capture_output=True, text=True)
    if head.returncode:
        pytest.skip("this is no git checkout")
    assert len(commit()) >= 8 and head.stdout.startswith(commit())


def test_without_git_it_is_empty(monkeypatch):
    monkeypatch.delenv("MICA_COMMIT", raising=False)
    monkeypatch.setenv("PATH", "")
    assert commit() == ""


@pytest.mark.parametrize("name", sorted(f for f in os.listdir(BENCH) if f.endswith(".py") and f != "commit.py"))
def test_no_script_has_a_rule_of_its_own(name):
    with open(os.path.join(BENCH, name), encoding="utf-8") as f:
        text = f.read()
    assert "rev-parse" not in text and "MICA_COMMIT" not in text
