"""Pages of the public names, by the table of contents of dynamics_node/library.py: what is there is here.

Before Sphinx reads anything, reference/api/index.rst is written: an autosummary for each subject, from which
autosummary writes a page for each name.
"""

import ast
import re
import tokenize
from pathlib import Path
from types import ModuleType

import dynamics_node

LIBRARY = Path(dynamics_node.__file__).with_name("library.py")
TITLE = "Python library"
INTRODUCTION = """\
``import dynamics_node as dn`` has these names; each of them is imported when it is first used. Arrays are of
NumPy, units are SI, 6-vectors have the angular part first: see :doc:`/reference/conventions`.
"""


def subjects(path=LIBRARY):
    """{subject: {name: comment}} of `__all__`: comments on lines of their own are subjects."""
    (table,) = (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign))
    subject_names, current = {}, None
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if not table.lineno < token.start[0] < table.end_lineno:
                continue
            if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
                current = subject_names.setdefault(token.string.lstrip("# "), {})
            elif token.type == tokenize.STRING:
                _, _, comment = token.line.partition("#")
                current[ast.literal_eval(token.string)] = comment.strip()
    return subject_names


def index(subject_names):
    """The text of reference/api/index.rst."""
    parts = [TITLE, "=" * len(TITLE), "", INTRODUCTION, ".. currentmodule:: dynamics_node", ""]
    for subject, names in subject_names.items():
        heading = subject.replace("`", "")
        parts += [
            heading,
            "-" * len(heading),
            "",
            ".. autosummary::",
            "   :toctree:",
            "   :nosignatures:",
            "",
        ]
        parts += [*(f"   {_imported(name)}" for name in names), ""]
    return "\n".join(parts)


def _imported(name):
    """As `import` has it: a module under its own name."""
    public = getattr(dynamics_node, name)
    return public.__name__.removeprefix("dynamics_node.") if isinstance(public, ModuleType) else name


def write_index(app, config):
    """Write the index where it has changed, and remove pages of names that are gone."""
    subject_names = subjects()
    folder = Path(app.srcdir, "reference", "api")
    folder.mkdir(exist_ok=True)
    names = {_imported(name) for own in subject_names.values() for name in own}
    for page in folder.glob("dynamics_node.*.rst"):
        if not {page.stem, page.stem.removeprefix("dynamics_node.")} & names:
            page.unlink()
    path, text = folder / "index.rst", index(subject_names)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def skip_member(app, kind, name, member, skip, options):
    """Fields of NamedTuples, which the docstring of the class has; of modules what has a page of its own."""
    is_field = type(member).__name__ == "_tuplegetter"
    return True if is_field or (kind == "module" and name in dynamics_node.__all__) else None


def escape(app, kind, name, member, options, lines):
    """Docstrings are plain text with `code`: a star, a bar and a last underscore mean themselves."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            parts = re.split(r"(`+[^`]*`+)", line)
            parts[::2] = [re.sub(r"docs/([\w/-]+)\.md", r"DOC<\1>", part) for part in parts[::2]]
            parts[::2] = [re.sub(r"(?<!\\)([*|]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
            lines[number] = re.sub(r"DOC<(.*?)>", r":doc:`/\1`", "".join(parts))
    if kind in ("attribute", "property", "data"):
        lines[:0] = ["..", ""]  # else Napoleon takes what is before a colon for a type


def setup(app):
    """As Sphinx calls it."""
    app.connect("config-inited", write_index)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-docstring", escape, priority=100)  # before napoleon
    return {"parallel_read_safe": True}
