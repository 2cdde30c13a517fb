"""The share of verification in `mica optimize`, and the evidence of each result.

    python3 bench/verify_time.py LIST [OUT.csv] [-- OPTIONS of mica optimize]

LIST has a program with its parameters in each line, as bench/cpu.list. A row of the table has the seconds of the whole job, those of the
pass `verify`, and the weakest evidence of the subprograms (docs/theory.md). Without OPTIONS: --dtype f32."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

PASS = re.compile(r"^pass verify +([0-9.]+) ms", re.M)
ORDER = ["reduced", "full", "proved"]


def command(line, options):
    program, *parameters = line.split()
    return [os.environ.get("MICA", "build/mica"), "optimize", program, *(x for p in parameters for x in ("--set", p)), *options]


def row(line, options):
    with tempfile.TemporaryDirectory() as folder:
        answer = os.path.join(folder, "answer.json")
        begin = time.monotonic()
        done = subprocess.run(command(line, options) + ["--no-db", "--quiet", "--json", answer], env=dict(os.environ, MICA_TRACE="1"),
                              stderr=subprocess.PIPE, text=True, check=False)
        took = time.monotonic() - begin
        if done.returncode:
            return [line, done.returncode, took, "", "", done.stderr.splitlines()[-1] if done.stderr else ""]
        with open(answer, encoding="utf-8") as f:
            found = json.load(f)
    verified = sum(float(ms) for ms in PASS.findall(done.stderr)) / 1000
    return [line, 0, took, verified, verified / took, evidence(found)]


def evidence(found):
    """The weakest scope of the certificates in a report."""
    scopes = []

    def walk(x):
        if isinstance(x, dict):
            if "scope" in x:
                scopes.append(x["scope"])
            x = list(x.values())
        if isinstance(x, list):
            for y in x:
                walk(y)

    walk(found)
    return min(scopes, key=ORDER.index) if scopes else "none: the program itself"


def main():
    arguments = sys.argv[1:]
    options = ["--dtype", "f32"]
    if "--" in arguments:
        at = arguments.index("--")
        arguments, options = arguments[:at], arguments[at + 1:]
    with open(arguments[0], encoding="utf-8") as f:
        lines = [x.split("#")[0].strip() for x in f]
    out = open(arguments[1], "w", encoding="utf-8") if len(arguments) > 1 else sys.stdout
    print("program,status,job_s,verify_s,share,evidence", file=out, flush=True)
    for line in filter(None, lines):
        cells = [f"{x:.6g}" if isinstance(x, float) else str(x) for x in row(line, options)]
        print(",".join(cells), file=out, flush=True)


if __name__ == "__main__":
    main()
