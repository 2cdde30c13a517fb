"""Links of pages lead to files of the tree and to headings of pages.

    links.py TREE < PAGES     prints PAGE:LINE: LINK and ends with status 1 where there is none; PAGES are names, a line each

A heading's anchor is GitHub's: lower case, words joined by hyphens, without other characters.
"""
import os
import re
import sys


def prose(path):
    """(number, line) of lines outside of code."""
    code = False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            code ^= line.lstrip().startswith("```")
            if not code:
                yield number, line


def anchors(path):
    found = {}
    for _, line in prose(path):
        if heading := re.match(r"#+ +(.*)", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            found[anchor] = found.get(anchor, -1) + 1
    return {a + (f"-{k}" if k else "") for a, n in found.items() for k in range(n + 1)}


def main():
    tree, broken = sys.argv[1], 0
    for page in sys.stdin.read().split():
        for number, line in prose(os.path.join(tree, page)):
            for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                path, _, anchor = link.partition("#")
                target = os.path.normpath(os.path.join(tree, os.path.dirname(page), path) if path else os.path.join(tree, page))
                if re.match(r"[a-z]+:", link):
                    continue
                if not os.path.exists(target) or (anchor and target.endswith(".md") and anchor not in anchors(target)):
                    print(f"{page}:{number}: {link}")
                    broken += 1
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
