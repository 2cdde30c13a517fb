"""The process that is started: it gives time, and goes on where a measuring process ends."""
import json
import os
import signal
import subprocess
import sys
import time

from .env import TMP
from .table import full_table, mica_table, table


def supervise(args, argv):
    t0 = time.time()
    deadline = t0 + args.budget_s
    outdir = os.path.dirname(os.path.abspath(args.out))
    os.makedirs(outdir, exist_ok=True)
    if os.path.exists(args.out) and not args.resume:
        os.remove(args.out)
    logpath = os.path.splitext(args.out)[0] + ".log"
    beat = os.path.join(TMP, "peers_beat_%d.json" % os.getpid())
    tries = 0
    why_end = ""
    current = []

    def stop(signum, frame):  # never leave the child behind
        for q in current:
            kill_group(q)
        sys.exit(128 + signum)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    with open(logpath, "ab") as log:
        while True:
            if os.path.exists(beat):
                os.remove(beat)
            env = dict(os.environ, PEERS_ROLE="child", PEERS_DEADLINE=repr(deadline), PEERS_BEAT=beat, PYTHONUNBUFFERED="1",
                       TORCHINDUCTOR_CACHE_DIR=os.path.join(TMP, "peers_cache", "inductor"),
                       TRITON_CACHE_DIR=os.path.join(TMP, "peers_cache", "triton"),
                       TORCHINDUCTOR_COMPILE_THREADS=str(args.threads), TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS="ATEN,TRITON")
            p = subprocess.Popen([sys.executable, os.path.abspath(sys.argv[0])] + argv, stdout=log, stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, env=env, start_new_session=True)
            current[:] = [p]
            started = time.time()
            reason = ""
            while p.poll() is None:
                time.sleep(0.3)
                now = time.time()
                if now > deadline + 12:
                    reason = "deadline"
                    break
                hb = read_beat(beat)
                if hb and hb["limit"] and now > hb["t"] + hb["limit"]:
                    reason = "took over %.0f s" % hb["limit"]
                    break
                if not hb and now > started + 120:
                    reason = "no start in 120 s"
                    break
            if p.poll() is None:
                kill_group(p)
            rc = p.wait()
            kill_group(p)  # helpers that it left behind
            hb = read_beat(beat)
            if reason == "deadline" or rc == 0:
                why_end = reason or "done"
                break
            tries += 1
            if hb and rc != 77 or (hb and reason):
                mark(args.out, hb, reason or "the process ended with code %s" % rc)
            print("child ended (%s, code %s) in %s / %s" % (reason, rc, (hb or {}).get("w"), (hb or {}).get("b")), flush=True)
            if tries > args.restarts or deadline - time.time() < 25 or not hb:
                why_end = "gave up after %d restarts" % tries
                break
    for f in (beat, beat + ".tmp"):
        if os.path.exists(f):
            os.remove(f)
    print("run ended: %s after %.0f s; log %s" % (why_end, time.time() - t0, logpath))
    if not os.path.exists(args.out):
        print(tail(logpath, 3000))
        return 1
    with open(args.out) as f:
        doc = json.load(f)
    with open(os.path.splitext(args.out)[0] + ".txt", "w") as f:
        f.write(table(doc, 1 << 30) + "\n\n" + full_table(doc) + "\n")
    print(table(doc))
    if mica_table(doc):
        print(mica_table(doc))
    return 0


def tail(path, n):
    with open(path, "rb") as f:
        return f.read()[-n:].decode("utf-8", "replace")


def read_beat(path):
    try:
        with open(path) as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def kill_group(p):
    """End the child that we started, and its own helpers (it leads its own session)."""
    try:
        os.killpg(p.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        if p.poll() is None:
            p.kill()


def mark(out, hb, why):
    if not os.path.exists(out):
        return
    with open(out) as f:
        doc = json.load(f)
    d = doc["workloads"].get(hb["w"])
    if d is not None:
        d["baselines"].setdefault(hb["b"], {"ok": False, "error": why})
        with open(out + ".tmp", "w") as f:
            json.dump(doc, f, indent=1)
        os.replace(out + ".tmp", out)
