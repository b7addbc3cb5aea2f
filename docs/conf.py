"""Sphinx: `make docs`, or `sphinx-build -W docs docs/_build` (extra docs)."""

project = "viewsmith"
copyright = "the viewsmith maintainers"
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser", "sphinx_design"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "viewsmith"
html_static_path = ["_static"]
html_show_sphinx = False
napoleon_google_docstring = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
exclude_patterns = ["_build", "pictures"]
