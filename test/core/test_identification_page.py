"""The page of an identification: its numbers beside others', its curves, and names from the network."""

import json
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from identified import TIME, Truth, in_chunks
from robots import ROBOTS
from test_explain import browser, measuring  # noqa: F401, a fixture
from urdf_text import joint, link, robot

import dynamics_node as dn
from dynamics_node.algorithms import smooth_friction
from dynamics_node.cli import main
from dynamics_node.identification import identify, summary, write_page
from dynamics_node.io import Thinned, document, panel, table

matplotlib = pytest.importorskip("matplotlib", reason="curves: pip install matplotlib")
EVIL = "<script>alert(1)</script>&\"'<img src=//x onerror=y>"


@pytest.fixture(scope="module")
def found():
    arm = Truth(ROBOTS["ur5"].model())
    return identify(arm.robot, [in_chunks(arm.recording(1)), in_chunks(arm.recording(2))], backend="numpy")


class Page(HTMLParser):
    """tags: of the elements; texts: what is written; rows: cells of tables."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.rows = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data):
        self.texts.append(data)
        if self.rows:
            self.rows[-1].append(data)


def written(found, folder, sources=()):
    return write_page(found, folder / "new" / "report.html", sources).read_text()


def test_numbers_on_the_page(found, tmp_path):
    page = Page(written(found, tmp_path, [("a.csv", "all is recorded")]))
    assert page.tags.count("svg") == 2 * 6 and "script" not in page.tags and "link" not in page.tags
    assert [row for row in page.rows if row[0] == "read"] == [["read", "a.csv: all is recorded"]]
    name = found.base.joints[2]
    numbers = [
        f"{x[2]:.4g}"
        for x in (found.rmse_nominal, found.rmse_fitted, found.rmse_cross_validated, found.solution.spread)
    ]
    assert [name, "N m", *numbers] in page.rows
    described = found.base.values(found.linear.described)
    row = next(row for row in page.rows if row[0] == found.base.told[5])
    assert row[1:4] == [f"{x[5]:.4g}" for x in (described, found.solution.x, found.solution.std)]
    body = next(k for k, row in enumerate(page.rows) if row[0] == "forearm_link")
    mass = [f"{robot.inertias[2][5, 5]:.4g}" for robot in (found.linear.robot, found.robot)]
    assert [page.rows[body][2], page.rows[body + 1][1]] == mass
    viscous = next(row for row in page.rows if row[0] == name and len(row) == 7)
    assert viscous[1:3] == ["0", f"{found.robot.damping[2]:.4g}"]
    assert {stage for stage, _, _ in summary(found)} == {"check", "solve", "bodies", "judge"}


def lines_of(svg, color):
    """What the paths of a color are drawn by."""
    paths = ElementTree.fromstring(svg).findall(".//{*}path")
    return [path.get("d") for path in paths if f"stroke: {color};" in path.get("style", "")]


def test_curves_are_the_torques_of_the_results(found, tmp_path):
    """What is drawn as identified is what the identified robot takes, by another function of it."""
    shown, robot = found.samples, found.robot
    assert shown.timed and 600 <= len(shown.time) <= 1200 and shown.every == 2
    again = Truth(found.linear.robot)
    states = [again.recording(k) for k in (1, 2)]
    rows = [np.concatenate([one[kind] for one in states])[::2] for kind in ("q", "qd", "qdd", "tau")]
    offsets = found.parameters[found.linear.places("offset")]
    tau = dn.build(robot, dn.inverse_dynamics(robot), backend="numpy")(*rows[:3]) + offsets
    tau += smooth_friction(rows[1], robot.damping, robot.friction)
    assert np.array_equal(shown.measured, rows[3]) and np.allclose(shown.identified, tau, atol=1e-9)
    assert np.allclose(shown.time, np.concatenate([TIME[::2], TIME[-1] + TIME[::2]]))
    with matplotlib.rc_context({"path.simplify": False}):
        svg = next(part for part in written(found, tmp_path).split("<svg")[1:])
    (line,) = lines_of("<svg" + svg.partition("</svg>")[0] + "</svg>", "#2f6fb5")
    height = np.array([float(point.split()[1]) for point in line.replace("M", "L").split("L")[1:]])
    slope, level = np.polyfit(tau[:, 0], height, 1)
    assert slope < 0 and np.abs(slope * tau[:, 0] + level - height).max() < 0.1


def test_names_from_the_network_stay_text(tmp_path):
    name = EVIL.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    text = robot(
        link(name), link(name + "1"), link(name + "2"),
        joint(name + "a", name, name + "1"), joint(name + "b", name + "1", name + "2"),
    ).replace('name="r"', f'name="{name}"')  # fmt: skip
    arm = Truth(dn.parse_robot(text))
    found = identify(arm.robot, [in_chunks(arm.recording(1))], backend="numpy", force=True)
    text = written(found, tmp_path, [(EVIL, EVIL)])
    page = Page(text)
    assert not {"script", "img"} & set(page.tags) and "<script" not in text and "<img" not in text
    assert f"{EVIL}a" in page.texts and f"{EVIL}: {EVIL}" in page.texts


@pytest.mark.parametrize("width", [1280, 700])
def test_layout(found, browser, tmp_path, width):
    """Nothing but tables scrolls sideways, and every curve has its size; nothing is asked of a network."""
    measure = """
      const sizes = [...document.querySelectorAll("figure svg")].map(x => x.getBoundingClientRect().width);
      document.body.textContent = "MEASURED" + JSON.stringify({wide: document.documentElement.scrollWidth,
        seen: innerWidth, sizes, asked: performance.getEntriesByType("resource").length}) + "END";
    """
    page = tmp_path / "measured.html"
    page.write_text(measuring(written(found, tmp_path), measure))
    text = browser(page, "--dump-dom", f"--window-size={width},800")
    seen = json.loads(text.partition("MEASURED")[2].partition("END")[0])
    assert seen["wide"] <= seen["seen"] and seen["asked"] == 0
    assert len(seen["sizes"]) == 12 and min(seen["sizes"]) > 0.75 * width


def test_names_of_files_that_no_encoding_has(found, tmp_path):
    assert "caf?.csv: 1" in Page(written(found, tmp_path, [("caf\udce9.csv", "1")])).texts


def test_recordings_without_time_are_drawn_over_rows(tmp_path):
    arm = Truth(ROBOTS["ur5"].model())
    timed, bare = arm.recording(1), arm.recording(2)
    del bare["time"]
    found = identify(arm.robot, [in_chunks(timed), lambda: iter([bare])], backend="numpy")
    steps = np.diff(found.samples.time)
    assert not found.samples.timed and "Over rows" in written(found, tmp_path)
    assert np.allclose(steps[:599], 0.02) and np.allclose(steps[600:], 2.0)


def test_curves_end_at_gaps():
    x = np.array([0.0, 1, 2, 3, 20, 21, 22, 0, 1])
    y = np.array([1.0, 2, np.nan, 4, 5, 6, 7, 8, 9])
    svg = panel(x, [("#123456", y)], "<&")
    (line,) = lines_of(svg, "#123456")
    lengths = [part.count("L") + 1 for part in line.split("M")[1:]]
    assert lengths == [2, 1, 3, 2] and "<&" in "".join(ElementTree.fromstring(svg).itertext())
    assert svg == panel(x, [("#123456", y)], "<&") and "script" not in svg
    for values in (np.full(3, 2.0), np.full(3, np.nan)):
        ElementTree.fromstring(panel(np.arange(3.0), [("#123456", values)], "N"))


def test_thinned_rows_are_spread_evenly():
    thinned = Thinned(100)
    for chunk in np.split(np.arange(1000.0)[:, None], [1, 8, 500, 777]):
        thinned.add(chunk)
    rows = thinned.rows(1)[:, 0].tolist()
    assert {b - a for a, b in pairwise(rows)} == {thinned.every} and rows[0] == 0.0
    assert 50 < len(rows) <= 100 and rows[-1] >= 1000 - thinned.every


def test_pages_run_no_script_and_load_nothing():
    page = document("<title>", "", ["<p>body</p>"])
    assert "default-src 'none'; style-src 'unsafe-inline'\">" in page and "script-src" not in page
    assert "&lt;title&gt;" in page


def test_tables_escape_and_align():
    text = table(("<a>", "n"), [("<b>", 1.23456), ("c", 2.0)])
    assert "<th>&lt;a&gt;</th><th class=number>n</th>" in text
    assert "<td>&lt;b&gt;</td><td class=number>1.235</td>" in text


def test_the_command_writes_it(tmp_path):
    pytest.importorskip("yaml")
    arm = Truth(ROBOTS["ur5"].model())
    recording = arm.recording(1)
    np.savez(tmp_path / "run.npz", **recording)
    out = tmp_path / "out"
    assert main(["identify", str(ROBOTS["ur5"].file), str(tmp_path / "run.npz"), "-o", str(out)]) == 0
    text = (out / "report.html").read_text()
    assert "run.npz" in text and "better than the description" in text
