"""No sentence of comments and docs begins with a word that hides its subject, prose of pages has at most 150 columns, and headings
skip no level.

    words.py TREE < FILES     prints FILE:LINE: SENTENCE and ends with status 1 where there is one; FILES are names, a line each

Headings of pages and questions may begin with such a word. Pages are docs/*.md and those of the root; tables and code may be wider.
"""
import os
import re
import sys

COLUMNS, PAGE = 150, re.compile(r"(docs/)?[^/]+\.md$")
BAD = re.compile(r"(?:^|[.:;?!)] )((?:What|Of|Where|Those)\b[^.?]*(.?))")
SLASHES = {"c", "h", "def", "inc", "cuh", "cc", "cpp", "js", "css", "mica", "tile"}
HASHES = {"py", "sh", "cmake", "txt", "mica", "tile", "toml", "yml"}


def remarks(name, lines):
    """(number, text) of lines of prose and comments."""
    kind = name.rpartition(".")[2]
    inside = False  # a fence, a docstring or a comment over several lines
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if kind == "md":
            inside ^= text.startswith("```")
            if not inside and not text.startswith("#"):
                for cell in text.strip("|").split("|"):
                    yield number, re.sub(r"^([-*]|\d+\.) ", "", cell.strip())
            continue
        if kind == "py" and ('"""' in text or inside):
            inside ^= text.count('"""') % 2 == 1
            yield number, text.strip('"')
        elif inside or (kind in SLASHES and re.match(r"(.*\s)?/\*", line)):
            yield number, re.sub(r"^.*/\*+ *|^\* *|\*/.*", "", text)
            inside = "*/" not in text
        elif kind in SLASHES and (found := re.search(r"(?:^|\s)// ?(.*)", line)):
            yield number, found[1].strip()
        elif (kind in HASHES or name == "Makefile") and (found := re.search(r"(?:^|\s)#(?!!) ?(.*)", line)):
            yield number, found[1].strip()


def malformed(lines):
    """(number, what) of lines of a page whose prose is too long, and of headings that skip a level, which end the build of the site."""
    code, level = False, 0
    for number, line in enumerate(lines, 1):
        code ^= line.lstrip().startswith("```")
        if not code and not line.startswith("|") and len(line) > COLUMNS:
            yield number, f"{len(line)} columns"
        if not code and (heading := re.match("#+ ", line)):
            if len(heading[0]) - 1 > level + 1:
                yield number, "the heading skips a level"
            level = len(heading[0]) - 1


def main():
    found = 0
    for name in sys.stdin.read().split():
        try:
            with open(os.path.join(sys.argv[1], name), encoding="utf-8") as file:
                lines = file.read().split("\n")
        except UnicodeDecodeError:
            continue
        for number, what in malformed(lines) if PAGE.match(name) else ():
            print(f"{name}:{number}: {what}")
            found += 1
        for number, text in remarks(name, lines):
            for sentence, end in BAD.findall(text):
                if end != "?":
                    print(f"{name}:{number}: {sentence}")
                    found += 1
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
