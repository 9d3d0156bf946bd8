"""The documentation site: `./dev docs`, or rosdoc2 by rosdoc2.yaml. _extensions/ has what is generated."""

import re
import sys
from pathlib import Path

# rosdoc2 copies docs/ elsewhere and runs the text of this file by a conf.py of its own, which names this one
HERE = Path(__file__)
original = re.search(r'open\("(.+?)"\)', HERE.read_text())
ROOT = (Path(original[1]) if original else HERE).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path[:0] = [str(DOCS / "_extensions"), str(ROOT), str(ROOT / "examples")]

import dynamics_node

project = "dynamics_node"
author = "dynamics_node founders"
copyright = "dynamics_node founders, Apache-2.0"
version = release = dynamics_node.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "gallery_links",
    "interfaces",
]
exclude_patterns = [
    "_extensions",
    "_templates",
    "tutorials/scripts",
    "tutorials/library/index.rst",  # tutorials/index.md has its pages
    "**/sg_execution_times.rst",
    "sg_execution_times.rst",
]
templates_path = [str(DOCS / "_templates")]
default_role = "py:obj"
root_doc = "index"

# --- Markdown -----------------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# --- docstrings ---------------------------------------------------------------------------------------------

autosummary_generate = ["reference/api/index.rst"]
autodoc_typehints = "none"  # signatures and the sections of docstrings have them
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes are a list, not a block each
suppress_warnings = ["ref.python"]  # shapes such as (nv,) name an attribute of several classes
doctest_global_setup = """
import warnings

import numpy as np

import dynamics_node as dn

warnings.simplefilter("ignore", dn.ModelWarning)
robot = dn.example_robot("panda", tips=["panda_hand"])
"""
doctest_test_doctest_blocks = "default"

# --- examples that run --------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": [str(DOCS / "tutorials" / "scripts"), str(ROOT / "examples")],
    "gallery_dirs": ["tutorials/library", "examples"],
    # Others need ROS, or more than Sphinx.
    "filename_pattern": r"/(scripts/\w+|library|loops|mppi|mppi_solo12|sensors|orderings|capability)\.py$",
    "ignore_pattern": r"(__init__|/dynamics_demo/|/paper2/)",
    "within_subsection_order": "FileNameSortKey",
    "nested_sections": False,
    "show_memory": False,
    "default_thumb_file": str(DOCS / "figures" / "explain.png"),
    "min_reported_time": 10**6,
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
}

# --- the look -----------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "dynamics_node"
html_static_path = [str(DOCS / "_static")]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "dynamics_node"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "back_to_top_button": False,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {page: [] for page in ("index", "install", "coming_from", "changelog", "contributing")}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# --- rosdoc2 ------------------------------------------------------------------------------------------------

rosdoc2_settings = {
    "override_theme": False,
    "enable_breathe": False,
    "enable_exhale": False,
    "enable_intersphinx": False,
    "automatically_extend_intersphinx_mapping": False,
}
