"""Sphinx's settings of the documentation; ``python docs/build.py`` gathers the pages and runs it."""

from __future__ import annotations

import qkv

project = "qkv"
author = "The qkv developers"
project_copyright = author
version = release = qkv.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "builder.mathml",
    "builder.calls",
]
exclude_patterns = ["templates"]
templates_path = ["templates"]

# Pages are Markdown; notebooks come executed and are never run here.
nb_execution_mode = "off"
nb_ipywidgets_js = {}  # which are fetched from a network
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 4
myst_url_schemes = ("http", "https")

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # docstrings say types and shapes
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
default_role = "literal"
add_module_names = False
python_maximum_signature_line_length = 88

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "qkv"
html_favicon = "static/icon.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["static"]
html_css_files = ["math.css", "site.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "qkv", "image_light": "static/icon.svg", "image_dark": "static/icon.svg"},
    "show_prev_next": True,
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": [], "gallery": ["page-toc"]},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
}
# Pages without pages below them.
ALONE = [
    "index",
    "getting_started",
    "models",
    "own_layer",
    "teaching",
    "glossary",
    "conventions",
    "gallery",
    "views",
    "coming_from",
    "distributed",
    "torch",
    "pytorch",
    "design",
    "stability",
    "contributing",
    "changelog",
]
html_sidebars: dict[str, list[str]] = {page: [] for page in ALONE}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
