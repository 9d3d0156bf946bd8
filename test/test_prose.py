"""Prose of the documentation: short sentences, plain verbs, American spelling. Code, tables and titles are left out."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import dynamics_node as dn

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.rst", "docs/index.rst")),
    *(path for path in sorted(ROOT.glob("docs/**/*.md")) if path.stem != "gpu"),  # gpu: until its new text is there
    *(path for pattern in ("docs/tutorials/scripts", "examples") for path in sorted((ROOT / pattern).glob("*.py"))),
    *sorted(ROOT.glob("dynamics_interfaces/*/*.[sm][rs][vg]")),
]
LONGEST = 25  # words in a sentence, numbers apart

# Software returns, raises, logs and rejects; a thing has a name.
DIALECT = (
    r"tells?|told|says?|said|knows|believes?d?|refus(?:es?|ed|al)|declin(?:es?|ed)|forg(?:ives?|ets?)|blames?|"
    r"hears?|heard|silen(?:t|ce|tly)|besides?|anew|nobody|somebody|whatever|whoever|lets go|to and fro|"
    r"(?:error|reject|report|log|list)\w*[^.]{0,30} by name|all the same|hardly|no matter"
)
BRITISH = (
    r"\w*(?:cent|\bmet|millimet|lit|fib)res?|"
    r"(?:minim|maxim|normal|linear|optim|initial|recogn|general|quant|factor|summar|organ|real|regular|symmetr|vector)"
    r"is(?:e|ed|es|ing|ation)|(?:colour|behaviour|neighbour|favour|labelled|modelling|cancelled|travelled)\w*|"
    r"licence|grey|analyse[ds]?|towards"
)
WORDS = re.compile(rf"\b(?:{DIALECT}|{BRITISH})\b", re.IGNORECASE)
HEADLESS = re.compile(r"(?:What|Whatever|Where|Of|Whoever)\b[^?]*$")
WORD = re.compile(r"(?<![\w'’.-])[^\W\d_][\w'’./-]*")


def marked_up(text):
    """Prose of Markdown or reStructuredText; a line that is no prose is empty."""
    fences = re.compile(r"^( *)(```|~~~|:::)(?!{glossary}).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
    text = fences.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = re.sub(r"^ {4}(?=.*\n *\n|.*\n```)", "", text, flags=re.MULTILINE) if "{glossary}" in text else text
    text = re.sub(r"^ {4,}.*$|^ *[|=+^-].*\|$|^ *(?:```|\.\.|:\w|>>>).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"^(#+ .*)$", r"\1.", text, flags=re.MULTILINE)


def script(text):
    """The docstring of a script, and the comments that sphinx-gallery shows as text."""
    lines = (ast.get_docstring(ast.parse(text), clean=False) or "").splitlines()
    lines += [""] * (text.count("\n") - len(lines))
    for block in re.finditer(r"^# %%\n((?:#.*\n)+)", text, re.MULTILINE):
        for number, line in enumerate(block[1].splitlines(), text[: block.start(1)].count("\n")):
            lines[number] = line[2:]
    return "\n".join(lines)


def prose(path):
    text = path.read_text()
    if path.suffix in (".srv", ".msg"):  # the comments of fields, and blocks of comments
        return re.sub(r"^#? ?(.*)$", r"\1", re.sub(r"^[^#\n]+(?:# ?(.*))?$", r"\n\1\n", text, flags=re.M), flags=re.M)
    if path.name == "CHANGELOG.rst":
        text = re.split(r"^\d+\.\d+\.\d+ ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return marked_up(script(text) if path.suffix == ".py" else text)


def sentences(text):
    """(line, sentence) of paragraphs, list items and headings; `code` and links count as a word."""
    text = re.sub(r"``[^`]+``|`[^`]+`|{\w+}", "code", text)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(?<![*\w])\*(?=[^\s*])[^*]+\*(?!\*)", "title", text).replace("**", "")
    place = 0
    for paragraph in re.split(r"(\n\s*\n|\n(?= *(?:[*-]|\d+\.|#+) ))", text):
        for sentence in re.findall(r"[^.!?]*(?:[.!?](?!\s|$)[^.!?]*)*[.!?]?", paragraph):
            line = text.count("\n", 0, place + len(sentence) - len(sentence.lstrip())) + 1
            place += len(sentence)
            yield line, " ".join(re.sub(r"^\s*(?:[*#-]+|\d+\.)\s", "", sentence).split())


def faults(text):
    for line, sentence in sentences(text):
        if (length := len(WORD.findall(sentence))) > LONGEST:
            yield f"line {line}: {length} words: {sentence}"
        for word in {match[0] for match in WORDS.finditer(sentence)}:
            yield f"line {line}: {word!r}: {sentence}"
        if HEADLESS.match(sentence):
            yield f"line {line}: begins without a noun: {sentence}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages(path):
    found = list(faults(prose(path)))
    assert not found, "\n".join(found)
