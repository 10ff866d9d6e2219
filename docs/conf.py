"""Build of the documentation; `api_page` fills the API page from the public names."""

from __future__ import annotations

import inspect
import os
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]  # the gallery draws what benchmarks/ computes

import api_page  # noqa: E402

# Importing the package imports PyMC; nothing here needs compiled code or a window.
os.environ.setdefault("PYTENSOR_FLAGS", "mode=FAST_COMPILE")
os.environ.setdefault("MPLBACKEND", "Agg")

project = "pymc_private"
author = "The pymc_private developers"
project_copyright = author
version = release = installed_version("pymc-private")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks show the outputs that are stored in them
nb_merge_streams = True
exclude_patterns = ["_build"]
html_title = f"{project} {version}"
html_theme = "pydata_sphinx_theme"
html_theme_options = {"show_prev_next": False, "secondary_sidebar_items": ["page-toc"]}
html_sidebars: dict[str, list[str]] = {page: [] for page in ("index", "tutorial")}
html_static_path, html_css_files = ["_static"], ["pages.css"]
html_show_sourcelink = False

# scikit-learn adds methods of its own to every estimator; their words link to its glossary.
REQUESTS = (
    "fit",
    "partial_fit",
    "predict",
    "predict_proba",
    "predict_log_proba",
    "score",
    "update",
)
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": ", ".join(f"set_{name}_request" for name in REQUESTS),
}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autosummary_generate = False
napoleon_google_docstring = False
napoleon_custom_sections = ["Promise"]
napoleon_use_ivar = True

# Every cross-reference must resolve, except types: numpydoc writes them as prose
# ("array, shape (n, d)"), and other projects' inventories would need a network.
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*"), ("py:exc", "[A-Z][A-Za-z]*")]

THEOREM = re.compile(r"(?<![\w`<.])T(\d+[a-z]?)(?![\w`>])")
LABELS = set(re.findall(r"^\(t(\w+)\)=$", Path(__file__).with_name("theory.md").read_text(), re.M))


def documented_block(module_name: str, name: str, value: object) -> str:
    """One directive; a guarantee's constructors stand in a class of their own above it."""
    block = f".. {directive(value)}:: {module_name}.{name}"
    return f"{block}\n   :inherited-members:" if name == "Guarantee" else block


def directive(value: object) -> str:
    """Name the autodoc directive that documents a value."""
    if inspect.isclass(value):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if callable(value) else "autodata"


def fill_in_names(app: object, docname: str, source: list[str]) -> None:
    """Document the names that the page asks for, each group at the end of its section."""
    if docname != "api":
        return
    seen: set[int] = set()
    lines, pending = [], ""
    for line in [*source[0].splitlines(), "## "]:
        if line.startswith("## "):
            lines += [pending, ""]
            pending = ""
        if line.startswith(api_page.MARKER):
            module_name, entries = api_page.asked_entries(line, seen)
            blocks = [documented_block(module_name, name, value) for name, value in entries]
            pending = "```{eval-rst}\n" + "\n\n".join(blocks) + "\n```"
        lines.append(line)
    source[0] = "\n".join(lines[:-1])


def link_theorems(
    app: object, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Make T7 in a docstring a link to the theorem."""

    def link(found: re.Match[str]) -> str:
        number, line = found[1], found.string
        if number not in LABELS:
            return found[0]
        end = r"\ " if line[found.end() :].startswith("(") else ""  # T6(i): markup must end
        return f":ref:`T{number} <t{number}>`{end}"

    lines[:] = [line if ">>>" in line else THEOREM.sub(link, line) for line in lines]


def keep_sentences(
    app: object, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Join what napoleon takes apart: the first line of a property has no type before a colon."""
    place = next((k for k, line in enumerate(lines) if line.startswith(":type: ")), None)
    if what == "property" and place is not None:
        lines[0] = f"{lines.pop(place).removeprefix(':type: ')}: {lines[0]}"


def setup(app: object) -> None:
    app.connect("source-read", fill_in_names)
    app.connect("autodoc-process-docstring", keep_sentences)
    app.connect("autodoc-process-docstring", link_theorems)
