#!/usr/bin/env python3
"""Writes the grammars of editors/ from the tables of the sources: operators and attributes, types, specs of tile kernels.

    editors/generate.py           writes the files
    editors/generate.py --check   exit status 1 where a file is not what the tables say
"""
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TILE_WORDS = "order kernel param const target cluster multiple for if else unroll rolled in".split()


def rows(path, pattern):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return re.findall(pattern, f.read(), re.M)


def words(names):
    return r"\b(" + "|".join(sorted(set(names), key=lambda n: (-len(n), n))) + r")\b"


def rule(scope, pattern):
    return {"name": scope, "match": pattern}


def mica(keywords, operators, attributes, types):
    return {
        "name": "Mica", "scopeName": "source.mica", "fileTypes": ["mica"],
        "patterns": [
            rule("comment.line.number-sign.mica", "#.*$"),
            rule("keyword.control.mica", words(keywords)),
            rule("entity.name.function.mica", r"(?<=program )\w+|(?<=graph )\w+|(?<=model )\w+"),
            rule("storage.type.mica", words(types)),
            rule("constant.language.mica", words(["inf"])),
            rule("variable.parameter.attribute.mica", words(attributes) + r"(?=\s*=)"),
            rule("support.function.mica", words(operators) + r"(?=\s*\()"),
            rule("invalid.illegal.unknown-function.mica", r"\b[A-Za-z_]\w*(?=\()"),
            rule("constant.numeric.mica", r"\b\d+(\.\d*)?([eE][+-]?\d+)?\b|\.\d+([eE][+-]?\d+)?\b"),
            rule("keyword.operator.mica", r"[-+*/%=]"),
            rule("variable.other.mica", r"\b[A-Za-z_]\w*\b"),
        ]}


def tile(specs, types):
    return {
        "name": "Mica tile kernel", "scopeName": "source.mica-tile", "fileTypes": ["tile"],
        "patterns": [
            rule("comment.line.double-slash.tile", "//.*$"),
            rule("keyword.control.tile", words(TILE_WORDS)),
            rule("storage.type.tile", words([*types, "GL", "SH", "RF"])),
            rule("support.function.tile", words(specs) + r"(?=\s*<)"),
            rule("variable.other.tile", r"%\w+"),
            rule("entity.name.type.group.tile", r"#\w+"),
            rule("variable.language.tile", r"@\w+"),
            rule("constant.numeric.tile", r"\b\d+(\.\d+)?\b"),
            rule("keyword.operator.tile", r"<-|[-+*/%=<>?&|^!]"),
        ]}


def vim(language, comment, groups):
    out = ['" Vim syntax file, written by editors/generate.py.', 'if exists("b:current_syntax")', "  finish", "endif",
           f"syntax match {language}Comment /{comment}.*$/", f"highlight default link {language}Comment Comment"]
    for name, link, names in groups:
        out += [f"syntax keyword {language}{name} {' '.join(sorted(set(names)))}", f"highlight default link {language}{name} {link}"]
    return "\n".join([*out, f'let b:current_syntax = "{language}"', ""])


def files():
    operators = rows("src/ir/op.def", r"^[A-Z]+\([A-Z][A-Z0-9_]*, ([a-z]\w*),")
    attributes = rows("src/ir/attr.def", r"^ATTR\(\w+, *(\w+),")
    keywords = [w for w in rows("src/ir/word.def", r'^WORD\("(\w+)"') if w not in ("inf", "_")]
    dtypes = rows("src/base/dtype.def", r'^(?:DTYPE|WHOLE)\(\w+, "(\w+)"')
    tile_types = rows("src/base/dtype.def", r'\.name = "(\w+)"') + rows("src/base/dtype.def", r'^(?:WHOLE|WIDE|WORD)\(\w+, "(\w+)"')
    specs = rows("src/tile/spec.def", r'^SPEC\(\w+, "(\w+)"')
    version = rows("CMakeLists.txt", r"project\(mica VERSION ([\d.]+)")[0]
    assert min(len(x) for x in (keywords, operators, attributes, dtypes, tile_types, specs)) > 4
    languages = [("mica", "Mica program", "mica", "source.mica", "#"), ("mica-tile", "Mica tile kernel", "tile", "source.mica-tile", "//")]
    package = {
        "name": "mica", "displayName": "Mica", "description": "Programs (.mica) and tile kernels (.tile) of Mica", "version": version,
        "publisher": "mica", "license": "Apache-2.0", "engines": {"vscode": "^1.60.0"}, "categories": ["Programming Languages"],
        "main": "./extension.js", "activationEvents": [f"onLanguage:{i}" for i, *_ in languages],
        "contributes": {
            "configuration": {"title": "Mica", "properties": {"mica.command": {
                "type": "string", "default": "mica", "description": "The command mica, which is the language server"}}},
            "languages": [{"id": i, "aliases": [a], "extensions": ["." + e], "configuration": f"./{i}.json"} for i, a, e, _, _ in languages],
            "grammars": [{"language": i, "scopeName": s, "path": f"./syntaxes/{i}.tmLanguage.json"} for i, _, _, s, _ in languages]}}
    made = {"vscode/package.json": package, "vscode/syntaxes/mica.tmLanguage.json": mica(keywords, operators, attributes, dtypes),
            "vscode/syntaxes/mica-tile.tmLanguage.json": tile(specs, tile_types)}
    for i, _, _, _, comment in languages:
        made[f"vscode/{i}.json"] = {"comments": {"lineComment": comment}, "brackets": [["{", "}"], ["[", "]"], ["(", ")"]],
                                    "autoClosingPairs": [["{", "}"], ["[", "]"], ["(", ")"]],
                                    "indentationRules": {"increaseIndentPattern": r"\{\s*$", "decreaseIndentPattern": r"^\s*\}"}}
    texts = {name: json.dumps(value, indent=2) + "\n" for name, value in made.items()}
    texts["vim/syntax/mica.vim"] = vim("mica", "#", [
        ("Keyword", "Keyword", keywords), ("Type", "Type", dtypes), ("Function", "Function", operators)])
    texts["vim/syntax/tile.vim"] = vim("tile", r"\/\/", [("Keyword", "Keyword", TILE_WORDS), ("Type", "Type", [*tile_types, "GL", "SH", "RF"]),
                                                         ("Function", "Function", specs)])
    return texts


def main():
    check, bad = sys.argv[1:] == ["--check"], 0
    for name, text in files().items():
        path = os.path.join(ROOT, "editors", name)
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else None
        if check and old != text:
            bad = 1
            print(f"editors/{name} is not what the tables say: editors/generate.py writes it")
        elif old != text:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    sys.exit(bad)


main()
