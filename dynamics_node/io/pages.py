"""Reports in Markdown, and pages of them: self-contained HTML, text and SVG without scripts.

Names come from untrusted descriptions. `text` escapes all that Markdown could read, HTML is text, and links
and pictures lead to the figures of a report alone.
"""

import re
from html import escape
from pathlib import Path

from dynamics_node.output_files import write_text
from dynamics_node.text import printable

POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # no scripts, no external resources
STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto; max-width: 1180px;
  padding: 1.5rem 2rem 4rem; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 0; } p { max-width: 52rem; margin: .4rem 0; }
p:has(svg) { max-width: none; }
table { display: block; overflow-x: auto; border-collapse: collapse; margin: .6rem 0; }
th, td { padding: .2rem .9rem .2rem 0; vertical-align: top; border-bottom: 1px solid #eee; }
th { text-align: left; border-bottom: 2px solid #ccc; }
p > svg, p > a > svg { max-width: 100%; height: auto; border: 1px solid #ddd; border-radius: 6px; }
pre { background: #f6f6f6; padding: .8rem 1rem; border-radius: 6px; overflow: auto; max-height: 34rem;
  font: 13px/1.45 ui-monospace, monospace; }
"""
_RULES = ["heading", "list", "table", "fence", "emphasis", "escape", "link", "image"]


class Markdown(str):
    """Text in which Markdown has its meaning; `text` leaves it unchanged."""


def text(value: object) -> str:
    """The value on one line as Markdown that displays it, numbers with four digits."""
    if isinstance(value, Markdown):
        return value
    if isinstance(value, float):
        return f"{value:.4g}"
    return Markdown(re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", printable(value, "")))


def bold(value: object) -> Markdown:
    """The value in bold; nothing for an empty one."""
    return Markdown(f"**{text(value)}**" if str(value).strip() else "")


def table(head, rows) -> str:
    """Table of text and right-aligned numbers; "" for an unknown number. head: column names."""
    rows = [list(row) for row in rows]
    aligned = ("--:" if _is_numeric([row[k] for row in rows]) else "---" for k in range(len(head)))
    lines = [map(text, head), aligned, *(map(text, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _is_numeric(column):
    return any(column) and all(cell == "" or isinstance(cell, int | float) for cell in column)


def bullet_list(entries) -> str:
    """List of text."""
    return "\n".join(f"- {text(entry)}" for entry in entries)


def code_block(code: str) -> str:
    """Code as it is, within a fence that it does not contain."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", code)), 0)
    return f"{fence}\n{code}\n{fence}"


class Figures(dict):
    """{name: SVG} of a report."""

    def add(self, svg: str) -> str:
        """Markdown that displays the figure."""
        name = f"figure{len(self)}"
        self[name] = svg
        return f"![]({name})"


def _reader(figures):
    """A reader of Markdown in which links and pictures lead to figures alone."""
    from markdown_it import MarkdownIt  # takes 40 ms to import

    reader = MarkdownIt("zero").enable(_RULES)
    reader.validateLink = figures.__contains__  # type: ignore[method-assign]
    reader.add_render_rule("image", lambda _, tokens, k, *more: figures[tokens[k].attrs["src"]])
    return reader


def page(title: str, blocks, figures=None) -> str:
    """HTML of a report. blocks: of Markdown; figures: {name: SVG}, displayed by ![](name)."""
    markdown = "\n\n".join(blocks)  # adds figures
    body = _reader(figures or {}).render(markdown)
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(printable(title))}</title><style>{STYLE}</style></head><body>",
            f"{body}</body></html>",
            "",
        ]
    )


def write_blocks(path, title: str, blocks, figures=None) -> Path:
    """Write the `page` of a report and return its path; missing folders are created."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page(title, blocks, figures))
    return path
