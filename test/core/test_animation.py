"""The page that plays a motion: its data, its drawing, and names that stay inside their strings."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

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
from dynamics_node.trajectory.animated_page import FRAMES, animation, robot_drawing, write_animation
from dynamics_node.trajectory.systems import units_of
from dynamics_node.trajectory.trajectory import Trajectory

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'\\u2028`${x}`]]>-->"
IN_NODE = Path(__file__).parents[1] / "support" / "page_in_node.js"


def motion_of(model, q, **more):
    """Rates and torques with distinct numbers."""
    count = len(q)
    rates = np.linspace(0, 1, count)[:, None] + np.arange(model.nv)
    return Trajectory(
        name=model.name, q_names=model.q_names, v_names=model.v_names, units=units_of(model),
        time=5.0 + 0.01 * np.arange(count), q=q, qd=rates, qdd=10 * rates, tau=100 * rates, **more,
    )  # fmt: skip


def page_of(model, q, **more):
    return animation(motion_of(model, q, **more), partial(robot_drawing, model))


class Parts(HTMLParser):
    """Texts of elements, split as in a browser."""

    def __init__(self, page):
        super().__init__()
        self.scripts, self.tags, self.texts, self.inside = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if self.inside and self.inside[-1] == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)


def data_of(page):
    return json.loads(Parts(page).scripts[0])


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


def test_page_contains_the_motion(tmp_path):
    model = ROBOTS["panda"].model()
    q = random_positions(model, 40, seed=1)
    q[7, 0] = np.nan
    external_torque, std = np.ones((40, model.nv)), {"external_torque": np.full((40, model.nv), 0.25)}
    path = write_animation(
        tmp_path / "x.html",
        motion_of(model, q, external_torque=external_torque, std=std),
        partial(robot_drawing, model),
    )
    data = data_of(path.read_text(encoding="utf-8"))
    assert data["time"][0] == 0.0 and data["time"][-1] == pytest.approx(0.39)
    curves = {(curve["kind"], curve["name"]): curve for curve in data["curves"]}
    assert len(curves) == 5 * 8
    first = curves["position", "panda_joint1"]
    assert first["values"][7] is None and first["values"][8] == pytest.approx(q[8, 0], rel=1e-5)
    assert first["unit"] == "rad" and curves["torque", "panda_finger_joint1"]["unit"] == "N"
    assert curves["external torque", "panda_joint2"]["band"][3] == 0.5 and first["band"] is None
    assert len(data["points"]) == 40 and data["points"][7][5 * 3] is None


def test_long_motions_are_thinned():
    model = ROBOTS["double_pendulum"].model()
    page = page_of(model, np.zeros((2 * FRAMES + 1, 2)))
    data = data_of(page)
    assert 0.5 * FRAMES < len(data["time"]) == len(data["points"]) <= FRAMES
    assert f"{2 * FRAMES + 1} states, one in 3 shown" in page
    with pytest.raises(ValueError, match="no rows"):
        page_of(model, np.zeros((0, 2)))


@pytest.fixture
def evil():
    """A robot whose names contain markup and code."""
    name = EVIL.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    text = robot(link("base"), link(name), joint(name + "j", "base", name)).replace(
        'name="r"', f'name="{name}"'
    )
    return dn.parse_robot(text)


def test_names_stay_text(evil):
    page = page_of(evil, np.zeros((3, 1)))
    parts = Parts(page)
    assert len(parts.scripts) == 2 and "img" not in [tag for tag, _ in parts.tags]
    assert json.loads(parts.scripts[0])["names"][0][1] == EVIL + "j"
    assert EVIL in "".join(parts.texts)  # the title
    block = re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.S)[1]
    assert not set("<>&\u2028") & set(block)


def test_plot_draws_formulas_in_names_as_text(evil, tmp_path):
    pytest.importorskip("matplotlib", reason="plots: pip install matplotlib")
    motion = replace(motion_of(evil, np.zeros((3, 1))), q_names=("_$\\frac{$",))
    path = tmp_path / "x.svg"
    plot_curves(path, motion.time, motion.curves(), EVIL)
    assert path.stat().st_size > 1000
    with pytest.raises(ValueError, match="no curves"):
        plot_curves(path, motion.time, [], "nothing")


def test_policy_allows_only_the_pages_own_script(evil):
    page = page_of(evil, np.zeros((3, 1)))
    (policy,) = [
        a["content"] for tag, a in Parts(page).tags if a.get("http-equiv") == "Content-Security-Policy"
    ]
    for part, kind in (
        (Parts(page).scripts[1], "script"),
        (re.search("<style>(.*?)</style>", page, re.S)[1], "style"),
    ):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert not re.search(r"https?://|innerHTML|eval\(|Function\(|document\.write", Parts(page).scripts[1])
    assert not [name for _, attributes in Parts(page).tags for name in attributes if name.startswith("on")]
    assert not [a for _, a in Parts(page).tags if {"src", "href"} & set(a)]


# --- the script ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run():
    """run(page, actions, folder) returns the drawing of the script."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node: sudo apt install nodejs")

    def run(page, actions, folder):
        path = folder / "page.html"
        path.write_text(page, encoding="utf-8")
        process = subprocess.run(
            [node, str(IN_NODE), str(path)],
            input=json.dumps(actions),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    return run


def labels(drawn):
    return [operation[1][0] for operation in drawn if operation[0] == "fillText"]


def seek(t):
    return ["time", "input", {"set": {"value": str(t)}, "frames": 3}]


def test_script_draws_names_verbatim(run, evil, tmp_path):
    drawing = run(page_of(evil, np.zeros((3, 1))), [seek(0.01)], tmp_path)
    assert EVIL + "j" in labels(drawing["scene"]) and drawing["chosen"] == [[EVIL + "j", True]]


def test_time_moves_robot_and_cursor(run, tmp_path):
    model = ROBOTS["double_pendulum"].model()
    q = np.linspace(0, 1, 101)[:, None] * np.ones(2)
    page = page_of(model, q)
    first, last = (run(page, [seek(t)], tmp_path) for t in (0.0, 1.0))
    assert first["scene"] != last["scene"] and first["clock"] == "0.000 s of 1.000"
    assert [panel["title"] for panel in first["panels"]] == [
        "position [rad]", "velocity [rad/s]", "acceleration [rad/s²]", "torque [N m]",
    ]  # fmt: skip
    texts = labels(last["panels"][0]["drawn"])
    assert "1" in texts[-2:] and labels(first["panels"][0]["drawn"])[-2:] == ["0", "0"]
    for drawing in (first, last):
        numbers = [x for _, parts, _ in drawing["scene"] for x in parts if isinstance(x, int | float)]
        assert len(numbers) > 100 and np.isfinite(np.array(numbers, dtype=float)).all()


def test_playback_pauses_and_wraps_around(run, tmp_path):
    model = ROBOTS["double_pendulum"].model()
    page = page_of(model, np.zeros((101, 2)))
    assert run(page, [], tmp_path)["play"] == "Pause"  # it plays when it opens
    stopped = run(page, [["play", "click", {}]], tmp_path)
    assert stopped["play"] == "Play"
    fast = run(page, [seek(0.9), ["play", "click", {"set": {}, "frames": 12}]], tmp_path)
    assert 0.0 <= float(fast["clock"].split()[0]) < 0.9  # 50 ms a frame


def test_pointer_and_wheel_move_the_camera(run, tmp_path):
    model = ROBOTS["panda"].model()
    page = page_of(model, random_positions(model, 5, seed=2))
    drag = [
        ["scene", "pointerdown", {"clientX": 0, "clientY": 0}],
        ["scene", "pointermove", {"clientX": 60, "clientY": 20, "buttons": 1}],
    ]
    still = [seek(0.0)]
    scenes = [
        run(page, still + actions, tmp_path)["scene"]
        for actions in ([], drag, [["scene", "wheel", {"deltaY": 300}]], [*drag, ["scene", "dblclick", {}]])
    ]
    assert scenes[0] != scenes[1] and scenes[0] != scenes[2] and scenes[0] == scenes[3]
    hidden = run(page, [*still, ["names", "change", {"set": {"checked": False}}]], tmp_path)
    assert "panda_joint1" in labels(scenes[0]) and "panda_joint1" not in labels(hidden["scene"])


def test_planar_pages_and_gaps(run, tmp_path):
    """A planar mechanism is drawn along z; unknown positions are not drawn."""
    motion = simulate(four_bar(), FOUR_BAR_START, steps=50, dt=1e-3)
    page = animation(motion, partial(planar_drawing, FOUR_BAR_POINTS, FOUR_BAR_BLOCKS))
    drawing = run(page, [seek(0.0)], tmp_path)
    assert {"A", "D", "P1", "P2"} <= set(labels(drawing["scene"]))
    model = ROBOTS["double_pendulum"].model()
    q = np.zeros((11, 2))
    q[3:6] = np.nan
    drawing = run(page_of(model, q), [seek(0.04)], tmp_path)
    assert labels(drawing["scene"]) == ["joint1"] or "joint2" not in labels(drawing["scene"])
    assert not any(x is None for _, parts, _ in drawing["scene"] for x in parts)
