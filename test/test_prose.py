"""Prose of the documentation: short sentences, plain verbs, American spelling; not code, tables and titles."""

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs" / "_extensions"))
import interface_tables

import dynamics_node as dn

PLACES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.rst", "docs/index.rst", "docs/**/*.md", "examples/*.py")
PLACES += ("docs/tutorials/scripts/*.py", "dynamics_interfaces/*/*.msg", "dynamics_interfaces/*/*.srv")
PAGES = [path for place in PLACES for path in sorted(ROOT.glob(place))]
PUBLIC = [value for value in map(dn.__getattr__, dn.__all__) if hasattr(value, "__module__")]
DIALECT = r"""tells? told says? said knows believes?d? refus(?:es?|ed|al) declin(?:es?|ed) forg(?:ives?|ets?) blames?
hears? heard silen(?:t|ce|tly) besides? anew nobody somebody whatever whoever hardly lets\sgo to\sand\sfro
all\sthe\ssame no\smatter (?:error|reject|report|log|list)\w*[^.]{0,30}\sby\sname"""
BRITISH = r"""(?:\w*cent|met|\w*imet|lit|fib)res? (?:colour|behaviour|neighbour|favour|labelled|modelling|cancelled)\w*
licence grey analyse[ds]? towards (?:factor|general|initial|linear|maxim|minim|normal|optim|organ|quant|real|recogn|
regular|summar|symmetr|vector)is(?:e|ed|es|ing|ation)""".replace("|\n", "|")
WORDS = re.compile(rf"\b(?:{'|'.join(f'{DIALECT} {BRITISH}'.split())})\b", re.IGNORECASE)
HEADLESS = re.compile(r"(?:What|Whatever|Where|Of|Whoever)\b[^?]*$")
WORD = re.compile(r"(?<![\w'.-])[^\W\d_][\w'./-]*")


def marked_up(text):
    """Prose of Markdown or reStructuredText; other lines become empty."""
    fences = re.compile(r"^( *)(```|~~~|:::)(?!{glossary}).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
    text = fences.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = re.sub(r"^ {4}(?=.*\n *\n)", "", text, flags=re.MULTILINE) if "{glossary}" in text else text
    text = re.sub(r"^ {4,}.*$|^ *[|=+^-].*\|$|^ *(?:```|\.\.|:\w|>>>).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"^(#+ .*)$", r"\1.", text, flags=re.MULTILINE)


def script(text):
    """The docstring of a script, and the comments that sphinx-gallery shows as text."""
    lines = (ast.get_docstring(ast.parse(text), clean=False) or "").splitlines()
    lines += [""] * (text.count("\n") - len(lines))
    for block in re.finditer(r"^# %%\n((?:#.*\n)+)", text, re.MULTILINE):
        first = text[: block.start(1)].count("\n")
        lines[first : first + block[1].count("\n")] = [line[2:] for line in block[1].splitlines()]
    return "\n".join(lines)


def prose(path):
    text = path.read_text()
    if path.suffix in (".srv", ".msg"):  # comments of fields, and blocks of comments
        return re.sub(r"^# ?", "", re.sub(r"^[^#\n]+(?:# ?(.*))?$", r"\n\1\n", text, flags=re.M), flags=re.M)
    text = re.split(r"^\d+\.\d+\.\d+ \(", text, maxsplit=1, flags=re.MULTILINE)[
        0
    ]  # released parts of the log
    return marked_up(script(text) if path.suffix == ".py" else text)


def docstrings(module):
    """Docstrings of public functions, classes and their members, without headings and types of NumPy style."""
    own = [value for value in PUBLIC if value.__module__ == module]
    members = [member for value in own if inspect.isclass(value) for member in vars(value).items()]
    own += [value for key, value in members if key[0] != "_" and isinstance(value, property | type(faults))]
    text = "\n\n".join(inspect.getdoc(value) or "" for value in own)
    return marked_up(re.sub(r"^(\w+\n-+|\S+ : .*)$|^    ", "", text, flags=re.MULTILINE))


def faults(text):
    """Messages about paragraphs, list items and headings; `code`, $mathematics$ and links count as one word."""
    text = re.sub(
        r"\$\$.*?\$\$|\$[^$\n]+\$", lambda match: "formula" + "\n" * match[0].count("\n"), text, flags=re.S
    )
    text = re.sub(r"``[^`]+``|`[^`]+`|{\w+}", "code", text)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(?<![*\w])\*(?=[^\s*])[^*]+\*(?!\*)", "title", text).replace("**", "")
    place = 0
    for paragraph in re.split(r"(\n\s*\n|\n(?= *(?:[*-]|\d+\.|#+) ))", text):
        for part in re.findall(r"[^.!?]*(?:[.!?](?!\s|$)[^.!?]*)*[.!?]?", paragraph):
            line = text.count("\n", 0, place + len(part) - len(part.lstrip())) + 1
            place += len(part)
            sentence = " ".join(re.sub(r"^\s*(?:[*#-]+|\d+\.)\s", "", part).split())
            problems = WORDS.findall(sentence) + ["begins without a noun"] * bool(HEADLESS.match(sentence))
            problems += ["over 25 words"] * (len(WORD.findall(sentence)) > 25)  # numbers do not count
            yield from (f"line {line}: {problem}: {sentence}" for problem in problems)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_have_plain_sentences(path):
    assert not (messages := list(faults(prose(path)))), "\n".join(messages)


@pytest.mark.parametrize("module", sorted({value.__module__ for value in PUBLIC}))
def test_docstrings_have_plain_sentences(module):
    assert not (messages := list(faults(docstrings(module)))), "\n".join(messages)


@pytest.mark.parametrize("node", [None, "dynamics_node", "dynamics_estimator"])
def test_help_texts_and_parameters_are_plain(node):
    rows = interface_tables.command_line() if node is None else interface_tables.parameters(node)
    cells = [re.split(r" \| |<br>", row)[1].rstrip(" |") for row in rows if row[:1] == "|"]
    assert not (messages := list(faults("\n\n".join(cells)))), "\n".join(messages)
