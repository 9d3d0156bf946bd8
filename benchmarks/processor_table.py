"""The table of processors in docs/explanation/measurements.md, from benchmarks/results/processors."""

import json
import re
import time
from pathlib import Path

import harness

from dynamics_node.codegen.c.compiler import compiler

RESULTS = harness.HERE / "results" / "processors"
PAGE = harness.HERE.parent / "docs" / "explanation" / "measurements.md"
BEGIN, END = "<!-- written by ./dev bench --save -->", "<!-- end of what ./dev bench --save writes -->"
VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "sse2": "SSE2", "asimd": "NEON"}


def description():
    """{what: text} of this processor, as in the head of its column."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").is_file() else ""
    lines = dict(re.findall(r"^(.*?)\s*: (.*)$", info, re.MULTILINE))
    flags = (lines.get("flags") or lines.get("Features") or "").split()
    numbers = [lines[key] for key in ("cpu family", "model", "CPU implementer", "CPU part") if key in lines]
    return {
        "processor": re.sub(r"\((?:R|TM|tm)\)", "", harness.machine()["cpu"]).strip() or "unknown",
        "family, model": ", ".join(numbers),
        "vectors": next((name for flag, name in VECTORS.items() if flag in flags), ""),
        "compiler": compiler().version,
        "measured": time.strftime("%Y-%m-%d"),
    }


def file_name(described):
    """The name of a processor's file: letters, digits and hyphens."""
    words = re.findall(r"[a-z0-9]+", f"{described['processor']} {described['family, model']}".lower())
    return f"{'-'.join(words)}.json"


def table(results):
    """Lines of the table: a column for each result, a row for each figure, the ratio to its peer behind
    it."""
    results = sorted(results, key=lambda result: file_name(result["description"]))
    head = [[_plain(text) for text in result["description"].values()] for result in results]
    titles = ["", *list(results[0]["description"])[1:]]
    lines = [_line(title, cells) for title, cells in zip(titles, zip(*head, strict=True), strict=True)]
    lines.insert(1, _line("---", ["---"] * len(results)))
    figures = [{row["name"]: row for row in result["rows"]} for result in results]
    for name in dict.fromkeys(name for own in figures for name in own):
        lines.append(_line(_plain(name), [_cell(own.get(name)) for own in figures]))
    return lines


def _line(title, cells):
    return f"| {' | '.join([title, *cells])} |"


def _plain(text):
    """Text without characters of Markdown and HTML."""
    return re.sub(r"[^\w .,:+()/-]", " ", text)


def _cell(row):
    if row is None or row["value"] is None:
        return ""
    ratio = "" if row["ratio"] is None else f" ({row['ratio']:.2f})"
    return f"{row['value']:.3g} {row['unit']}{ratio}"


def written(page, lines):
    """The text of a page with these lines between the marks. Raises SystemExit where it lacks the marks."""
    parts = re.split(f"({re.escape(BEGIN)}\n).*?({re.escape(END)})", page, flags=re.DOTALL)
    if len(parts) != 4:
        raise SystemExit(f"{PAGE.name} needs one {BEGIN} and one {END} around the table")
    before, begin, end, after = parts
    return before + begin + "\n" + "\n".join(lines) + "\n\n" + end + after


def save(result, folder=RESULTS, page=PAGE):
    """Write the file of a processor, and the table of all files to the page."""
    text = written(page.read_text(), [])  # fails before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(result["description"])
    path.write_text(json.dumps(result, indent=1) + "\n")
    text = written(text, table([json.loads(path.read_text()) for path in folder.glob("*.json")]))
    page.write_text(text)
    print(f"written: {path.name} and the table in {page.name}")
