"""A C header whose comments are `//`, as Doxygen wants it: docs/Doxyfile.

A comment in lines of its own is of what follows, one behind a declaration is of that, and goes on in lines that hold nothing
else and are indented as far. `// ---- name ----` heads a section. Words with _ or -- mean themselves, not markup.
"""
import re
import sys


def plain(text):
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", re.sub(r"([\\@#<>%&])", r"\\\1", text))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = file.read().split("\n")
    example = False  # in lines that are indented further, which are code
    column = None  # where a comment behind a declaration began
    first = True   # the comment at the head is of the file
    for line in lines:
        alone = re.match(r"( *)//+ ?(.*)$", line)
        behind = re.match(r"(.*?[;,{})]) *//+[/!<]* ?(.*)$", line)
        if alone and column is not None and len(alone[1]) >= 20:
            print(f"{alone[1]}///< {plain(alone[2])}")
        elif alone and re.match(r"-{3,} .* -{3,}$", alone[2]):
            print("")
            column = None
        elif alone:
            code = alone[2].startswith("  ")
            mark = "@file\n/// " if first else ""
            mark += "@code{.c}\n/// " if code and not example else "@endcode\n/// " if example and not code else ""
            print(f"{alone[1]}/// {mark}{alone[2] if code else plain(alone[2])}")
            example, first, column = code, False, None
        elif behind and not line.lstrip().startswith("#"):
            print(f"{behind[1]} ///< {plain(behind[2])}")
            column, first = len(behind[1]), False
        else:
            print(line)
            column = None if line.strip() else column
            first = first and not line.strip()


if __name__ == "__main__":
    main()
