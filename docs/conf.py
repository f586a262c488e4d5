"""Sphinx configuration: `sphinx-build -W docs DIRECTORY` builds pages that can be read offline."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generated

import dranking

project = "dranking"
copyright = "the dranking developers"
release = dranking.__version__
extensions = [
    *("myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"),
    *("numpydoc", "sphinx_copybutton"),
]
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "dranking"
html_static_path = ["static"]
html_css_files = ["wrapped.css"]
html_show_sourcelink = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
# Names in single backticks are code: most are names of Python, which readers know from their place.
default_role = "literal"
nitpicky = False


TYPED = re.compile(r"^(\s*\w[\w, ]*) : (.+)$")


def literal_types(app, what, name, obj, options, lines):
    """Show the type of an attribute as code: in reStructuredText, n_features_in_ is a link."""
    lines[:] = [TYPED.sub(r"\1 : ``\2``", line) for line in lines]


def of_scikit_learn(app, what, name, obj, skip, options):
    """Leave out the methods that scikit-learn adds for its metadata routing."""
    return skip or name.endswith("_request") or name == "get_metadata_routing"


def setup(app):
    """Put the generated parts into the pages as they are read."""
    app.connect("source-read", generated.put_into)
    app.connect("autodoc-process-docstring", literal_types, priority=1)
    app.connect("autodoc-skip-member", of_scikit_learn)
