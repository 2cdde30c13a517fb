"""The structure of src: components and what they use (src/components.def), cycles, names that are defined once.

    components.py            says what is wrong, exit status 1
    components.py --arrows   prints the rows of components.def as the sources have them
"""

import collections
import fnmatch
import os
import re
import sys

SOURCE = re.compile(r"\.(c|h|inc|cuh)$")
MOST_IN_A_CIRCLE = 3  # files that call each other


def read_tree(root):
    """By path: the text, without comments and strings."""
    noise = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    files = {}
    for folder, _, names in os.walk(root):
        for name in names:
            if SOURCE.search(name):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as f:
                    text = f.read()
                includes = re.findall(r'^\s*#\s*include "([^"]+)"', text, re.M)
                files[path] = (includes, noise.sub(lambda m: "\n" * m.group().count("\n"), text))
    return files


def component_of(path):
    return path.split("/")[1]


def exported(files):
    """By name: the .c file that defines this function for others."""
    head = re.compile(r"^(?!static|typedef|#|return|else)[A-Za-z_][\w *]*?\b\**(\w+)\([^;{}]*\)\s*\{", re.M)
    found = collections.defaultdict(set)
    for path, (_, text) in files.items():
        if path.endswith(".c"):
            for m in head.finditer(text):
                found[m.group(1)].add(path)
    return {name: paths.pop() for name, paths in found.items() if len(paths) == 1}


def static_names(text):
    return set(re.findall(r"^static[\w *]*?\b(\w+)\(", text, re.M))


def arrows_of(files):
    """From file to file: what it includes; the files whose functions it names."""
    home = exported(files)
    arrows = {path: set() for path in files}
    for path, (includes, text) in files.items():
        for name in includes:
            target = os.path.join("src", name)
            if target in files:
                arrows[path].add(target)
        if not path.endswith((".c", ".inc")):
            continue
        own = static_names(text)
        for word in set(re.findall(r"(?<![.\w>])(\w+)\(", text)) | set(re.findall(r"[,{=(&]\s*(\w+)\s*[,});]", text)):
            target = home.get(word)
            if target and target != path and word not in own and declared(word, path, files):
                arrows[path].add(target)
    return arrows


def reachable_headers(path, files, memo):
    if path not in memo:
        memo[path] = set()
        for name in files[path][0]:
            target = os.path.join("src", name)
            if target in files:
                memo[path] |= {target} | reachable_headers(target, files, memo)
    return memo[path]


MEMO = {}
DECLARED = {}


def declared(word, path, files):
    """Does a header that the file sees declare the function?"""
    for header in reachable_headers(path, files, MEMO):
        if header not in DECLARED:
            DECLARED[header] = set(re.findall(r"\b(\w+)\(", files[header][1]))
        if word in DECLARED[header]:
            return True
    return False


def circles(arrows):
    """Strongly connected parts of more than one member."""
    number, low, stack, inside, found = {}, {}, [], set(), []

    def visit(a):
        number[a] = low[a] = len(number)
        stack.append(a)
        inside.add(a)
        for b in sorted(arrows.get(a, ())):
            if b not in number:
                visit(b)
                low[a] = min(low[a], low[b])
            elif b in inside:
                low[a] = min(low[a], number[b])
        if low[a] == number[a]:
            part = []
            while not part or part[-1] != a:
                part.append(stack.pop())
                inside.discard(part[-1])
            if len(part) > 1:
                found.append(sorted(part))

    for a in sorted(arrows):
        if a not in number:
            visit(a)
    return found


def component_arrows(arrows):
    components = collections.defaultdict(set)
    for path, targets in arrows.items():
        components[component_of(path)] |= {component_of(t) for t in targets} - {component_of(path)}
    return components


def table(path):
    """The rows of components.def: components in their order, patterns of files that are recursive."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    rows = re.findall(r'^COMPONENT\((\w+), *"([^"]*)"\)', text, re.M)
    recursive = re.findall(r'^RECURSION\((\w+), *"([^"]*)", *"[^"]+"\)', text, re.M)
    patterns = [[f"src/{component}/{name}.c" for name in names.split()] for component, names in recursive]
    return [(component, names.split()) for component, names in rows], patterns


def check_components(components, rows):
    seen, wrong = set(), []
    for component, allowed in rows:
        real = components.get(component, set())
        wrong += [f"src/components.def: {component} is above {x}, whose row comes later: a circle" for x in allowed if x not in seen]
        wrong += [f"{component} uses {x}, which its row of src/components.def does not list" for x in sorted(real - set(allowed))]
        wrong += [f"src/components.def: {component} lists {x}, and uses nothing of it" for x in allowed if x not in real]
        seen.add(component)
    return wrong + [f"{component} has no row in src/components.def" for component in sorted(set(components) - seen)]


def check_circles(arrows, includes, patterns):
    wrong = [f"files include each other: {' '.join(c)}" for c in circles(includes)]
    for c in circles(arrows):
        known = any(all(any(fnmatch.fnmatch(path, p) for p in row) for path in c) for row in patterns)
        if len(c) > MOST_IN_A_CIRCLE and not known:
            wrong.append(f"files call each other in a circle: {' '.join(c)}")
    return wrong


def check_names(files):
    wrong = []
    places = collections.defaultdict(set)
    tags = collections.defaultdict(set)
    for path, (_, text) in files.items():
        places[os.path.basename(path)].add(path)
        for m in re.finditer(r"^\s*(?:static |typedef |const )*(struct|union|enum) (\w+) \{", text, re.M):
            tags[m.group(1) + " " + m.group(2)].add(path)
    wrong += [f"two files are called {name}: {' '.join(sorted(at))}" for name, at in sorted(places.items()) if len(at) > 1]
    wrong += [f"{tag} is defined in {' '.join(sorted(at))}" for tag, at in sorted(tags.items()) if len(at) > 1]
    return wrong


def check_maps(files):
    """Files that a header lists or names above prototypes are in its folder."""
    wrong = []
    listed = re.compile(r"^//(?:   +| ---- )((?:[a-z0-9_]+\.(?:cuh|c|h|def|inc)\b(?:, *| *;? *))+)", re.M)
    for path in files:
        if path.endswith(".h"):
            with open(path, encoding="utf-8") as f:
                text = f.read()
            names = [n for m in listed.finditer(text) for n in re.findall(r"\w+\.\w+", m.group(1))]
            wrong += [f"{path} names {n}, which is not there" for n in names if not os.path.exists(os.path.join(os.path.dirname(path), n))]
    return wrong


def main():
    files = read_tree("src")
    arrows = arrows_of(files)
    components = component_arrows(arrows)
    rows, patterns = table("src/components.def")
    if "--arrows" in sys.argv:
        order = [component for component, _ in rows] + sorted(set(components) - {component for component, _ in rows})
        for component in order:
            print(f'COMPONENT({component}, "{" ".join(sorted(components[component], key=order.index))}")')
        return 0
    wrong = check_components(components, rows)
    includes = {path: {t for t in (os.path.join("src", name) for name in names) if t in files} for path, (names, _) in files.items()}
    wrong += check_circles(arrows, includes, patterns)
    wrong += check_names(files) + check_maps(files)
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    sys.exit(main())
