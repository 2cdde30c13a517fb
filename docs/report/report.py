#!/usr/bin/env python3
"""Writes the report on Mica, one HTML page that needs no other file: method, guarantees, ablations, all tables. `make report` runs it.

    docs/report/report.py FOLDER     FOLDER/report.html, and FOLDER/report.pdf where this Python has weasyprint or a chromium is installed

Text stands in report.md beside this file, in the little of Markdown that it has: headings, paragraphs, lists of hyphens, `code`, [links](to). A line
`{{NAME}}` is a table or picture, a function of this file, made of the csv files of bench/. A table that is empty is an error.
"""
import csv
import html
import math
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.join(HERE, "..", "..")
STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 Georgia, serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
h1, h2, h3 { font-family: system-ui, sans-serif; line-height: 1.2 } h1 { font-size: 1.9rem } h2 { margin-top: 2.2rem; font-size: 1.35rem }
code { font: 0.88em ui-monospace, monospace } .wide { overflow-x: auto } img { max-width: 100%; background: #fff }
table { border-collapse: collapse; font: 0.82rem/1.35 system-ui, sans-serif; margin: 1rem 0 }
caption { text-align: left; font-style: italic; padding: 0.3rem 0 }
th, td { padding: 0.15rem 0.6rem; border-bottom: 1px solid #8886; text-align: right } th:first-child, td:first-child { text-align: left }
@media print { body { font-size: 10pt; max-width: none } h2 { break-after: avoid } tr { break-inside: avoid } }
"""


def rows(name):
    with open(os.path.join(TREE, "bench", name), newline="", encoding="utf-8") as f:
        return list(csv.DictReader(line for line in f if not line.startswith("#")))


def mean(xs):
    return math.exp(sum(map(math.log, xs)) / len(xs))


def table(caption, head, lines):
    lines = list(lines)
    if not lines:
        sys.exit(f"report: no rows for: {caption}")
    cells = lambda tag, line: "<tr>" + "".join(f"<{tag}>{html.escape(str(c))}</{tag}>" for c in line) + "</tr>"
    return "\n".join(['<div class="wide"><table>', f"<caption>{html.escape(caption)} {len(lines)} rows.</caption>", "<thead>", cells("th", head),
                      "</thead><tbody>",
                      *(cells("td", line) for line in lines), "</tbody></table></div>"])


# ---- tables ----

def picture():
    with open(os.path.join(TREE, "docs/_static/peers.svg"), encoding="utf-8") as f:
        return f.read()


def peers():
    found = rows("peers_h200.csv")
    return table("NVIDIA H200, fp16, cold caches, medians in microseconds of one process (bench/peers_h200.csv).",
                 ["workload", "bound", "best peer", "peer", "Mica", "times as fast", "score"],
                 ([r["workload"], r["floor us"], r["peer"], r["peer us"], r["mica us"], r["ratio"], r["sol score"]] for r in found))


def cpu():
    return table("f32, two virtual cores of an AMD EPYC, medians in milliseconds (bench/cpu.csv). Op-by-op is OpenBLAS and vectorized loops.",
                 ["program", "op-by-op", "optimized", "times as fast", "kernels", "search, s"],
                 ([r["program"], f"{float(r['baseline_us']) / 1e3:.3g}", f"{float(r['best_us']) / 1e3:.3g}", f"{float(r['speedup']):.2f}",
                   f"{r['baseline_kernels']} to {r['best_kernels']}", r["search_s"]] for r in rows("cpu.csv")))


def cpu_peers():
    return table("Mica, onnxruntime and jax in one process on a CPU, microseconds, each form (bench/cpu_peers.csv).",
                 ["workload", "engine", "form", "us", "Mica is times as fast"],
                 ([r["workload"], r["engine"], r["form"], r["us"], r["mica_times_as_fast"]] for r in rows("cpu_peers.csv") if r["engine"] != "copy"))


def models():
    return table("Models by torch.compile on an H200, microseconds (bench/torch_models.csv).",
                 ["model", "how", "dtype", "eager", "Inductor", "Mica", "nodes taken"],
                 ([r["model"], r["how"], r["dtype"], r["eager_us"], r["inductor_us"], r["mica_us"],
                   f"{r['taken']} of {r['nodes']}"] for r in rows("torch_models.csv")))


def ablation():
    """Ratios of operators tried with a rule switched off to those tried with all rules: means over programs, by the size of block graphs."""
    found = {(r["program"], r["block_ops"], r["off"]): r for r in rows("ablation.csv")}
    rules = sorted({k[2] for k in found} - {"none"})
    sizes = sorted({int(k[1]) for k in found})

    def cell(n, rule):
        both = [(found.get((p, str(n), rule)), found.get((p, str(n), "none"))) for p in sorted({k[0] for k in found})]
        ratios = [float(a["tried"]) / float(b["tried"]) for a, b in both if a and b and a["complete"] == b["complete"] == "yes"]
        return f"{mean(ratios):.2f} ({len(ratios)})" if ratios else "all too long"
    return table("Operators that a search tries with one rule switched off, divided by those with all rules: the mean of programs whose search "
                 "ends within a minute either way (their number), by most operators in a block graph (bench/ablation.csv).", ["operators", *rules],
                 ([n, *(cell(n, rule) for rule in rules)] for n in sizes))


def attack():
    return table("Generated pairs of programs against the verifier (bench/attack.csv). Unequal kinds must not be accepted.",
                 ["kind", "pairs", "proved", "full tests", "reduced", "undecided", "not equal", "refused", "wrong"],
                 ([r[k] for k in ("kind", "pairs", "proved", "full", "reduced", "undecided", "not_equal", "refused",
                                  "wrong")] for r in rows("attack.csv")))


def onnx():
    found = rows("suites/onnx_nodes.csv")
    fates = {f: [r for r in found if r["fate"] == f] for f in ("passed", "refused", "wrong", "crashed")}
    return table(f"Node tests of the package onnx {found[0]['onnx']} with the CPU target (bench/suites/onnx_nodes.csv).",
                 ["fate", "tests", "with kernels"],
                 ([f, len(x), sum(int(r["programs"] or 0) > 0 for r in x)] for f, x in fates.items())).replace(" 4 rows.", "")


TABLES = {f.__name__: f for f in (picture, peers, cpu, cpu_peers, models, ablation, attack, onnx)}


# ---- text ----

def inline(text):
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text, quote=False))
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
    return re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', text)


def block(text):
    name = re.fullmatch(r"\{\{(\w+)\}\}", text)
    if name:
        return TABLES[name[1]]()
    heading = re.fullmatch(r"(#+) (.*)", text)
    if heading:
        return f"<h{len(heading[1])}>{inline(heading[2])}</h{len(heading[1])}>"
    if text.startswith("- "):
        return "<ul>" + "".join(f"<li>{inline(x)}</li>" for x in re.split(r"(?:^|\n)- ", text)[1:]) + "</ul>"
    return f"<p>{inline(text)}</p>"


def page():
    with open(os.path.join(HERE, "report.md"), encoding="utf-8") as f:
        blocks = [b for b in re.split(r"\n\s*\n", f.read().strip()) if b]
    title = blocks[0].lstrip("# ")
    body = "\n".join(map(block, blocks))
    head = '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
    return f"{head}<title>{title}</title>\n<style>{STYLE}</style>\n{body}\n</html>\n"


def print_pdf(page, pdf):
    """By what is there; False: nothing is. weasyprint is a Python package, which needs the system's pango."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from weasyprint import HTML
    except (ImportError, OSError):
        HTML = None
    if HTML:
        HTML(filename=page).write_pdf(pdf)
    elif chromium:
        subprocess.run([chromium, "--headless", "--no-sandbox", "--no-pdf-header-footer", f"--print-to-pdf={pdf}", page], check=True,
                       stderr=subprocess.DEVNULL)
    return bool(HTML or chromium)


def main():
    folder = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "report.html")
    with open(path, "w", encoding="utf-8") as f:
        f.write(page())
    print(path)
    if print_pdf(path, os.path.join(folder, "report.pdf")):
        print(os.path.join(folder, "report.pdf"))
    else:
        print("no PDF: neither weasyprint nor chromium is installed; any browser prints the page", file=sys.stderr)


if __name__ == "__main__":
    main()
