"""Sphinx: `make docs`, or `sphinx-build -W docs docs/_build/html` (extra docs)."""

from sphinx.ext.napoleon.docstring import GoogleDocstring

import viewsmith.networks
import viewsmith.parts
import viewsmith.views

# autodoc does not see names that are imported on use.
for module in (viewsmith.networks, viewsmith.parts, viewsmith.views):
    for name in module.__all__:
        setattr(module, name, getattr(module, name))

project = "viewsmith"
copyright = "the viewsmith maintainers"
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb", "sphinx_design"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "viewsmith"
html_static_path = ["_static"]
html_css_files = ["notebooks.css"]
html_show_sphinx = False
napoleon_google_docstring = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
nb_execution_mode = "off"  # notebooks are executed by `make notebooks`
exclude_patterns = ["_build", "pictures"]
linkcheck_anchors = False

# A field is described by a sentence: what is before a colon is no type.
GoogleDocstring._consume_inline_attribute = lambda self: ("", self._dedent(self._consume_to_end()))
