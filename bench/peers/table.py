"""Tables of what was measured."""
from .workload import WORKLOADS


def summarize(d):
    for key in ("cold", "hot"):
        c = [(r[key + "_us"], n) for n, r in d["baselines"].items()
             if r.get("ok") and not r.get("info_only") and key + "_us" in r]
        if c:
            t, n = min(c)
            d["best_" + key] = {"name": n, "us": t, "x_floor": t / d["floor_us"] if d.get("floor_us") else None}




def table(doc, limit=11000):
    m = doc.get("meta", {})
    lines = ["%s %s torch %s triton %s | copy %.2f TB/s, read %s TB/s, bf16 mm %.0f TFLOP/s, graph node %s us | finished %s" % (
        m.get("gpu", "?"), m.get("dtype"), m.get("torch"), m.get("triton"), m.get("copy_tbs", 0) or 0,
        ("%.2f" % m["read_tbs_amax"]) if isinstance(m.get("read_tbs_amax"), float) else "?",
        m.get("mm_tflops", 0) or 0, ("%.2f" % m["node_us"]) if m.get("node_us") else "?", m.get("finished"))]
    lines.append("%-25s %8s %4s %8s %6s %-20s %8s %-17s %8s %5s" % (
        "workload", "floor", "", "best", "xfloor", "which (cold)", "hot", "which (hot)", "eager", "ok/n"))
    fails = {}
    for name, d in doc.get("workloads", {}).items():
        bc, bh = d.get("best_cold"), d.get("best_hot")
        ee = [r.get("cold_us") for n, r in d["baselines"].items() if n.startswith("eager") and r.get("ok")]
        ee = [x for x in ee if x]
        ok = sum(1 for r in d["baselines"].values() if r.get("ok"))
        lines.append("%-25s %8.2f %4s %8s %6s %-20s %8s %-17s %8s %5s" % (
            name, d.get("floor_us") or 0, d.get("floor_kind", ""),
            "%.2f" % bc["us"] if bc else "-", "%.2f" % bc["x_floor"] if bc else "-",
            (bc["name"] + ("*" if d["baselines"][bc["name"]].get("timing") == "nograph" else ""))[:20] if bc else "-",
            "%.2f" % bh["us"] if bh else "-", bh["name"][:17] if bh else "-",
            "%.2f" % ee[0] if ee else "-", "%d/%d%s" % (ok, len(d["baselines"]), "+%ds" % len(d["skipped"]) if d.get("skipped") else "")))
        for n, r in d["baselines"].items():
            if r.get("error"):
                fails.setdefault((n, r["error"][:110]), []).append(name.split("/")[-1])
    if fails:
        lines.append("n/a (baseline: reason [workloads]):")
        for (n, e), ws in sorted(fails.items(), key=lambda kv: -len(kv[1])):
            lines.append("  %s: %s [%s%s]" % (n, e, ",".join(ws[:3]), " +%d" % (len(ws) - 3) if len(ws) > 3 else ""))
    lines.append("us per launch; eager = first eager form, cold; * = no graph (host time included); +Ns = N baselines not reached")
    out = "\n".join(lines)
    if len(out) > limit:
        while len("\n".join(lines)) > limit - 40 and len(lines) > 4:
            lines.pop(-2)
        lines.insert(-1, "  ... (more in the JSON)")
        out = "\n".join(lines)
    return out


def mica_table(doc):
    """Workload, floor, best peer, Mica, ratio: Mica against the fastest of all others, cold."""
    lines = ["%-25s %9s %9s %-22s %9s %6s %9s %9s" % ("workload", "floor us", "peer us", "peer", "mica us", "ratio", "peer err", "mica err")]
    for name, d in doc.get("workloads", {}).items():
        m = d["baselines"].get("mica")
        peers = [(r["cold_us"], n, r.get("rel_err", 0)) for n, r in d["baselines"].items()
                 if n != "mica" and r.get("ok") and not r.get("info_only") and "cold_us" in r]
        if not m:
            continue
        best = min(peers) if peers else None
        ours = m.get("cold_us") if m.get("ok") else None
        lines.append("%-25s %9.2f %9s %-22s %9s %6s %9s %9s" % (
            name, d.get("floor_us") or 0, "%.2f" % best[0] if best else "-", best[1][:22] if best else "-",
            "%.2f" % ours if ours else "wrong" if "rel_err" in m else "-", "%.2f" % (best[0] / ours) if best and ours else "-",
            "%.1e" % best[2] if best else "-", "%.1e" % m["rel_err"] if "rel_err" in m else m.get("error", "-")[:60]))
    return "\n".join(lines) if len(lines) > 1 else ""


def full_table(doc):
    out = []
    for name, d in doc.get("workloads", {}).items():
        out.append("%s  %s  floor %.2f us (%s)  flops %.4g bytes %.4g  %s" % (
            name, d.get("shapes"), d.get("floor_us") or 0, d.get("floor_kind"), d.get("flops", 0), d.get("bytes", 0), d.get("note", "")))
        rs = sorted(d["baselines"].items(), key=lambda kv: kv[1].get("cold_us") if kv[1].get("ok") and "cold_us" in kv[1] else 1e18)
        for n, r in rs:
            if "cold_us" in r:
                extra = " ".join("%s=%s" % (k, r[k]) for k in ("mode", "config", "flex", "hf", "timing") if k in r)
                out.append("    %-22s cold %10.2f  hot %10.2f  err %.2e  setup %6.1fs %s%s%s" % (
                    n, r["cold_us"], r["hot_us"], r.get("rel_err", 0), r.get("setup_s", 0),
                    "" if r.get("ok") else "WRONG ", "(less than the workload) " if r.get("info_only") else "", extra))
            elif r.get("mode_t") == "dry":
                out.append("    %-22s dry  %s err %.2e" % (n, "ok" if r.get("ok") else "WRONG", r.get("rel_err", 0)))
            else:
                out.append("    %-22s n/a  %s" % (n, r.get("error", "")))
        for n, why in d.get("skipped", {}).items():
            out.append("    %-22s skipped: %s" % (n, why))
    return "\n".join(out)


def list_table(without=()):
    out = ["%-26s %-78s %14s %14s %9s" % ("workload", "shapes", "flop", "bytes", "flop/B")]
    for w in WORKLOADS:
        out.append("%-26s %-78s %14d %14d %9.2f" % (w.name, w.shapes, w.flops, w.nbytes, w.flops / w.nbytes))
    for name in without:
        out.append("%-26s no program: %s" % (name, without[name]))
    return "\n".join(out)


