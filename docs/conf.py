"""Build of the documentation: a few pages; the API page is made from the public names."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parents[1]))  # the gallery draws what benchmarks/ computes

# Importing the package imports PyMC; nothing here needs compiled code or a window.
os.environ.setdefault("PYTENSOR_FLAGS", "mode=FAST_COMPILE")
os.environ.setdefault("MPLBACKEND", "Agg")

project = "pymc_private"
author = "The pymc_private developers"
project_copyright = author
version = release = installed_version("pymc-private")

extensions = [
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
plot_formats = ["png"]
plot_html_show_formats = plot_html_show_source_link = False
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_title = f"{project} {version}"
html_theme = "pydata_sphinx_theme"
html_theme_options = {"show_prev_next": False, "secondary_sidebar_items": ["page-toc"]}
html_sidebars: dict[str, list[str]] = {"**": []}
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

MARKER = "% public names of "


def page_entries(module_name: str, documented: set[int]) -> str:
    """List and document a module's public names, without those higher on the page."""
    module = importlib.import_module(module_name)
    entries = []
    for name in getattr(module, "__all__", own_names(module)):
        value = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(value) or id(value) in documented:
            continue
        documented.add(id(value))
        entries.append((name, value))
    if not entries:
        return ""
    names = "\n".join(f"   {module_name}.{name}" for name, _ in entries)
    blocks = [f".. autosummary::\n   :nosignatures:\n\n{names}"]
    blocks += [documented_block(module_name, name, value) for name, value in entries]
    return "```{eval-rst}\n" + "\n\n".join(blocks) + "\n```\n"


def own_names(module: ModuleType) -> list[str]:
    """List what a module without `__all__` defines itself."""
    return [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]


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
    """Replace each line "% public names of MODULE" by that module's entries."""
    documented: set[int] = set()
    lines = source[0].splitlines()
    for number, line in enumerate(lines):
        if line.startswith(MARKER):
            lines[number] = page_entries(line.removeprefix(MARKER).strip(), documented)
    source[0] = "\n".join(lines)


def setup(app: object) -> None:
    app.connect("source-read", fill_in_names)
