#!/usr/bin/env python3
"""Draws docs/_static/peers.svg from bench/peers_h200.csv: how many times as fast as its best peer each of Mica's kernels is.

    scripts/figure.py [--check]     --check: write nothing; exit status 1 where the file differs
"""
import csv
import math
import os
import sys

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TABLE, PICTURE = os.path.join(TREE, "bench/peers_h200.csv"), os.path.join(TREE, "docs/_static/peers.svg")
GROUPS = {"attn": ("attention", "#2166ac"), "lin": ("products, fused", "#1b9e77"),
          "moe": ("mixtures of experts", "#b2182b"), "misc": ("norms, softmax, other", "#a6761d")}
LEFT, TOP, BAR, HIGH = 48, 64, 9, 230
LEAST, MOST, TICKS = 0.9, 5.0, (1, 1.5, 2, 3, 4, 5)


def height(ratio):
    return HIGH * math.log(ratio / LEAST) / math.log(MOST / LEAST)


def text(x, y, words, more=""):
    return f'<text x="{x:g}" y="{y:g}" {more}>{words}</text>'


def picture(rows):
    mean = math.exp(sum(math.log(r) for _, r in rows) / len(rows))
    wide = LEFT + BAR * len(rows) + 20
    base = TOP + HIGH
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {base + 44}" font-family="sans-serif" font-size="12">',
           f'<title>{len(rows)} workloads on an H200: times as fast as the best peer, geometric mean {mean:.2f}</title>',
           '<rect width="100%" height="100%" fill="#ffffff"/>',
           text(LEFT, 20, f"{len(rows)} workloads on an NVIDIA H200, fp16: times as fast as the best peer", 'font-size="15" font-weight="bold"'),
           text(LEFT, 38, f"Geometric mean {mean:.2f}. A bar is one workload. Peers: PyTorch, torch.compile, cuDNN, cuBLASLt, Triton.")]
    for tick in TICKS:
        y = base - height(tick)
        out.append(f'<line x1="{LEFT}" x2="{wide - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="{"#444444" if tick == 1 else "#cccccc"}"/>')
        out.append(text(LEFT - 6, round(y + 4, 1), f"{tick:g}x", 'text-anchor="end"'))
    for i, (group, ratio) in enumerate(sorted(rows, key=lambda r: -r[1])):
        top, zero = base - height(max(ratio, 1)), base - height(min(ratio, 1))
        out.append(f'<rect x="{LEFT + BAR * i + 1}" y="{top:.1f}" width="{BAR - 2}" height="{max(zero - top, 1):.1f}" fill="{GROUPS[group][1]}"/>')
    x = LEFT
    for name, color in GROUPS.values():
        out += [f'<rect x="{x}" y="{base + 20}" width="10" height="10" fill="{color}"/>', text(x + 15, base + 29, name)]
        x += 40 + 7 * len(name)
    return "\n".join(out + ["</svg>", ""])


def main():
    with open(TABLE, encoding="utf-8", newline="") as file:
        drawn = picture([(r["workload"].split("/")[0], float(r["ratio"])) for r in csv.DictReader(file)])
    if "--check" not in sys.argv[1:]:
        with open(PICTURE, "w", encoding="utf-8") as file:
            file.write(drawn)
        return 0
    with open(PICTURE, encoding="utf-8") as file:
        same = file.read() == drawn
    if not same:
        print("docs/_static/peers.svg differs from bench/peers_h200.csv; scripts/figure.py draws it", file=sys.stderr)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
