"""Prose of the documentation: short sentences, plain verbs, American spelling. Code, tables and titles are left out."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 25  # words in a sentence, numbers apart
PENDING = {"docs/how-to/gpu.md", "docs/explanation/gpu.md"}  # until their new text is there
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.rst", "docs/index.rst")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("docs/tutorials/scripts/*.py")),
    *sorted(ROOT.glob("examples/*.py")),
    *sorted(ROOT.glob("dynamics_interfaces/*/*.[sm][rs][vg]")),
]

# Software returns, raises, logs and rejects; a thing has a name.
DIALECT = (
    r"tells?|told|says?|said|knows|believes?d?|refus(?:es?|ed|al)|declin(?:es?|ed)|forg(?:ives?|ets?)|"
    r"blames?|hears?|heard|silen(?:t|ce|tly)|besides?|anew|nobody|somebody|whatever|whoever|"
    r"(?:error|reject|report|log|list)\w*[^.]{0,30} by name|lets go|to and fro|all the same|hardly|no matter"
)
BRITISH = (
    r"\w*(?:cent|\bmet|millimet|lit|fib)res?|"
    r"(?:minim|maxim|normal|linear|optim|initial|recogn|general|quant|factor|summar|organ|real|regular|symmetr|vector)"
    r"is(?:e|ed|es|ing|ation)|(?:colour|behaviour|neighbour|favour|labelled|modelling|cancelled|travelled)\w*|"
    r"licence|grey|analyse[ds]?|towards"
)
WORDS = re.compile(rf"\b(?:{DIALECT}|{BRITISH})\b", re.IGNORECASE)
HEADLESS = re.compile(r"(?:What|Whatever|Where|Of|Whoever)\b[^?]*$")


def markdown(text):
    """Prose of Markdown or reStructuredText, line by line; what is no prose is an empty line."""
    text = re.sub(r"^( *)(```|~~~|:::)(?!{glossary}).*?^\1\2 *$", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^ {4,}.*$|^ *[|=+^-].*\|$|^ *(?:```|\.\.|:\w|>>>).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"^(#+ .*)$", r"\1.", text, flags=re.MULTILINE)


def blank(match):
    return "\n" * match[0].count("\n")


def script(text):
    """The docstring of a script and the comments that sphinx-gallery shows as text."""
    docstring = (ast.get_docstring(ast.parse(text), clean=False) or "").splitlines()
    lines = ["" for _ in text.splitlines()]
    lines[: len(docstring)] = [line if not line.startswith(" ") else "" for line in docstring]
    for block in re.finditer(r"^# %%\n((?:#.*\n)+)", text, re.MULTILINE):
        first = text[: block.start(1)].count("\n")
        for number, line in enumerate(block[1].splitlines()):
            lines[first + number] = line.removeprefix("#").removeprefix(" ")
    return "\n".join(lines)


def prose(path):
    text = path.read_text()
    if path.suffix == ".py":
        return markdown(script(text))
    if path.suffix in (".srv", ".msg"):
        comments = [re.sub(r"^([^#]*)(?:# ?(.*))?$", r"\1|\2", line) for line in text.splitlines()]
        return "\n".join(c.partition("|")[2] + "\n" * bool(c.partition("|")[0].strip()) for c in comments)
    if path.name == "CHANGELOG.rst":
        text = re.split(r"^\d+\.\d+\.\d+ ", text, maxsplit=1, flags=re.MULTILINE)[0]
    return markdown(text)


def sentences(text):
    """(line, sentence) of paragraphs, list items and headings; `code` and links count as a word."""
    text = re.sub(r"``[^`]+``|`[^`]+`|{\w+}", "code", text)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"(?<![*\w])\*(?=[^\s*])[^*]+\*(?!\*)", "title", text)
    starts = r"\n\s*\n|\n(?= *(?:[*-]|\d+\.|#+) )"
    place = 0
    for paragraph in re.split(f"({starts})", text):
        for sentence in re.findall(r"[^.!?]*(?:[.!?](?!\s|$|\*)[^.!?]*)*[.!?]?\**", paragraph):
            words = re.sub(r"^\s*(?:[*#-]+|\d+\.)\s", "", sentence).replace("**", "")
            if words.strip():
                yield text.count("\n", 0, place + len(sentence) - len(sentence.lstrip())) + 1, " ".join(words.split())
            place += len(sentence)


def faults(text):
    for line, sentence in sentences(text):
        length = len(re.findall(r"(?<![\w'’.-])[^\W\d_][\w'’./-]*", sentence))
        if length > LONGEST:
            yield f"line {line}: {length} words: {sentence}"
        for word in {match[0] for match in WORDS.finditer(sentence)}:
            yield f"line {line}: {word!r}: {sentence}"
        if HEADLESS.match(sentence):
            yield f"line {line}: begins without a noun: {sentence}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages(path):
    if str(path.relative_to(ROOT)) not in PENDING:
        found = list(faults(prose(path)))
        assert not found, "\n".join(found)
