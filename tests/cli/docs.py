"""Every code block of README.md and docs/*.md is what it says: tests/cli/test_docs.sh.

    docs.py TREE [PAGE...]     $MICA is the command, $MICA_LIBRARY the library that C is linked with, $MICA_PYTHON runs Python

A block is fenced and says what it is; one that says nothing fails. The blocks of a page run in order in one folder of
their own, in which the folders of the tree can be read and build/mica is the command. The first word of a fence:

  console   `$ COMMAND`, further lines of it behind `> `, then what it prints. `...` is any lines, or any part of a line.
            A command that is shown without output must end with status 0; of others the output counts
  mica, tile  a program, graph or kernel, kept under its name in NAME.mica or NAME.tile and checked
  c         a program with main(): compiled, linked, run. Declarations: compiled
  python    the blocks of a page are one run of Python
  output    what the block of C or Python before it prints
  json      is parsed; a muGraph is checked and kept in NAME.json
  text      what is not run: a grammar, a drawing, a message. It may hold no commands

A block of any of these whose first line is a comment that names a file of the tree is an excerpt of that file: its
lines stand there in this order but for indentation and remarks behind them, `...` is any lines. Words after the first:

  needs=WHAT,...  skipped with a message where WHAT is not there: gpu, no_gpu, nvcc, slow (runs in check-all), a module of
                  Python; never run: root (installs on the machine), network, tree (builds the whole tree anew)
  fails           shows what is refused
  figures         numbers differ from run to run: in output each matches any

`<!-- snippets: needs=... -->` in a page is for all blocks after it.
"""
import collections
import concurrent.futures
import ctypes
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

NEVER = {"root": "it changes the machine", "network": "it needs a network", "tree": "it builds the whole tree"}
KINDS = {}
PYTHON = os.environ.get("MICA_PYTHON", sys.executable)
TIMEOUT = 900 if os.environ.get("MICA_ALL") else 120


class Wrong(Exception):
    pass


class Block:
    def __init__(self, page, line, info, needs):
        words = info.split()
        self.page, self.line, self.kind, self.lines = page, line, words[0] if words else "", []
        self.flags, self.needs = set(), list(needs)
        for w in words[1:]:
            if w.startswith("needs="):
                self.needs += w[6:].split(",")
            else:
                self.flags.add(w)

    @property
    def where(self):
        return f"{self.page}:{self.line}"

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"


def blocks_of(page, text):
    """Fenced blocks, in order. An indented one is an error, since nothing says what it is."""
    found, block, needs, indent, listed, empty = [], None, [], 0, False, True
    for number, line in enumerate(text.split("\n"), 1):
        fence = re.match(r"( *)```(.*)$", line)
        if block and fence and not fence[2].strip():
            found.append(block)
            block = None
        elif block:
            block.lines.append(line[indent:] if not line[:indent].strip() else line)
        elif fence:
            indent = len(fence[1])
            block = Block(page, number, fence[2], needs)
            if block.kind.startswith("{"):
                block.kind = "text"  # a directive of the site
        else:
            mark = re.match(r"<!-- snippets: needs=(\S+) -->", line)
            needs = mark[1].split(",") if mark else needs
            if re.match(r"\s*([-*]|\d+\.) ", line):
                listed = True
            elif line and line[0] != " ":
                listed = False
            if line.startswith("    ") and empty and not listed:
                raise Wrong(f"{page}:{number}: an indented block: fence it, and say what it is")
        empty = not line.strip()
    if block:
        raise Wrong(f"{block.where}: no end of this block")
    return found


def pattern(line, figures):
    parts = [re.escape(p) for p in line.split("...")]
    if figures:
        parts = [re.sub(r"\d+(\\\.\d+)?", r"[0-9.]+", re.sub(r"(\\ )+", " +", p)) for p in parts]
    return re.compile(".*?".join(parts) + r"\s*\Z")


def follows(want, got, what, figures=False, exact=True):
    """The lines `want` in `got`, in order; nothing else between but for `...`."""
    at, loose = 0, not exact
    for line in want:
        if line.strip() == "...":
            loose = True
            continue
        match = pattern(line.rstrip(), figures)
        start = at
        while loose and at < len(got) and not match.match(got[at]):
            at += 1
        if at == len(got) or not match.match(got[at]):
            near = got[start] if start < len(got) else "(the end)"
            raise Wrong(f"{what}: not there: {line}\n  found: {near}")
        at, loose = at + 1, False
    if not loose and exact and at < len(got):
        raise Wrong(f"{what}: more is there: {got[at]}")


class Page:
    def __init__(self, tree, name):
        self.tree, self.name = tree, name
        self.folder = tempfile.mkdtemp()
        self.output = None  # of the last block of C or Python
        self.python = None  # the process that runs its blocks of Python
        for entry in ("examples", "kernels", "tests", "bench", "include", "docs", "src"):
            os.symlink(os.path.join(tree, entry), os.path.join(self.folder, entry))
        os.makedirs(os.path.join(self.folder, "build"))
        os.symlink(os.environ["MICA"], os.path.join(self.folder, "build/mica"))
        self.env = dict(os.environ, MICA_DB=os.path.join(self.folder, "results.db"), NO_COLOR="1",
                        PATH=os.path.join(self.folder, "build") + os.pathsep + os.environ["PATH"])

    def run(self, command, what):
        shell = isinstance(command, str)
        try:
            process = subprocess.Popen(["bash", "-c", command] if shell else command, cwd=self.folder, env=self.env,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       text=True, errors="replace", start_new_session=True)
            printed, _ = process.communicate(timeout=TIMEOUT)
            return subprocess.CompletedProcess(command, process.returncode, printed)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Wrong(f"{what}: not done after {TIMEOUT} s") from None

    def expect(self, block, command, what):
        done = self.run(command, what)
        if (done.returncode != 0) != ("fails" in block.flags):
            raise Wrong(f"{block.where}: {what}: status {done.returncode}\n{done.stdout[-2000:]}")
        return done.stdout

    def keep(self, name, text):
        path = os.path.join(self.folder, name)
        if os.path.exists(path):
            os.remove(path)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def close(self):
        if self.python:
            self.python.stdin.close()
            self.python.wait()
        shutil.rmtree(self.folder)


def bare(line):
    """A line without indentation and what is remarked on it."""
    return " ".join(re.sub(r"\s{2,}(#|//) .*", "", line).split())


def excerpt(page, block):
    head = re.match(r"\s*(?://|#|/\*) ([\w./-]+/[\w.-]+\.\w+|[A-Z]\w+\.\w+)\s*(\*/)?$", block.lines[0]) if block.lines else None
    if not head or not os.path.isfile(os.path.join(page.tree, head[1])):
        return False
    with open(os.path.join(page.tree, head[1]), encoding="utf-8") as file:
        have = [bare(x) for x in file.read().split("\n")]
    want = ["...", *[bare(x) for x in block.lines[1:]], "..."]
    follows(want, have, f"{block.where}: excerpt of {head[1]}")
    return True


def steps_of(block):
    """Commands, each with the lines that it prints."""
    steps = []
    for line in block.lines:
        if line.startswith("$ "):
            steps.append((line[2:], []))
        elif not steps:
            raise Wrong(f"{block.where}: a session begins with `$ COMMAND`")
        elif (line + " ").startswith("> ") and not steps[-1][1]:
            steps[-1] = (steps[-1][0] + "\n" + line[2:], [])
        else:
            steps[-1][1].append(line)
    return steps


def names_files(page, block):
    """The scripts that commands name are in the tree, and may be run where they stand first: also in what is skipped."""
    for command, _ in steps_of(block):
        for found in re.finditer(r"(^|&& |\s)((?:bench|scripts|python|tests|examples)/[\w/.-]+\.(?:sh|py))\b", command):
            path = os.path.join(page.tree, found[2])
            if not os.path.isfile(path):
                raise Wrong(f"{block.where}: there is no {found[2]}")
            if not found[1].isspace() and not os.access(path, os.X_OK):
                raise Wrong(f"{block.where}: {found[2]} cannot be executed")


def console(page, block):
    for command, want in steps_of(block):
        what = f"{block.where}: {command}"
        done = page.run(command, what)
        while want and not want[-1].strip():
            want.pop()
        if want:
            follows(want, done.stdout.rstrip("\n").split("\n"), what, "figures" in block.flags)
        elif done.returncode != 0:
            raise Wrong(f"{what}: status {done.returncode}\n{done.stdout[-2000:]}")


def named(block, words):
    head = re.search(rf"^\s*(?:{words}) (\w+)", block.text, re.M)
    if not head:
        raise Wrong(f"{block.where}: neither a whole {block.kind} file nor an excerpt of one")
    return head[1]


def mica(page, block):
    name = named(block, "model|program|graph") + ".mica"
    page.keep(name, block.text)
    model = re.match(r"(\s|#.*\n)*model ", block.text)  # of which `fmt` reads all entry points
    page.expect(block, ["build/mica", "fmt" if model else "show", name], f"mica {'fmt' if model else 'show'} {name}")


def tile(page, block):
    name = named(block, "kernel") + ".tile"
    page.keep(name, block.text)
    page.expect(block, ["build/mica", "tile", "check", name], f"mica tile check {name}")


def c(page, block):
    whole = "main(" in block.text
    page.keep("snippet.c", block.text if whole else "#include <mica.h>\n" + block.text)
    flags = ["-std=c17", "-Wall", "-Wextra", "-Werror", "-I" + os.path.join(page.tree, "include")]
    libraries = [os.environ["MICA_LIBRARY"], *os.environ.get("MICA_LIBRARIES", "").split()]
    compiler = os.environ.get("CC", "cc")
    if not whole:
        page.expect(block, [compiler, *flags, "-fsyntax-only", "snippet.c"], "compiling this")
        return
    page.expect(block, [compiler, *flags, "snippet.c", "-o", "snippet", *libraries], "compiling this")
    page.output = page.expect(block, ["./snippet"], "running this")


DRIVER = """
import sys, traceback
space = {"__name__": "__main__"}
for name in iter(sys.stdin.readline, ""):
    failed = 0
    try:
        exec(compile(open(name.strip()).read(), name.strip(), "exec"), space)
    except BaseException:
        failed = 1
        traceback.print_exc(file=sys.stdout)
    print(f"\\0{failed}", flush=True)
"""


def python(page, block):
    """One process runs the blocks of a page, each as it comes; after each it prints a zero byte and whether it failed."""
    if not page.python:
        page.keep("driver.py", DRIVER)
        page.python = subprocess.Popen([PYTHON, "-u", "driver.py"], cwd=page.folder, env=page.env, text=True, errors="replace",
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    page.keep("block.py", block.text)
    alarm = threading.Timer(TIMEOUT, os.killpg, (page.python.pid, signal.SIGKILL))
    alarm.start()
    page.python.stdin.write("block.py\n")
    page.python.stdin.flush()
    printed = ""
    for line in page.python.stdout:
        printed += line
        if "\0" in line:
            break
    alarm.cancel()
    page.output, _, failed = printed.partition("\0")
    if not failed or (failed[0] == "1") != ("fails" in block.flags):
        raise Wrong(f"{block.where}: Python {'was ended' if not failed else 'failed' if failed[0] == '1' else 'did not fail'}\n{page.output[-2000:]}")


def output(page, block):
    if page.output is None:
        raise Wrong(f"{block.where}: output of what? No program stands before it")
    follows(block.lines, page.output.rstrip("\n").split("\n"), block.where, "figures" in block.flags)


def as_json(page, block):
    try:
        data = json.loads(block.text)
    except json.JSONDecodeError as e:
        raise Wrong(f"{block.where}: {e}") from None
    if isinstance(data, dict) and data.get("mica") == "mugraph":
        name = f"{data.get('name', 'snippet')}.json"
        page.keep(name, block.text)
        page.expect(block, ["build/mica", "show", name], f"mica show {name}")


def text(page, block):
    for line in block.lines:
        if re.match(r"(\$|>>>|make|mica|build/mica|pip|python3?|cmake|ninja|git|sudo|mpirun) ", line):
            raise Wrong(f"{block.where}: a command in a block of text: {line}")


KINDS = {"console": console, "mica": mica, "tile": tile, "c": c, "python": python, "output": output, "json": as_json,
         "text": text}
FLAGS = {"fails", "figures"}


def has_gpu():
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


@functools.cache
def missing(need):
    """Why a block that needs this is skipped; empty: it is not."""
    if need in NEVER:
        return NEVER[need]
    if need == "gpu":
        return "" if has_gpu() else "there is no GPU"
    if need == "no_gpu":
        return "" if missing("gpu") else "there is a GPU"
    if need == "nvcc":
        return "" if shutil.which("nvcc") else "there is no nvcc"
    if need == "slow":
        return "" if os.environ.get("MICA_ALL") else "it is slow (MICA_ALL=1 runs it)"
    done = subprocess.run([PYTHON, "-c", f"import {need}"], capture_output=True)
    return f"the Python module {need} is not there" if done.returncode else ""


def check(page, block, skipped):
    if block.kind not in KINDS:
        raise Wrong(f"{block.where}: a block of {block.kind or 'nothing'}: say what it is: {', '.join(KINDS)}")
    if block.flags - FLAGS:
        raise Wrong(f"{block.where}: unknown mark {', '.join(block.flags - FLAGS)}")
    if block.kind != "text" and excerpt(page, block):
        return "excerpt"
    if block.kind == "console":
        names_files(page, block)
    for need in block.needs:
        why = missing(need)
        if why:
            skipped.append(f"{block.where}: {block.kind}: {why}")
            page.output = None
            return None
    if block.kind == "output" and page.output is None and skipped and skipped[-1].startswith(block.page):
        return None
    KINDS[block.kind](page, block)
    return block.kind


def check_page(tree, name):
    """Counts, skipped blocks and mistakes."""
    counts, skipped, wrong = collections.Counter(), [], []
    page = Page(tree, name)
    try:
        with open(os.path.join(tree, name), encoding="utf-8") as file:
            found = blocks_of(name, file.read())
    except Wrong as e:
        wrong, found = [str(e)], []
    for block in found:
        try:
            counts[check(page, block, skipped)] += 1
        except Wrong as e:
            wrong.append(str(e))
    page.close()
    return counts, skipped, wrong


def main():
    tree = os.path.abspath(sys.argv[1])
    names = sys.argv[2:] or ["README.md", *sorted("docs/" + n for n in os.listdir(tree + "/docs") if n.endswith(".md"))]
    counts, skips, mistakes = collections.Counter(), 0, 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool: # pages know nothing of each other
        for found, skipped, wrong in pool.map(lambda name: check_page(tree, name), names):
            counts.update(found)
            skips, mistakes = skips + len(skipped), mistakes + len(wrong)
            for line in skipped:
                print("skipped " + line)
            for line in wrong:
                print("FAILED " + line, file=sys.stderr)
    counts.pop(None, None)
    print(f"{len(names)} pages: " + ", ".join(f"{n} {k}" for k, n in sorted(counts.items())) + f", {skips} skipped, {mistakes} wrong")
    if not sys.argv[2:] and (counts["console"] < 40 or counts["excerpt"] < 8):
        sys.exit("FAILED: hardly anything was found")
    sys.exit(mistakes > 0)


if __name__ == "__main__":
    main()
