"""HTML frame of a page, and tables in it."""

from html import escape
from pathlib import Path

from dynamics_node.output_files import write_text

POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # no scripts, no external resources
STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto; max-width: 1180px;
  padding: 1.5rem 2rem 4rem; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem; }
h3 { font-size: 1rem; margin: 0; } p { max-width: 52rem; margin: .4rem 0; } .quiet { color: #666; }
table { border-collapse: collapse; } th { font-weight: 600; border-bottom: 2px solid #ccc; }
td { border-bottom: 1px solid #eee; } td.number, th.number { text-align: right; }
figure { margin: 1rem 0; border: 1px solid #ddd; border-radius: 6px; background: #fff; }
figure svg { display: block; max-width: 100%; height: auto; } summary { cursor: pointer; }
"""


def document(title: str, style: str, parts) -> str:
    """HTML text of `parts`, which are HTML; style: CSS in addition to that of all pages."""
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{STYLE}{style}</style></head><body>",
            *parts,
            "</body></html>",
            "",
        ]
    )


def written(text: str, path) -> Path:
    """Write a page and return its path; missing folders are created. Unencodable characters, as in file
    names, become ?."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text, errors="replace")
    return path


def table(head, rows) -> str:
    """HTML table of text and right-aligned numbers with four digits. head: column names."""
    rows = [list(row) for row in rows]
    numeric = [bool(rows) and all(isinstance(row[k], float) for row in rows) for k in range(len(head))]
    names = "".join(
        f"<th{_right(own)}>{escape(str(name))}</th>" for name, own in zip(head, numeric, strict=True)
    )
    return f"<table><tr>{names}</tr>{''.join(_row(row, numeric) for row in rows)}</table>"


def _row(row, numeric):
    cells = zip(row, numeric, strict=True)
    return f"<tr>{''.join(f'<td{_right(own)}>{_formatted(value)}</td>' for value, own in cells)}</tr>"


def _right(numeric):
    return " class=number" if numeric else ""


def _formatted(value):
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))


def bullet_list(entries) -> str:
    """HTML list of text."""
    return f"<ul>{''.join(f'<li>{escape(entry)}</li>' for entry in entries)}</ul>"
