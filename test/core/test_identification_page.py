"""The page of an identification: its numbers, its curves, and escaped names."""

import json
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from identified import TIME, Truth, in_chunks
from robots import ROBOTS
from test_explain import browser, with_script  # noqa: F401, a fixture
from test_pages import Page

import dynamics_node as dn
from dynamics_node.algorithms import smooth_friction
from dynamics_node.cli import main
from dynamics_node.identification import identify, summary, write_page
from dynamics_node.io import Thinned, panel

matplotlib = pytest.importorskip("matplotlib", reason="curves: pip install matplotlib")


@pytest.fixture(scope="module")
def fit():
    arm = Truth(ROBOTS["ur5"].model())
    return identify(arm.robot, [in_chunks(arm.recording(1)), in_chunks(arm.recording(2))], backend="numpy")


def page_text(fit, folder, sources=()):
    return write_page(fit, folder / "new" / "report.html", sources).read_text()


def test_numbers_on_the_page(fit, tmp_path):
    page = Page(page_text(fit, tmp_path, [("a.csv", "all is recorded")]))
    assert page.tags.count("svg") == 2 * 6
    assert [row for row in page.rows if row[0] == "read"] == [["read", "a.csv: all is recorded"]]
    name = fit.base.joints[2]
    numbers = [
        f"{x[2]:.4g}"
        for x in (fit.rmse_nominal, fit.rmse_fitted, fit.rmse_cross_validated, fit.solution.spread)
    ]
    assert [name, "N m", *numbers] in page.rows
    described = fit.base.values(fit.linear.described)
    row = next(row for row in page.rows if row[0] == fit.base.expressions[5])
    assert row[1:4] == [f"{x[5]:.4g}" for x in (described, fit.solution.x, fit.solution.std)]
    body = next(k for k, row in enumerate(page.rows) if row[0] == "forearm_link")
    mass = [f"{robot.inertias[2][5, 5]:.4g}" for robot in (fit.linear.robot, fit.robot)]
    assert [page.rows[body][2], page.rows[body + 1][1]] == mass
    viscous = next(row for row in page.rows if row[0] == name and len(row) == 7)
    assert viscous[1:3] == ["0", f"{fit.robot.damping[2]:.4g}"]
    assert {stage for stage, _, _ in summary(fit)} == {"check", "solve", "bodies", "judge"}


def test_the_verdict_comes_first(fit, tmp_path):
    html = page_text(fit, tmp_path)
    (verdict,) = [words for stage, words, _ in summary(fit) if stage == "judge"]
    assert -1 < html.index(verdict.split(",")[0].split(";")[0]) < html.index("Stages")


def lines_of(svg, color):
    """Path data of a color."""
    paths = ElementTree.fromstring(svg).findall(".//{*}path")
    return [path.get("d") for path in paths if f"stroke: {color};" in path.get("style", "")]


def test_curves_are_the_torques_of_the_identified_robot(fit, tmp_path):
    """The identified curve equals the torque of the identified robot by another function."""
    samples, robot = fit.samples, fit.robot
    assert samples.timed and 600 <= len(samples.time) <= 1200 and samples.every == 2
    arm = Truth(fit.linear.robot)
    states = [arm.recording(k) for k in (1, 2)]
    rows = [
        np.concatenate([recording[kind] for recording in states])[::2] for kind in ("q", "qd", "qdd", "tau")
    ]
    offsets = fit.parameters[fit.linear.places("offset")]
    tau = dn.build(robot, dn.inverse_dynamics(robot), backend="numpy")(*rows[:3]) + offsets
    tau += smooth_friction(rows[1], robot.damping, robot.friction)
    assert np.array_equal(samples.measured, rows[3]) and np.allclose(samples.identified, tau, atol=1e-9)
    assert np.allclose(samples.time, np.concatenate([TIME[::2], TIME[-1] + TIME[::2]]))
    with matplotlib.rc_context({"path.simplify": False}):
        svg = next(part for part in page_text(fit, tmp_path).split("<svg")[1:])
    (line,) = lines_of("<svg" + svg.partition("</svg>")[0] + "</svg>", "#2f6fb5")
    height = np.array([float(point.split()[1]) for point in line.replace("M", "L").split("L")[1:]])
    slope, level = np.polyfit(tau[:, 0], height, 1)
    assert slope < 0 and np.abs(slope * tau[:, 0] + level - height).max() < 0.1


@pytest.mark.parametrize("width", [1280, 700])
def test_layout(fit, browser, tmp_path, width):
    """Only tables scroll sideways, every curve has its size, and the page makes no requests."""
    measure = """
      const sizes = [...document.querySelectorAll("p svg")].map(x => x.getBoundingClientRect().width);
      document.body.textContent = "MEASURED" + JSON.stringify({wide: document.documentElement.scrollWidth,
        seen: innerWidth, sizes, requests: performance.getEntriesByType("resource").length}) + "END";
    """
    page = tmp_path / "measured.html"
    page.write_text(with_script(page_text(fit, tmp_path), measure))
    text = browser(page, "--dump-dom", f"--window-size={width},800")
    measured = json.loads(text.partition("MEASURED")[2].partition("END")[0])
    assert measured["wide"] <= measured["seen"] and measured["requests"] == 0
    assert len(measured["sizes"]) == 12 and min(measured["sizes"]) > 0.75 * width


def test_recordings_without_time_are_plotted_over_rows(tmp_path):
    arm = Truth(ROBOTS["ur5"].model())
    timed, untimed = arm.recording(1), arm.recording(2)
    del untimed["time"]
    fit = identify(arm.robot, [in_chunks(timed), lambda: iter([untimed])], backend="numpy")
    steps = np.diff(fit.samples.time)
    assert not fit.samples.timed and "Horizontal axis: Rows" in page_text(fit, tmp_path)
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


def test_command_writes_the_page(tmp_path):
    pytest.importorskip("yaml")
    arm = Truth(ROBOTS["ur5"].model())
    recording = arm.recording(1)
    np.savez(tmp_path / "run.npz", **recording)
    out = tmp_path / "out"
    assert main(["identify", str(ROBOTS["ur5"].file), str(tmp_path / "run.npz"), "-o", str(out)]) == 0
    text = (out / "report.html").read_text()
    assert "run.npz" in text and "better than the description" in text
