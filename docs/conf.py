"""Sphinx: the site that scripts/site.sh builds from docs/*.md and the pages of docs/generate.py."""
import os

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Text
from sphinx.highlighting import lexers

project = "Mica"
version = release = os.environ["MICA_SITE_VERSION"]  # scripts/site.sh reads it
author = "the authors of Mica"
extensions = ["myst_parser", "breathe"]
root_doc = "index"
exclude_patterns = ["error-examples.md"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
smartquotes = False  # "--no-db" is an option, not a dash
myst_enable_extensions = ["colon_fence"]

breathe_projects = {"mica": "../doxygen/xml"}
breathe_default_project = "mica"
breathe_domain_by_extension = {"h": "c"}

html_theme = "furo"  # no scripts, fonts or pictures from elsewhere; narrow screens, dark, print
html_title = f"Mica {version}"
templates_path = ["_templates"]
# Sites of other versions, NAME=ADDRESS by spaces: a list below the search field.
html_context = {"site_versions": [word.split("=", 1) for word in os.environ.get("MICA_SITE_VERSIONS", "").split()]}
html_sidebars = {"**": ["sidebar/brand.html", "sidebar/search.html", "versions.html", "sidebar/scroll-start.html", "sidebar/navigation.html",
                        "sidebar/scroll-end.html"]}
html_static_path = ["_static"]
html_css_files = ["mica.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "monokai"


class Mica(RegexLexer):
    """Programs and graphs: docs/language.md."""
    name = "mica"
    tokens = {"root": [
        (r"#.*", Comment),
        (r"\b(program|graph|return|block|thread)\b", Keyword),
        (r"\b(b?f\d+(e\d+m\d+)?|inf)\b", Keyword.Type),
        (r"\b[a-z_][a-z_0-9]*(?=\()", Name.Function),
        (r"[\d.]+(e-?\d+)?", Number),
        (r"[-+*/%=;:,]", Operator),
        (r"\w+", Name), (r"\s+", Text), (r".", Text)]}


class Tile(RegexLexer):
    """Kernels: docs/tile.md."""
    name = "tile"
    tokens = {"root": [
        (r"//.*", Comment),
        (r"\b(order|kernel|param|const|target|cluster|multiple|for|if|else|unroll|rolled|in)\b", Keyword),
        (r"\b(b?fp?\d+(e\d+m\d+)?|i32|u32|GL|SH|RF|mbar|thread|block)\b", Keyword.Type),
        (r"%\w+", Name.Variable), (r"#\w+", Name.Class), (r"@\w+", Name.Attribute),
        (r"\b[A-Z]\w+(?=<)", Name.Function),
        (r"\d+(\.\d+)?", Number),
        (r"<-|[-+*/%=;:,<>?&|^!]", Operator),
        (r"\w+", Name), (r"\s+", Text), (r".", Text)]}


class Plain(RegexLexer):
    """Output of a program."""
    name = "output"
    tokens = {"root": [(r".+\n?", Text), (r"\n", Text)]}


lexers["mica"], lexers["tile"], lexers["output"] = Mica(), Tile(), Plain()
