"""Sphinx: `sphinx-build docs docs/_build` (extra docs)."""

project = "viewsmith"
copyright = "the viewsmith maintainers"
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser"]
myst_enable_extensions = ["dollarmath"]
html_theme = "furo"
napoleon_google_docstring = False
autodoc_typehints = "none"
exclude_patterns = ["_build"]
