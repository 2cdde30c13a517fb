"""The package: what it imports, its stubs, the command, the database."""
import ast
import os
import subprocess
import sys

import mica
from mica import _mica, config

PACKAGE = os.path.dirname(mica.__file__)


def run(*arguments, **environment):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, **environment})


def test_import_needs_nothing():
    said = run("-c", "import sys, mica; print([m for m in ('numpy', 'torch', 'json', 'typing', 're', 'inspect', 'ctypes') if m in sys.modules "
                     "and m not in before])".replace("import sys, mica", "import sys; before = set(sys.modules); import mica"))
    assert said.stdout == "[]\n", said.stderr


def test_the_command():
    said = run("-m", "mica", "version")
    assert said.returncode == 0 and said.stdout.startswith(f"mica {mica.__version__} (sources {_mica.version()[1]})")
    said = run("-m", "mica", "optimise")
    assert said.returncode == 2 and "did you mean optimize?" in said.stderr


def test_stubs_name_what_there_is():
    with open(os.path.join(PACKAGE, "_mica.pyi"), encoding="utf-8") as f:
        tree = ast.parse(f.read())
    stubs = {n.name: n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    real = {n for n in vars(_mica) if not n.startswith("__")}
    assert set(stubs) | {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign)} == real
    for name, node in stubs.items():
        if isinstance(node, ast.ClassDef) and not issubclass(getattr(_mica, name), BaseException):
            said = {n.name for n in node.body if isinstance(n, ast.FunctionDef)} | {n.target.id for n in node.body if isinstance(n, ast.AnnAssign)}
            have = {n for n in vars(getattr(_mica, name)) if not n.startswith("__") or n in said}
            assert {n for n in said if n not in ("__init__", "__buffer__")} <= have and have <= said, name
    assert os.path.exists(os.path.join(PACKAGE, "py.typed"))


def test_config_and_cache(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MICA_DB", str(tmp_path / "mica.db"))
    mica.show_config()
    said = capsys.readouterr().out
    assert "not there yet" in said and mica.__version__ in said and str(tmp_path) in said
    assert config.gpu_target() is None or config.gpu_target().startswith("sm_")
    for name in ("mica.db", "mica.db-wal"):
        (tmp_path / name).write_text("")
    assert sorted(map(os.path.basename, mica.clear_cache())) == ["mica.db", "mica.db-wal"]
    assert mica.clear_cache() == [] and os.listdir(tmp_path) == []
    monkeypatch.delenv("MICA_DB")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert config.database() == str(tmp_path / "mica" / "mica.db")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    assert config.database() is None and config.config()["database"] == "none" and mica.clear_cache() == []


def test_all_is_there():
    for name in mica.__all__:
        assert hasattr(mica, name), name
