"""Pages of reports: names of descriptions stay text, pages run no script and load nothing."""

from html import escape
from html.parser import HTMLParser

import numpy as np
import pytest
from identified import Truth, in_chunks
from urdf_text import joint, link, robot

import dynamics_node as dn
from dynamics_node.identification import doctor, identify
from dynamics_node.identification import write_page as write_identified
from dynamics_node.io import Figures, bold, bullet_list, make_report, page, table, text
from dynamics_node.io import write_page as write_explained
from dynamics_node.io.pages import POLICY, code_block
from dynamics_node.trajectory import write_check

HOSTILE = [
    "<script>alert(1)</script>&\"'<img src=//x onerror=y>",
    "[x](javascript:alert(1))",
    "![x](http://example.com/x.png) <http://example.com>",
    "![](figure0) [l](index.html)",
    "a|b||c\\|d\\",
    "*i* **b** __u__ ~~s~~ `c` # h",
    "1. one - two > three === --- &amp; &#60;",
    "[x]: http://example.com 'y'",
    "```",
    "{{ x }} ${x} $a_b^$",
]


class Page(HTMLParser):
    """tags: of the elements; links: their addresses; texts: of the page; rows: cells of tables."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.links, self.texts, self.rows = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("href", "src")]
        assert not [name for name, _ in attributes if name.startswith("on")]
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data):
        self.texts.append(data)
        if self.rows and data.strip():
            self.rows[-1].append(data)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_wherever_they_stand(name):
    figures = Figures()
    figures.add("<svg></svg>")
    blocks = [
        f"# {text(name)}", text(name), bold(name), f"{bold(name)}: {text(name)}", bullet_list([name]),
        table((name, "n"), [(name, 1.0), (bold(name), 2.0)]), f"before {text(name)} after",
    ]  # fmt: skip
    shown = Page(page(name, blocks, figures))
    joined = "".join(shown.texts)
    assert joined.count(name) == 11 and shown.links == []  # with the title
    assert not {"script", "img", "a", "svg", "em", "code", "hr"} & set(shown.tags)
    assert shown.tags.count("strong") == 3 and shown.tags.count("td") == 4


def test_control_characters_are_escaped():
    shown = Page(page("\x1b[2J", ["# " + text("a\n# b"), text("c\td\u202ee\udce9")]))
    assert shown.tags.count("h1") == 1 and {"a\\n# b", "c\\td\\u202ee\\udce9"} <= set(shown.texts)


def test_code_stays_within_its_fence():
    code = "int a;\n```\n# <b>no heading</b>\n````"
    shown = Page(page("", [code_block(code)]))
    assert code in "".join(shown.texts) and not {"h1", "b"} & set(shown.tags)


def test_pages_run_no_script_and_load_nothing():
    html = page("<title>", ["[a](http://example.com) [b](x.svg) <b>raw</b>"], {"y.svg": "<svg></svg>"})
    assert POLICY in html and "script-src" not in html and Page(html).links == []
    assert "&lt;title&gt;" in html and "&lt;b&gt;raw&lt;/b&gt;" in html
    figures = {"y.svg": "<svg></svg>"}
    assert Page(page("", ["[![](y.svg)](y.svg)"], figures)).links == ["y.svg"]


def test_numbers_are_aligned():
    html = page("", [table(("name", "n", "k"), [("<b>", 1.23456, 3), ("c", 2.0, "")])])
    assert [row for row in Page(html).rows if row] == [["name", "n", "k"], ["<b>", "1.235", "3"], ["c", "2"]]
    assert html.count("text-align:right") == 6


# --- reports ------------------------------------------------------------------------------------------------


def explained(evil, path):
    return write_explained(make_report(evil, dn.forward_dynamics(evil)), path.parent)


def examined(evil, path):
    return doctor.write_page(doctor.examine(evil_text(evil.name)), path)


def identified(evil, path):
    fit = identify(evil, [in_chunks(Truth(evil).recording(1))], backend="numpy")
    return write_identified(fit, path, [(evil.name, evil.name)])


def checked(evil, path):
    unknown = np.full((2, 2), np.nan)
    q = np.array([[0.0, 0.0], [0.5, 0.1]])
    points = dn.JointTrajectory(evil.v_names, np.array([0.0, 0.1]), q, unknown, unknown)
    check = dn.check_trajectory(evil, points, rate=100, backend="numpy")
    return write_check(check, path, [(evil.name, 1.0)])


def evil_text(name):
    quoted = escape(name)
    parts = [link(f"{quoted}{number}") for number in range(3)]
    joints = [joint(f"{quoted}j{k}", f"{quoted}{k}", f"{quoted}{k + 1}") for k in range(2)]
    return robot(*parts, *joints).replace('name="r"', f'name="{quoted}"')


NAMES = " ".join(HOSTILE[:6])


@pytest.mark.parametrize("report", [explained, examined, identified, checked])
def test_reports_show_names_as_text(report, tmp_path):
    path = report(dn.parse_robot(evil_text(NAMES)), tmp_path / "new" / "page.html")
    shown = Page(path.read_text(encoding="utf-8"))
    assert "".join(shown.texts).count(NAMES) >= 3
    assert not {"script", "img", "em", "iframe", "form"} & set(shown.tags)
    assert all(link.startswith("#") or (path.parent / link).suffix == ".svg" for link in shown.links)
