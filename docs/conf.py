"""How Sphinx builds the site: sphinx-build -W docs docs/_build/html."""

import json
import re
from enum import Enum
from pathlib import Path

import headstart
from headstart.lab.overview import results_table

project = "Headstart"
author = "the Headstart authors"
copyright = "the Headstart authors"
version = release = headstart.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = "Headstart"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["tables.css", "gallery.css"]

_CODE_OR_SPECIAL = re.compile(r"(`[^`]+`)|([*|_\\])")


def _escape(line: str) -> str:
    """Names in backticks become literals; what reStructuredText would read as markup is taken as it stands."""
    return _CODE_OR_SPECIAL.sub(lambda m: f"`{m[1]}`" if m[1] else f"\\{m[2]}", line)


def plain_docstring(app, what, name, obj, options, lines):
    """The package's docstrings are plain text with names in backticks and indented formulas or code."""
    out: list[str] = []
    in_block = False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not in_block:
            out += ["::", ""]
        in_block = indented or (in_block and not line)
        out.append(line if indented else _escape(line))
    lines[:] = out


_ARRAY = re.compile(r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[(~?[\w.]+)\]\]")


def plain_signature(app, what, name, obj, options, signature, returns):
    """Arrays by their element type; no signature for enumerations; a default that is made anew as an ellipsis."""
    if isinstance(obj, type) and issubclass(obj, Enum):
        return "", None
    shown = [text and _ARRAY.sub(r"~numpy.ndarray[\1]", text) for text in (signature, returns)]
    return (shown[0] and shown[0].replace("<factory>", "...")), shown[1]


# Written by `headstart report` and by hand as work goes on; a checkout may have neither yet.
OPTIONAL_PAGES = ("results/*/*", "results/benchmark*", "log*")


def put_results(app, docname, source):
    """The table of all claims and the gallery from docs/results; globs that match no page are taken out."""
    docs = Path(app.srcdir)
    table = gallery = "No study has been reported yet."
    if any(docs.glob("results/*/*.json")):
        table, gallery = results_table(docs / "results"), figures_gallery(docs / "results")
    text = source[0].replace("<!-- the table of results -->", table).replace("<!-- the gallery -->", gallery)
    for glob in OPTIONAL_PAGES:
        if not any(docs.glob(f"{glob}.md")):
            text = text.replace(f"\n{glob}\n", "\n")
    source[0] = text


def figures_gallery(root):
    """Every figure of <root>/<paper>/*.png with its study's title and, where it has one, its finding; by paper."""
    papers = {}
    for path in sorted(root.glob("*/*.json")):
        report = json.loads(path.read_text())
        if path.with_suffix(".png").exists():
            name = path.relative_to(root.parent).with_suffix("").as_posix()
            papers.setdefault(report["paper"], []).append(_figure(name, report))
    parts = (f"## {paper}\n\n:::::{{container}} gallery\n" + "\n".join(each) for paper, each in papers.items())
    return "\n\n".join(f"{part}\n:::::" for part in parts)


def _figure(name, report):
    """A figure that leads to the page of its study."""
    finding = f" {report['finding']}" if report.get("finding") else ""
    return (
        f"::::{{figure}} {name}.png\n:target: {name}.html\n:alt: {report['title']}\n:loading: lazy\n\n"
        f"[{report['title']}]({name}.md), {report['figures']}.{finding}\n::::"
    )


def read_again(app, env, added, changed, removed):
    """Pages made of docs/results change with it, though their own files do not."""
    return [name for name in ("results", "gallery") if name in env.found_docs]


def setup(app):
    app.connect("env-get-outdated", read_again)
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("autodoc-process-signature", plain_signature)
    app.connect("source-read", put_results)
