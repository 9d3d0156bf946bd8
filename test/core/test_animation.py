"""The page that plays a motion holds it, and names stay data; plots and drawings of robots."""

import base64
import re
import sys
from dataclasses import replace
from functools import partial
from html import escape

import numpy as np
import pytest
from four_bar import FOUR_BAR_BLOCKS, FOUR_BAR_POINTS, FOUR_BAR_START, four_bar
from natural_coordinates import planar_drawing
from oracle import Oracle
from paper_problems import simulate
from robots import ROBOTS, random_positions
from urdf_text import joint, link, robot

import dynamics_node as dn
from dynamics_demo.robots import UPRIGHT, differential, five_bar
from dynamics_node.algorithms import first_closed
from dynamics_node.io import plot_curves
from dynamics_node.trajectory.animation import FRAMES, POLICY, animation
from dynamics_node.trajectory.robot_drawing import robot_drawing
from dynamics_node.trajectory.systems import units_of
from dynamics_node.trajectory.trajectory import Trajectory

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'\\u2028`${x}`]]>-->"


def motion_of(model, q, **more):
    """Rates and torques with distinct numbers."""
    count = len(q)
    rates = np.linspace(0, 1, count)[:, None] + np.arange(model.nv)
    return Trajectory(
        name=model.name, q_names=model.q_names, v_names=model.v_names, units=units_of(model),
        time=5.0 + 0.01 * np.arange(count), q=q, qd=rates, qdd=10 * rates, tau=100 * rates, **more,
    )  # fmt: skip


# --- drawing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["panda", "solo12", "baxter"])
def test_joint_positions_match_pinocchio(name):
    model = ROBOTS[name].model()
    q = random_positions(model, 4, seed=3)
    drawing = robot_drawing(model, q)
    oracle = Oracle(ROBOTS[name], model)
    positions = {text: drawing.points[:, point] for point, text in drawing.names}
    assert set(positions) == {body.joint.name for body in model.bodies}
    for body in model.bodies:
        for row in range(4):
            expected = oracle.pose(q[row], body.name)[1]
            assert np.abs(positions[body.joint.name][row] - expected).max() <= 1e-12


def test_loops_are_closed_in_the_drawing():
    """Bars to both ends of a pin meet in one point; a rod is a bar of its length."""
    robot = dn.parse_robot(five_bar(UPRIGHT))
    q = first_closed(robot, np.array([1.9, 0.0, 1.2, 0.0]))[None]
    drawing = robot_drawing(robot, q)
    ends = [bar[1] for bar in drawing.bars]
    (pin,) = [point for point, text in drawing.names if text == "j5"]
    apart = np.linalg.norm(drawing.points[0] - drawing.points[0, pin], axis=1)
    assert (apart < 1e-9).sum() == 2 and len(set(ends) & set(np.flatnonzero(apart < 1e-9))) == 2
    mechanism = dn.parse_robot(differential())
    q = first_closed(mechanism, np.full(4, 0.1))[None]
    points = robot_drawing(mechanism, q).points[0]
    lengths = [np.linalg.norm(points[i] - points[j]) for i, j, _ in robot_drawing(mechanism, q).bars]
    assert sum(abs(length - 0.25) < 1e-9 for length in lengths) == 3  # the shin and two rods


def test_the_papers_four_bar_is_drawn_in_its_plane():
    q = np.array([FOUR_BAR_START])
    drawing = planar_drawing(FOUR_BAR_POINTS, FOUR_BAR_BLOCKS, q)
    lengths = [np.linalg.norm(drawing.points[0, i] - drawing.points[0, j]) for i, j, _ in drawing.bars]
    assert np.allclose(lengths, [1.0, 2.0, 13.0**0.5]) and drawing.planar
    assert [text for _, text in drawing.names] == ["A", "D", "P1", "P2"]


# --- the page -----------------------------------------------------------------------------------------------


class Recording:
    """What viser recorded: its duration, the messages as (s, message), and their arrays."""

    def __init__(self, page):
        import msgspec
        import zstandard

        packed = base64.b64decode(re.search('__VISER_EMBED_DATA__="([^"]*)"', page)[1])
        data = zstandard.ZstdDecompressor().decompress(packed[8:], int.from_bytes(packed[:8], "little"))
        end = 8 + int.from_bytes(data[:8], "little")
        content = msgspec.msgpack.decode(data[8:end])
        self.duration, self.messages, self.arrays = content["durationSeconds"], content["messages"], []
        for size in content["binaryBufferLengths"]:
            start = -(-end // 8) * 8
            end = start + size
            self.arrays.append(data[start:end])

    def of(self, name, kind):
        """(s, message) of a node and a type."""
        return [(t, m) for t, m in self.messages if m.get("name") == name and m["type"] == kind]

    def points(self, value):
        """(bars, 2, 3) of a message about the bars."""
        return np.frombuffer(self.arrays[value["__binary_index"]], value["dtype"]).reshape(-1, 2, 3)


@pytest.fixture(scope="module")
def page_of():
    pytest.importorskip("viser", reason="pages that play a motion: pip install viser")

    def page_of(model, q, **more):
        return animation(motion_of(model, q, **more), partial(robot_drawing, model))

    return page_of


@pytest.mark.parametrize("name", ["panda", "solo12"])
def test_page_holds_the_motion(page_of, name):
    """Bars and names are at the places of the joints, at the times of the rows."""
    model = ROBOTS[name].model()
    a, b = random_positions(model, 2, seed=1)
    q = np.linspace(a, b, 40)
    q[7, -1] = np.nan
    recording, rows = Recording(page_of(model, q)), np.flatnonzero(np.isfinite(q).all(axis=1))
    drawing = robot_drawing(model, q[rows])
    assert recording.duration == pytest.approx(0.39)
    moves = recording.of("/bars", "SceneNodeUpdateMessage")
    assert len(moves) >= 10 and 0.07 not in [t for t, _ in moves]
    ends = [bar[:2] for bar in drawing.bars]
    for t, message in moves:
        row = int(np.abs(0.01 * rows - t).argmin())
        expected = drawing.points[row, ends]
        assert np.abs(recording.points(message["updates"]["points"]) - expected).max() < 1e-5
    for k, (point, text) in enumerate(drawing.names):
        ((_, label),) = recording.of(f"/names/{k}", "LabelMessage")
        assert label["props"]["text"] == text
        *_, (_, last) = recording.of(f"/names/{k}", "SetPositionMessage")
        assert np.abs(np.array(last["position"]) - drawing.points[-1, point]).max() < 1e-5


def test_long_motions_are_thinned(page_of):
    model = ROBOTS["double_pendulum"].model()
    recording = Recording(page_of(model, np.linspace([0, 0], [1, 2], 6001)))
    moves = recording.of("/bars", "SceneNodeUpdateMessage")
    assert 0.9 * FRAMES < len(moves) <= FRAMES and recording.duration == pytest.approx(60.0)
    assert Recording(page_of(model, np.zeros((1, 2)))).duration == 0.0
    for rows in (np.zeros((0, 2)), np.full((3, 2), np.nan)):
        with pytest.raises(dn.InputError, match="no rows"):
            page_of(model, rows)


def test_the_papers_four_bar_is_played_in_its_plane(page_of):
    motion = simulate(four_bar(), FOUR_BAR_START, steps=5, dt=1e-3)
    recording = Recording(animation(motion, partial(planar_drawing, FOUR_BAR_POINTS, FOUR_BAR_BLOCKS)))
    texts = [m["props"]["text"] for _, m in recording.messages if m["type"] == "LabelMessage"]
    assert texts == ["A", "D", "P1", "P2"]


@pytest.fixture
def evil():
    """A robot whose names contain markup and code."""
    name = EVIL.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    text = robot(link("base"), link(name), joint(name + "j", "base", name)).replace(
        'name="r"', f'name="{name}"'
    )
    return dn.parse_robot(text)


def test_names_stay_data(page_of, evil):
    """Names are in the recording and, escaped, in the title; the policy blocks all addresses."""
    page = page_of(evil, np.zeros((3, 1)))
    ((_, label),) = Recording(page).of("/names/0", "LabelMessage")
    assert label["props"]["text"] == EVIL + "j" and "alert(1)</script>" not in page
    assert f"<title>{escape(EVIL)}</title>" in page and f'content="{POLICY}"' in page
    assert "default-src 'none'" in POLICY and "http" not in POLICY and len(page) < 1.5e6


def test_missing_viser_is_reported(evil, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ImportError, match="pip install 'viser>="):
        animation(motion_of(evil, np.zeros((3, 1))), partial(robot_drawing, evil))


def test_plot_draws_formulas_in_names_as_text(evil, tmp_path):
    pytest.importorskip("matplotlib", reason="plots: pip install matplotlib")
    motion = replace(motion_of(evil, np.zeros((3, 1))), q_names=("_$\\frac{$",))
    path = tmp_path / "x.svg"
    plot_curves(path, motion.time, motion.curves(), EVIL)
    assert path.stat().st_size > 1000
    with pytest.raises(ValueError, match="no curves"):
        plot_curves(path, motion.time, [], "nothing")
