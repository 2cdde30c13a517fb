#!/usr/bin/env python3
"""Runs KernelBench with torch.compile(Model, backend="mica"). It uses the suite's check and timing, and compares with eager mode and Inductor.

    kernelbench.py CHECKOUT [--levels 1,2,3] [--only REGEX] [--skip REGEX] [--csv FILE] [--time S] [--conv-time S] [--first REGEX]... [--workers N]
                   [--deadline S] [--until S] [--device cuda|cpu] [--scale N] [--memory GIB] [--trials N] [--sizes FILE] [--suite COMMIT]
                   [--take faster|all]

CHECKOUT is a checkout of github.com/ScalingIntelligence/KernelBench; nothing of it is copied. Each task runs in a process of its own, which is
ended after --deadline seconds. Tasks that --first names begin first, then those without convolution and pooling. The order within a level was drawn
once. Nothing runs after --until seconds, and an interrupted task has no row. Rows of a short run therefore contain more cheap tasks. Workers compile
in parallel. One worker at a time uses the GPU, by the lock file MICA_GPU_LOCK, or one in Mica's cache. On 16 cores, six to eight workers leave each
enough GPU time. Random numbers are drawn on the device. For a CPU, --scale N divides the whole numbers of 256 and more that a task's file assigns.
--csv FILE gets a row as soon as a task is done; rows that FILE has of the same build, machine, options and method are not run again (`method`:
kernelbench_task.py, --trials, --workers, --take). --take all keeps programs that are not faster, to ask whether they are right. --sizes FILE keeps
what tasks need, which takes a minute to find out. If a task runs out of GPU memory while other tasks run, it runs a second time alone. Tasks of
level 3 get twice --time, and tasks with convolution or pooling --conv-time. Column `seconds_given` has the seconds of a graph. Columns `spent` and
`job` have the seconds of each phase of the task, and of each stage of Mica's jobs by their traces. `same_code` is 1 if Mica took nothing and
Inductor had the graph in its cache. Both then run the same code, and a ratio other than 1 is noise.

--trials N calls are timed by the suite's code, fewer where they would take more than half a second, and 6 at least; column `calls` has the number.
Rounds alternate between eager mode, Inductor and Mica, and each begins with another one. A time is the median; columns `*_mean_us` have the mean,
which the suite reports.

A task is right where the suite's check passes for all its random inputs, wrong where it does not, failed where an error kept it from running, and
late after its deadline. Errors are relative norms of the difference to the model in float64. Before Mica compiles a task it is decided whether its
results can be checked. It is unfit where eager mode fails, or fails the check against itself; then nothing is timed. A task that fails the check is
unfit instead of wrong if eager mode fails it too against the model in float64, and Mica's error to that is at most twice eager mode's.
fast_p, as the suite has it: the part of all tasks that are right and more than p times as fast as the baseline. Exit status 0: no task is wrong;
1: some are. The child runs `kernelbench_task.py`.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import csv
import functools
import hashlib
import json
import math
import os
import platform
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHILD = os.path.join(HERE, "kernelbench_task.py")
WAYS = ["eager", "inductor", "mica"]
FACTS = ["seconds_given", "scale", "device", "torch", "mica", "suite", "machine", "method"]
COLUMNS = ["level", "task", "name", "fate", "conv_or_pool", "trials", "calls", *(f"{w}_us" for w in WAYS), *(f"{w}_mean_us" for w in WAYS),
           "over_eager", "over_inductor", *(f"{w}_error" for w in WAYS), "nodes", "taken", "programs", "same_code", "seconds", "why", "said", "spent",
           "job",
           *FACTS]
START = 300  # most seconds that torch takes to be imported
DUMPED = 0.95  # part of a task's limit after which it prints where it is
ENDING = 60  # most seconds from SIGKILL to the end
FRAMES = 14  # most native frames of a crash in a row
SEED = 20  # seed of the tasks' order
CONV_OR_POOL = re.compile(r"nn\.(Lazy)?Conv|F\.conv|Pool|max_pool|avg_pool")


def output_of(*words, cwd=None):
    try:
        return subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def device_name(device):
    """Asked of the driver's tool, since a process that has used the GPU cannot fork one that does."""
    return device if device == "cpu" else output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").split("\n")[0] or device


def tasks_of(a):
    """(level, number, name, path) of the tasks that are asked for."""
    found = []
    for level in a.levels.split(","):
        folder = os.path.join(a.checkout, "KernelBench", f"level{level}")
        if not os.path.isdir(folder):
            sys.exit(f"{folder} is not there: {a.checkout} is no checkout of KernelBench with a level {level}")
        for file in sorted(os.listdir(folder)):
            m = re.fullmatch(r"(\d+)_(.*)\.py", file)
            label = f"{level}/{file}"
            if m and re.search(a.only, label) and not (a.skip and re.search(a.skip, label)):
                found.append((int(level), int(m[1]), m[2].strip("_"), os.path.join(folder, file)))
    return found


@functools.cache
def native_frames():
    """A library that prints the native frames of a crash, "" where it cannot be compiled."""
    library = os.path.join(tempfile.mkdtemp(), "native_frames.so")
    output_of(os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library, os.path.join(HERE, "native_frames.c"))
    return library if os.path.exists(library) else ""


def environment():
    """The environment of the process that forks. After a question to the driver, it could not fork a process that uses the GPU."""
    load = {"LD_PRELOAD": native_frames()} if native_frames() else {}
    return {**os.environ, "PYTHONFAULTHANDLER": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1", **load}


def where_ended(lines):
    """Frames of the thread that received the fatal signal, from the output of Python's fault handler. A thread of C has no Python frames; then
    the frames of the main thread are taken, which stands last. Native frames follow if there are any."""
    threads, fatal = [], ""
    at = lines.index("Native frames:") if "Native frames:" in lines else len(lines)
    native = [os.path.basename(line.split(" [")[0]) for line in lines[at + 1:] if "native_frames.so" not in line][:FRAMES]
    for line in lines[:at]:
        if line.startswith("Fatal"):
            fatal = line
        elif re.match(r"(Current thread|Thread) 0x", line):
            threads.append((line.startswith("Current"), []))
        elif line.startswith("  File") and threads:
            threads[-1][1].append(line.strip())
    own = next((frames for current, frames in threads if current), None)
    frames = own if own is not None else threads[-1][1] if threads else []
    said = "; ".join([fatal, *([] if own is not None else ["in a thread without Python; the main thread"]), *frames])[:600]
    return said + ("; native: " + " ".join(native) if native else "")


def frames_of_main(lines):
    """Frames of the main thread, from when the time was nearly over."""
    at = max((i for i, line in enumerate(lines) if re.match(r"(Current thread|Thread) 0x", line)), default=len(lines))
    last = [line.strip() for line in lines[at:] if line.startswith("  File")]
    return "; ".join(last)[:600]


class Tasks:
    """The process that forks one for each task, so that torch is imported once (kernelbench_task.py)."""

    def __init__(self, a, bare=False):
        words = [sys.executable, CHILD, "--checkout", a.checkout, "--device", a.device, *["--bare"] * bare]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), text=True)
        self.same = {"device": a.device, "scale": a.scale, "checkout": a.checkout}
        self.lock, self.pids, self.ends = threading.Lock(), queue.Queue(), collections.defaultdict(queue.Queue)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            said = json.loads(line)
            if "pid" in said:
                self.pids.put(said["pid"])
            else:
                self.ends[said["ended"]].put(said["status"])
        self.pids.put(None)  # the process has ended

    def _begin(self, request):
        """The process of a request; None if none can be forked any more."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n"), self.process.stdin.flush()
            pid = self.pids.get(timeout=START)
        except BrokenPipeError:
            return None
        if pid is None:
            self.pids.put(None)  # for the next request
        return pid

    def _ended(self, pid, limit):
        """Exit status, None after `limit` seconds. Then the process and those that it began are ended."""
        try:
            return self.ends[pid].get(timeout=limit)
        except queue.Empty:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(queue.Empty):  # the process that would tell it has ended
                self.ends[pid].get(timeout=ENDING)
            return None

    def ask(self, what, limit, threads=1, **more):
        """(JSON that the process wrote, ""), or (None, its last words). threads: of Inductor's compilers, since workers share the cores."""
        with tempfile.NamedTemporaryFile("r", suffix=".json") as out, tempfile.NamedTemporaryFile("r") as log:
            own = {"TORCHINDUCTOR_COMPILE_THREADS": str(threads), **{k: v for k, v in os.environ.items() if k == "MICA_GPU_LOCK"}}
            request = {"what": what, "out": out.name, "log": log.name, "begun": time.time(), "limit": limit, "dumped": DUMPED * limit,
                       "environment": own, **self.same, **more}
            start = time.monotonic()
            with self.lock:
                pid = self._begin(request)
            if pid is None:
                return None, f"the process that forks has ended (exit status {self.process.wait()})"
            status = self._ended(pid, limit)
            text = out.read()
            lines = log.read().strip().split("\n")
            told = time.monotonic() - start > DUMPED * limit  # printing the frames of running threads may end the process
            if status is None or (status < 0 and told and not text):
                return None, f"late: {frames_of_main(lines)}"
            said = next((line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception)\b", line)), lines[-1])[:300]
            return (json.loads(text), "") if text else (None, f"exit status {status}: {where_ended(lines) if status < 0 else said}")


class Memory:
    """Tasks run at the same time as long as their bytes fit; one that is larger than all of it runs alone."""

    def __init__(self, most):
        self.most, self.used, self.changed = most, 0, threading.Condition()

    def take(self, n):
        with self.changed:
            self.changed.wait_for(lambda: self.used == 0 or self.used + n <= self.most)
            self.used += n

    def give(self, n):
        with self.changed:
            self.used -= n
            self.changed.notify_all()


def seconds_of(a, level, conv):
    """Seconds of Mica for a graph."""
    return a.conv_time if conv and a.conv_time else a.time * (2 if level == 3 else 1)


def method(a):
    """A name of how a task is run and timed: rows of another one are not kept."""
    with open(CHILD, "rb") as f:
        return hashlib.sha256(b"%s %d %d %s" % (f.read(), a.trials, a.workers, a.take.encode())).hexdigest()[:12]


def facts(a, said):
    """(level, whether there is convolution or pooling) -> what a row has of the build, the machine and the options."""
    cpu = ""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as f:
            m = re.search(r"model name\s*: (.*)", f.read())
            cpu = m[1] if m else ""
    commit = output_of("git", "rev-parse", "--short", "HEAD", cwd=a.checkout) if os.path.isdir(os.path.join(a.checkout, ".git")) else a.suite
    every = {"scale": a.scale, "device": said["device"], "torch": said["torch"], "mica": said["mica"], "suite": commit,
             "machine": f"{cpu or platform.machine()}, {os.cpu_count()} processors", "method": method(a)}
    return {(level, conv): {"seconds_given": seconds_of(a, level, conv), **every} for level in map(int, a.levels.split(",")) for conv in (0, 1)}


def rows_of(path, same):
    """(level, task) -> its row, of an earlier run."""
    if not path or not os.path.exists(path):
        return {}
    with open(path, newline="") as f:
        rows = [(r, same.get((int(r["level"]), int(r["conv_or_pool"])))) for r in csv.DictReader(line for line in f if not line.startswith("#"))]
    return {(int(r["level"]), int(r["task"])): r for r, own in rows if own and all(str(r.get(k)) == str(v) for k, v in own.items())}


def row_of(task, made, why, seconds, same):
    level, number, name, path = task
    conv = int(is_conv(path))
    row = {"level": level, "task": number, "name": name, "conv_or_pool": conv, "seconds": round(seconds, 1), **same[level, conv]}
    if made is None:
        return row | {"fate": "late" if why.startswith("late") else "failed", "why": why}
    us = {k: made["us"].get(k) for k in WAYS}
    for k, v in us.items():
        row[f"{k}_us"] = "" if v is None else f"{v:.2f}"
        row[f"{k}_mean_us"] = "" if v is None else f"{made['mean_us'][k]:.2f}"
        error = made["errors"].get(k)
        row[f"{k}_error"] = "" if error is None else f"{error:.1e}"
        if k != "mica" and v and us["mica"]:
            row[f"over_{k}"] = f"{v / us['mica']:.3f}"
    return row | {k: made[k] for k in ("fate", "trials", "calls", "nodes", "taken", "programs", "same_code", "why", "said", "spent", "job")}


def is_conv(path):
    with open(path) as f:
        return bool(CONV_OR_POOL.search(f.read()))


def by_turns(tasks, first):
    """Orders tasks. Tasks that the expressions `first` name come first, in their order, then those without convolution and pooling. Levels alternate.
    The order within a level is drawn once with a fixed seed, so that the tasks of a run that is cut off are nearly a random sample."""
    place = {}
    for kind in sorted({(t[0], is_conv(t[3])) for t in tasks}):
        some = sorted(t for t in tasks if (t[0], is_conv(t[3])) == kind)
        random.Random(SEED).shuffle(some)
        place.update((t, (kind[1], i / len(some))) for i, t in enumerate(some))
    wanted = {t: next((i for i, r in enumerate(first) if re.search(r, f"{t[0]}/{t[1]}_{t[2]}")), len(first)) for t in tasks}
    return sorted(sorted(tasks), key=lambda t: (wanted[t], place[t]))


def run_all(a, asked, tasks, sizes, same):
    done, memory, began, lock = rows_of(a.csv, same), Memory(a.memory * 2 ** 30), time.monotonic(), threading.Lock()
    rows = [done[t[:2]] for t in tasks if t[:2] in done]
    with open(a.csv or os.devnull, "w", newline="") as f, concurrent.futures.ThreadPoolExecutor(a.workers) as pool:
        out = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        out.writeheader(), out.writerows(rows), f.flush()

        def one(task, alone=False):
            """Whether the task is to run again, alone."""
            room = a.memory * 2 ** 30 if alone else sizes[task[3]]["bytes"]
            memory.take(room)
            try:
                left = a.until - (time.monotonic() - began) if a.until else math.inf
                if left <= 0:
                    return False
                start = time.monotonic()
                made, why = asked.ask("run", min(a.deadline, left), 4 if task[0] == 3 else 1, task=task[3], level=task[0],
                                      time=seconds_of(a, task[0], is_conv(task[3])), trials=a.trials, take=a.take)
                if made is None and (why.startswith("late") and left < a.deadline or re.search("out of memory|OutOfMemory", why) and not alone):
                    return not why.startswith("late")
                row = row_of(task, made, why, time.monotonic() - start, same)
            finally:
                memory.give(room)
            with lock:
                rows.append(row), out.writerow(row), f.flush()
                print(f"{task[0]}/{task[1]:<4}{task[2][:44]:46}{row['fate']:8}"
                      f"{row.get('over_eager', ''):>8}{row.get('over_inductor', ''):>8}  {row['why'][:60]}", flush=True)
            return False
        todo = [t for t in by_turns(tasks, a.first) if t[:2] not in done]
        again = [task for task, more in zip(todo, list(pool.map(one, todo))) if more]
        list(pool.map(lambda t: one(t, True), again))
    return rows


def mean(xs):
    return math.exp(sum(map(math.log, xs)) / len(xs)) if xs else math.nan


def summary(rows, listed):
    """A line a level for all tasks, and one for those without convolution and pooling."""
    print(f"\n{'level':28}{'tasks':>6}{'run':>5}{'right':>6}{'wrong':>6}{'failed':>7}{'late':>5}{'unfit':>6}" + "".join(
        f"{f'{k} {what}':>15}" for k in ("eager", "Inductor") for what in ("fast_1", "fast_1.5", "mean")))
    for level in sorted({t[0] for t in listed}):
        for every in (True, False):
            some = [r for r in rows if int(r["level"]) == level and (every or not int(r["conv_or_pool"]))]
            fates, n = collections.Counter(r["fate"] for r in some), len(some)
            text = f"{f'{level}' if every else f'{level}, no convolution or pool':28}{sum(t[0] == level for t in listed) if every else n:6}{n:5}"
            text += "".join(f"{fates[k]:{w}}" for k, w in (("right", 6), ("wrong", 6), ("failed", 7), ("late", 5), ("unfit", 6)))
            for k in ("over_eager", "over_inductor"):
                x = [float(r[k]) for r in some if r["fate"] == "right" and r.get(k)]
                text += "".join(f"{sum(v > p for v in x) / n if n else math.nan:15.0%}" for p in (1, 1.5)) + f"{mean(x):15.3f}"
            print(text)


def called(asked, what, **more):
    made, why = asked.ask(what, 900, **more)
    if made is None:
        sys.exit(f"{CHILD}, {what}: {why}")
    return made


def sizes_of(a, asked, tasks):
    """path -> bytes. The file has them by names in the checkout."""
    known, name = {}, {t[3]: os.path.relpath(t[3], a.checkout) for t in tasks}
    if a.sizes and os.path.exists(a.sizes):
        with open(a.sizes) as f:
            known = json.load(f)
    missing = [p for p in name if name[p] not in known]
    if missing:
        known |= {name[p]: s for p, s in called(asked, "sizes", paths=missing).items()}
        if a.sizes:
            with open(a.sizes, "w") as f:
                json.dump(known, f, indent=1)
    return {p: known[n] for p, n in name.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("checkout")
    p.add_argument("--levels", default="1,2,3"), p.add_argument("--only", default=""), p.add_argument("--skip"), p.add_argument("--csv")
    p.add_argument("--time", type=float, default=60, help="seconds of Mica for a graph, twice that on level 3")
    p.add_argument("--conv-time", type=float, default=0, help="the same for tasks with convolution or pooling")
    p.add_argument("--first", action="append", default=[], help="a regular expression of LEVEL/NUMBER_NAME: such tasks begin first")
    p.add_argument("--workers", type=int, default=1), p.add_argument("--deadline", type=float, default=600, help="seconds of a task")
    p.add_argument("--until", type=float, help="seconds after which nothing runs")
    p.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    p.add_argument("--scale", type=int, default=1), p.add_argument("--memory", type=float, default=60, help="GiB that tasks may have together")
    p.add_argument("--trials", type=int, default=100, help="calls that are timed; the suite has 100")
    p.add_argument("--sizes", help="JSON of what tasks need, kept")
    p.add_argument("--take", default="faster", choices=("faster", "all"), help="which programs are kept")
    p.add_argument("--suite", default="", help="the checkout's commit, where it is no git folder")
    a = p.parse_args()
    a.checkout = os.path.abspath(a.checkout)
    tasks = tasks_of(a)
    if not tasks:
        sys.exit("no task has such a name")
    asked = Tasks(a)
    said, why = asked.ask("facts", 120)
    if said is None:  # what was imported has used the GPU
        print(f"{why}; each task imports what it uses", file=sys.stderr)
        asked = Tasks(a, bare=True)
        said = called(asked, "facts")
    if a.workers > 1:
        os.environ.setdefault("MICA_GPU_LOCK", os.path.join(said["folder"], "kernelbench.lock"))
    rows = run_all(a, asked, tasks, sizes_of(a, asked, tasks), facts(a, said))
    summary(rows, tasks)
    return any(r["fate"] == "wrong" for r in rows)


if __name__ == "__main__":
    sys.exit(main())
