#!/usr/bin/env python3
"""The pages of the site that are tables of the sources: operators, errors, options, pruning rules, instructions, targets.

    docs/generate.py OUT     $MICA: the command, which runs the examples; build/mica unless set

Reads the rows of the *.def files as the C preprocessor gives them, and nothing else: a new row is on its page by itself, or the
generator ends with what it needs to be told (an operator with an attribute of a new kind, an error without an example). The code
blocks that it writes are marked like those of the other pages, and tests/cli/test_docs.sh runs them.
"""
import ast
import json
import os
import re
import subprocess
import sys
import tempfile

TREE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MICA = os.environ.get("MICA", os.path.join(TREE, "build/mica"))


# ---- rows -------------------------------------------------------------------------------------------------------------

def split(text):
    """The arguments of a macro: at commas outside of parentheses and strings."""
    parts, depth, start = [], 0, 0
    for m in re.finditer(r'"(?:\\.|[^"\\])*"|[(),]', text):
        if m[0] == "(":
            depth += 1
        elif m[0] == ")":
            depth -= 1
        elif m[0] == "," and depth == 0:
            parts.append(text[start:m.start()].strip())
            start = m.end()
    return [*parts, text[start:].strip()]


def value(text):
    """A string of one or more literals, or the text as it stands."""
    if re.fullmatch(r'(\s*"(?:\\.|[^"\\])*")+', text):
        return "".join(ast.literal_eval(s) for s in re.findall(r'"(?:\\.|[^"\\])*"', text))
    return text


def rows(path, macro, fields):
    """The rows of a table, each a dictionary. `fields`: names of the columns."""
    names = fields.split()
    source = f'#define {macro}(...) \x01row (__VA_ARGS__) \x01end\n#include "{path}"\n'.replace("\x01", "@@")
    done = subprocess.run([os.environ.get("CC", "cc"), "-E", "-P", "-x", "c", "-I", os.path.join(TREE, "src"), "-"],
                          input=source, capture_output=True, text=True, check=True)
    flat = " ".join(done.stdout.split("\n"))
    found = [[value(x) for x in split(m)] for m in re.findall(r"@@row \((.*?)\) @@end", flat)]
    for row in found:
        if len(row) != len(names):
            sys.exit(f"{path}: a row of {len(row)} columns, {len(names)} are known here: {row[:3]}")
    if not found:
        sys.exit(f"{path}: no rows")
    return [dict(zip(names, row)) for row in found]


def run(*args, cwd=None):
    done = subprocess.run([MICA, *args], capture_output=True, text=True, cwd=cwd, timeout=60,
                          env=dict(os.environ, NO_COLOR="1"))
    if done.returncode:
        sys.exit(f"mica {' '.join(args)}: {done.stdout}{done.stderr}")
    return done.stdout.rstrip("\n")


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def table(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + " --- |" * len(head),
                      *["| " + " | ".join(cell(x) for x in line) + " |" for line in lines]])


def code(text):
    return f"`{text}`" if text else ""


HEAD = "<!-- made by docs/generate.py: change the table, not this page -->\n\n"


# ---- operators --------------------------------------------------------------------------------------------------------

RULES = {
    "IO": "moves between levels", "CONST": "no input", "INDEX": "no input: an element is its row-major number",
    "MAP": "elementwise; extents of 1 broadcast",
    "CONTRACT": "contraction: matrix product over the last two dimensions", "REDUCE": "reduction along a dimension",
    "VIEW": "view: every element of the result is one of the argument", "CONCAT": "joins along a dimension",
    "SPLIT": "parts along a dimension", "WORLD": "of all ranks of a world",
    "COMPOSITE": "rewritten into other operators before anything else looks at it",
    "AT": "data-dependent indices",
    "ACCUM": "accumulator over the iterations of a for-loop", "GRAPH": "defined by a graph inside",
}
FLAGS = {
    "COMMUTES": "commutes", "OPAQUE": "has no laws: the search and the proof take it for an unknown function",
    "MEAN": "divides by the number of elements folded", "RMS": "folds squares and takes a root at the end",
    "REDUCES": "reduces along `dim`", "RESCALES": "multiplies what it holds by its second argument first",
    "RUNNING": "its results may be used inside the loop", "KEEPS_ZERO": "0 where its arguments are",
    "KEEPS_SIGN": "positive where its arguments are", "NEVER_NEGATIVE": "never negative",
    "STANDS_IN": "stands for a written-out function in a search", "CASTS": "converts to its dtype", "NARROW": "exact in bf16",
    "SCALES": "its argument times a constant",
    "STAYS_APART": "leaves its result divided over the ranks", "ADDITIVE": "maps a sum to the sum of the results",
    "RISES": "strictly increasing", "BRACKET": "1 or 0, exact in every dtype",
    "CHOOSES": "its arguments broadcast, and values may be numbers", "INDEXES": "its result is an index",
    "ENCODES": "its result has a dimension more, and is a condition", "WHOLES": "of whole numbers",
    "JOINS_RANKS": "joins the tensors of all ranks", "SCATTERS": "leaves each rank its part", "TAKES_PART": "its results are parts of its argument",
    "READS_SLICES": "reads slices by indices", "WRITES_SLICES": "writes slices by indices", "SELECTS": "selects elements by their values",
    "CONVERTS": "makes whole numbers of any", "HIDES": "hides elements along `dim` by its second argument",
    "CORNERS": "largest where its arguments are",
}
LEVELS = {"K": "kernel", "B": "block", "T": "thread"}
SAMPLES = {"dim": "1", "extent": "4", "times": "2", "parts": "2", "index": "0", "start": "1", "end": "3", "scalar": "0.5", "lo": "-1",
           "hi": "1", "slope": "0.1", "shape": "[2, 16]", "k": "2"}
GROUPS = {"IO": "Inputs, outputs, constants", "CONST": "Inputs, outputs, constants", "INDEX": "Inputs, outputs, constants", "MAP": "Elementwise",
          "CONTRACT": "Products", "REDUCE": "Reductions", "VIEW": "Views and data movement",
          "CONCAT": "Views and data movement", "SPLIT": "Views and data movement", "WORLD": "All ranks of a world", "COMPOSITE": "Composites",
          "AT": "Data-dependent indices",
          "ACCUM": "Accumulators", "GRAPH": "Operators made of graphs"}


# Examples of operators that take whole numbers: inputs, and what is returned.
WHOLE = {"gather": (["X: f32[8, 16]", "t: i32[4] < 8"], "gather(X, t, dim=0)"),
         "update": (["X: f32[8, 16]", "at: i32[4] < 8, distinct", "Y: f32[4, 16]"], "update(X, at, Y, dim=0)"),
         "one_hot": (["t: i32[4] < 8"], "one_hot(t, extent=8)"),
         "floor_div": (["t: i32[4] < 100"], "t // 8"), "mod": (["t: i32[4] < 100"], "t % 8")}


def program(name, inputs, body):
    lines = [f"  {n}: f32[{s}]" for n, s in inputs]
    return f"program example_{name} {{\n" + "\n".join(lines + ["  " + b for b in body]) + "\n}"


def block(name, loads, body, saved="y"):
    """Two blocks, each with a loop of four iterations over the columns of 4 x 32 matrices."""
    lines = [f"graph example_{name} {{", *[f"  {n}: f32[{s}]" for n, s, _ in loads], "  Y = block(x=2; i=4) {",
             *[f"    {n.lower()} = iter({n}, {maps})" for n, _, maps in loads], *["    " + b for b in body],
             f"    save({saved}, omap={{x:0}})", "  }", "  return Y", "}"]
    return "\n".join(lines)


ROWS = "imap={x:0}, fmap={i:1}"
WHOLE_ROWS = "imap={x:0}"


def example(op, needed):
    """A whole program that has this operator, by its index rule and levels."""
    name, rule, least, most = op["name"], op["rule"], int(op["least"]), op["most"]
    given = ", ".join(f"{a}={SAMPLES[a]}" for a in needed)
    if name in ("input", "output"):
        return program(name, [("X", "4, 8")], ["return exp(X)"])
    if name in ("iter", "save", "block"):
        return block(name, [("X", "4, 32", ROWS)], ["y = accum_sum(x, dim=1)"])
    if name == "thread":
        return block(name, [("X", "4, 32", WHOLE_ROWS)],
                     ["y = thread(x=2) {", "  t = iter(x, imap={x:0})", "  save(exp(t), omap={x:0})", "}"]).replace("; i=4", "")
    if name in WHOLE:
        return f"program example_{name} {{\n" + "".join(f"  {i}\n" for i in WHOLE[name][0]) + f"  return {WHOLE[name][1]}\n}}"
    if name == "topk":
        return program(name, [("X", "4, 8")], ["V, I = topk(X, k=2, dim=1)", "return V, I"])
    if rule == "CONST":
        return program(name, [("X", "4, 8")], [f"return X * {name}({given})"])
    if name == "concat_matmul":
        loads = [("A", "4, 32", WHOLE_ROWS), ("B", "4, 8", WHOLE_ROWS), ("C", "32, 16", "imap={x:_}"), ("D", "8, 16", "imap={x:_}")]
        return block(name, loads, [f"y = {name}(a, b, c, d)"]).replace("; i=4", "")
    if "K" not in op["levels"]:
        if rule == "ACCUM" and "RUNNING" in op["flags"]:
            return block(name, [("X", "4, 32", ROWS)], [f"m, change = {name}(max(x, dim=1))",
                                                        "y = accum_sum_rescale(exp(x - m), exp(change), dim=1)"])
        if "RESCALES" in op["flags"]:
            body = ["m, change = accum_max(max(x, dim=1))", "f = exp(change)",
                    f"y = {name}({', '.join(filter(None, ['exp(x - m)', 'f', given]))})"]
            return block(name, [("X", "4, 32", ROWS)], body)
        arguments = ", ".join(filter(None, ["x", given]))
        after = "y = accum(t)" if rule == "REDUCE" else None
        body = [f"{'t' if after else 'y'} = {name}({arguments})"] + ([after] if after else [])
        return block(name, [("X", "4, 32", ROWS)], body)
    shapes = {"CONTRACT": ["4, 8", "8, 16"], "CONCAT": ["4, 8", "4, 8"], "COMPOSITE": ["4, 8", "8", "8"]}.get(rule, ["4, 8", "8"])
    count = max(least, 2) if rule == "CONCAT" else least if most == "255" or not most.isdigit() else int(most)
    inputs = list(zip("XYZ", shapes))[:count]
    call = f"{name}({', '.join([n for n, _ in inputs] + ([given] if given else []))})"
    if name == "split":
        return program(name, inputs, [f"A, B = {call}", "return A, B"])
    return program(name, inputs, [f"return {call}"])


def signature(op, attrs):
    count, most = int(op["least"]), op["most"]
    if op["rule"] == "GRAPH":
        return f"{op['name']}(x=...; i=...) {{ ... }}"
    names = ["x", "y", "z", "u"][:count]
    if most.isdigit():
        names += [f"[{n}]" for n in ["x", "y", "z", "u"][count:int(most)]]
    else:
        names += ["..."]
    return f"{op['name']}({', '.join(names + [a['name'] if a['presence'] == 'NEED' else a['name'] + '=' for a in attrs])})"


def operators():
    attributes = {a["id"]: a for a in rows("ir/attr.def", "ATTR", "id name kind presence doc")}
    table_rows = rows("ir/op.def", "OP", "id name least most rule levels attrs flags float law abstract range cost doc")
    kinds = {"DIM": "dimension", "INT": "integer", "REAL": "number", "LIST": "integers", "GRID": "map of grid axes",
             "LOOP": "map of loop axes"}
    text = [HEAD + "# Operators\n", "The rows of `src/ir/op.def`, which is the only list of operators: parser, evaluators, search, proof and "
            "generated code derive from a row. `mica ops` prints the same, `mica ops --json -` as JSON. How calls are written "
            "is in [the language](language.md).\n"]
    order = list(dict.fromkeys(GROUPS.values()))
    table_rows = sorted(table_rows, key=lambda op: order.index(GROUPS[op["rule"]]) if op["rule"] in GROUPS else -1)
    last = None
    with tempfile.TemporaryDirectory() as folder:
        for op in table_rows:
            attrs = [attributes[a[2:]] for a in re.findall(r"A_\w+", op["attrs"])]
            unknown = set(re.findall(r"[A-Z_]{2,}", op["flags"])) - set(FLAGS)
            if unknown or op["rule"] not in RULES:
                sys.exit(f"docs/generate.py has no words for {op['name']}: {unknown or op['rule']}")
            if GROUPS[op["rule"]] != last:
                last = GROUPS[op["rule"]]
                text.append(f"## {last}\n")
            shown = example(op, [a["name"] for a in attrs if a["presence"] == "NEED"])
            path = f"example_{op['name']}.mica"
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(shown + "\n")
            printed = run("run", path, "--threads", "1", cwd=folder)
            levels = ", ".join(LEVELS[x] for x in re.findall(r"\b[KBT]\b", op["levels"]))
            facts = [("signature", code(signature(op, attrs))), ("levels", levels), ("index rule", RULES[op["rule"]])]
            facts += [(f"`{a['name']}`", f"{kinds[a['kind']]}{'' if a['presence'] == 'NEED' else ', optional'}: {a['doc']}") for a in attrs]
            facts += [("properties", "; ".join(FLAGS[x] for x in re.findall(r"[A-Z_]{2,}", op["flags"])))]
            if op["rule"] in ("MAP", "REDUCE", "ACCUM", "CONTRACT"):
                facts += [("over floats", code(op["float"])), ("law", code(op["law"]))]
            facts += [("cost", f"{op['cost']} operations an element")] if op["cost"] != "0" else []
            text += [f"### {op['name']}\n", sentence(op["doc"]) + "\n", table(["", ""], [f for f in facts if f[1]]) + "\n",
                     f"```mica\n{shown}\n```\n", f"```console\n$ mica run {path} --threads 1\n{printed}\n```\n"]
    return "\n".join(text)


# ---- errors -----------------------------------------------------------------------------------------------------------

def sentence(text):
    """A row as a sentence; a page that it begins with is linked."""
    page = re.match(r"docs/(\S+\.md)", text)
    return (f"[{page[0]}]({page[1]}){text[page.end():]}" if page else text[0].upper() + text[1:]) + "."


def errors():
    """A row each, with the section of docs/error-examples.md that shows it."""
    with open(os.path.join(TREE, "docs/error-examples.md"), encoding="utf-8") as file:
        parts = re.split(r"^## (.*)\n", file.read(), flags=re.M)
    shown = dict(zip(parts[1::2], [p.strip() for p in parts[2::2]]))
    status = {"OK": 0, "NO": 1, "USER": 2, "ENV": 3}
    found = [r for r in rows("base/err.def", "ERR", "id status name hint") if r["id"] != "NONE"]
    names = [r["name"] for r in found]
    if sorted(names) != sorted(shown):
        sys.exit(f"docs/error-examples.md and src/base/err.def differ: {sorted(set(names) ^ set(shown))}")
    text = [HEAD + "# Errors\n",
            "The rows of `src/base/err.def`. Every message ends in the name of its row in brackets, which is stable, for scripts; the line "
            "below says what to do. The exit status of the command, and what functions of the C interface return, is 0: done, 1: the "
            "answer is no, 2: the program or an option is wrong, 3: the environment is.\n",
            table(["error", "status", "what to do, unless the message knows better"],
                  [(f"[{r['name']}](#{r['name']})", str(status[r["status"]]), r["hint"]) for r in found]) + "\n"]
    for r in found:
        text += [f"## {r['name']}\n", f"Exit status {status[r['status']]}. {sentence(r['hint'])}\n", shown[r["name"]] + "\n"]
    return "\n".join(text)


# ---- the command ------------------------------------------------------------------------------------------------------

def options():
    commands = rows("cli/cmd.def", "CMD", "name least most args options summary examples")
    opts = rows("cli/opt.def", "OPT", "id name kind field argument doc")
    text = [HEAD + "# The command\n", "The rows of `src/cli/cmd.def` and `src/cli/opt.def`; `mica help COMMAND` prints those of a command.\n"]
    for c in commands:
        printed = run("help", c["name"])
        own = [o for o in opts if re.search(rf"^  --{re.escape(o['name'])}\b", printed, re.M)]
        text += [f"## mica {c['name']}\n", sentence(c["summary"]) + "\n",
                 f"```text\n{usage(c)}\n```\n"]
        if own:
            text.append(table(["option", ""], [(code(f"--{o['name']} {o['argument']}".strip()), o["doc"]) for o in own]) + "\n")
        if c["examples"]:
            text += ["Examples:\n", "\n".join(f"- `{x}`" for x in c["examples"].split("\n")) + "\n"]
    return "\n".join(text)


def usage(c):
    return f"usage: mica {c['name']} {c['args']}".rstrip() + " [OPTIONS]"


# ---- tables as they are -----------------------------------------------------------------------------------------------

def pruning():
    found = rows("search/prune.def", "PRUNE", "id name switch doc")
    fuse = rows("thread/rule.def", "FUSE", "id name rule feeds doc")
    return "\n".join([
        HEAD + "# Pruning rules\n",
        "The rows of `src/search/prune.def`: what a search leaves out. `mica search --why` says how much each removed, the report counts it "
        "under `search.pruned`, and `--off RULE,...` switches off those that can be. What is lost, and what is not, is in "
        "[the theory](theory.md); [how to add one](howto-rule.md).\n",
        table(["rule", "`--off`", "removes"], [(code(r["name"]), "yes" if r["switch"] == "1" else "", r["doc"]) for r in found]) + "\n",
        "## Rules of thread graphs\n",
        "The rows of `src/thread/rule.def`: which operators of a block graph join a chain that one thread computes in registers.\n",
        table(["rule", "for", "others may read it", "what"],
              [(code(r["name"]), RULES[r["rule"].replace("RULE_", "")], "yes" if r["feeds"] == "true" else "no", r["doc"]) for r in fuse]) + "\n"])


def instructions():
    found = rows("tile/instr.def", "INSTR", "name spec sem threads needs operands attrs text cost")
    names = {c["id"]: c["name"] for c in rows("target/capability.def", "CAPABILITY", "id name doc")}
    text = [HEAD + "# Instructions\n",
            f"The {len(found)} rows of `src/tile/instr.def`: what a spec of [the tile language](tile.md) without a body can become. Rows of a "
            "kind of spec stand in the order in which they are tried; *named* rows are taken only where `<...>` names them or the family they are "
            "of. Operands are results `<-` arguments: a kind, elements a thread, type, memory. Cost is in cycles of issue a warp, roughly.\n"]
    for spec in dict.fromkeys(r["spec"] for r in found):
        mine = [r for r in found if r["spec"] == spec]
        text += [f"## {spec}\n", table(["instruction", "threads", "needs", "operands", "named", "cost"],
                 [(code(r["name"]), r["threads"] if r["threads"] != "0" else "the group", names.get(r["needs"], ""),
                   code(r["operands"]), "named" if "chosen" in r["attrs"].split() else "", r["cost"].replace(" ", "")) for r in mine]) + "\n"]
    return "\n".join(text)


def targets():
    host = rows("target/target.def", "TARGET", "id name open doc")
    can = rows("target/capability.def", "CAPABILITY", "id name doc")
    gpu = [t for t in json.loads(run("targets", "--json", "-", "--quiet"))["targets"] if "can" in t]
    return "\n".join([
        HEAD + "# Targets\n",
        "The rows of `src/target/target.def` and `src/target/gpu.def`, which `--target` takes. `mica targets` adds the measured rates of the "
        "processor at hand. Only `cpu` needs what it names; a program can be optimized for a GPU that is not there, then a model ranks "
        "([GPUs](gpu.md)). [How to add one](howto-target.md).\n",
        table(["target", "what"], [(code(r["name"]), r["doc"]) for r in host + gpu]) + "\n",
        "## What the model takes for granted\n",
        "Typical rates of one device of each target; those of the H200 were measured.\n",
        table(["target", "device", "multi&shy;processors", "L2 MiB", "memory GiB", "copy GB/s", "L2 GB/s", "fp16 TFLOP/s", "fp32 T/s", "exp T/s",
               "launch us"],
              [(code(t["name"]), t["device"], str(t["cores"]), str(t["l2"] >> 20), str(t["memory"] >> 30), f"{t['bandwidth'] / 1e9:.0f}",
                f"{t['cache_bandwidth'] / 1e9:.0f}", f"{t['flops'] / 1e12:.0f}", f"{t['vector_rate'] / 1e12:.1f}", f"{t['exp_rate'] / 1e12:.1f}",
                f"{t['launch'] * 1e6:.2f}") for t in gpu]) + "\n",
        "## A multiprocessor\n",
        table(["target", "shared KiB of a block", "shared KiB", "registers", "threads", "blocks", "largest cluster", "lanes", "clock GHz"],
              [(code(t["name"]), str(t["scratch"] >> 10), str(t["shared_processor"] >> 10), str(t["registers"]), str(t["threads"]), str(t["blocks"]),
                str(t["cluster"]), str(t["lanes"]), f"{t['clock'] / 1e9:.2f}") for t in gpu]) + "\n",
        "## Capabilities\n",
        "An instruction or a scheme names the capability that it needs; a target has those of its row.\n",
        table(["capability", "what", "targets"],
              [(c["name"], c["doc"], ", ".join(code(t["name"]) for t in gpu if c["name"] in t["can"])) for c in can]) + "\n"])


def interface():
    return HEAD + "# mica.h\n\nEvery declaration of `include/mica.h`, by Doxygen; [the library](library.md) is the way through it.\n\n" + \
        "```{doxygenfile} mica.h\n:project: mica\n```\n"


PAGES = {"interface": interface, "operators": operators, "errors": errors, "command": options, "pruning": pruning, "instructions": instructions,
         "targets": targets}


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, make in PAGES.items():
        with open(os.path.join(sys.argv[1], name + ".md"), "w", encoding="utf-8") as file:
            file.write(make())


if __name__ == "__main__":
    main()
