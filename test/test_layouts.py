"""The layouts of RViz, PlotJuggler and Foxglove are well-formed and use topics of the node."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).parents[1]
LAYOUTS = ROOT / "config" / "layouts"
SOURCES = "\n".join(path.read_text() for path in (ROOT / "dynamics_node" / "node").rglob("*.py"))


def rviz_topics():
    config = yaml.safe_load((LAYOUTS / "dynamics.rviz").read_text())
    displays = {entry["Class"]: entry for entry in config["Visualization Manager"]["Displays"]}
    robot, effort = (displays[f"rviz_default_plugins/{name}"] for name in ("RobotModel", "Effort"))
    assert robot["Description Topic"]["Durability Policy"] == "Transient Local"
    return {robot["Description Topic"]["Value"], effort["Topic"]["Value"]}


def plotjuggler_topics():
    root = ElementTree.parse(LAYOUTS / "plotjuggler.xml").getroot()
    selected = {topic.get("name") for topic in root.iter("topic")}
    curves = [curve.get("name") for curve in root.iter("curve")]
    drawn = {re.fullmatch(r"(/.+)/panda_joint\d/effort", curve)[1] for curve in curves}
    assert drawn == selected and len(curves) == 14
    for splitter in root.iter("DockSplitter"):
        assert int(splitter.get("count")) == len(splitter) == len(splitter.get("sizes").split(";"))
    return selected


def foxglove_topics():
    layout = json.loads((LAYOUTS / "foxglove.json").read_text())
    panels = layout["configById"]

    def panel_ids(tree):
        return [tree] if isinstance(tree, str) else panel_ids(tree["first"]) + panel_ids(tree["second"])

    assert sorted(panel_ids(layout["layout"])) == sorted(panels)
    paths = [path["value"] for panel in panels.values() for path in panel.get("paths", ())]
    layers = panels["3D!robot"]["layers"].values()
    return (
        {re.fullmatch(r"(/[\w/]+)\.effort\[\d\]", path)[1] for path in paths}
        | {layer["topic"] for layer in layers}
        | {panels["DiagnosticSummary!state"]["topicToRender"]}
    )


@pytest.mark.parametrize("topics", [rviz_topics, plotjuggler_topics, foxglove_topics])
def test_layout_displays_topics_of_the_node(topics):
    displayed = topics()
    assert "/dynamics_node/joint_torques" in displayed
    for topic in displayed:
        names = (topic.replace("/dynamics_node/", "~/"), topic, topic.removeprefix("/"))
        assert any(f'"{name}"' in SOURCES for name in names), topic


def test_all_layouts_are_installed():
    setup = (ROOT / "setup.py").read_text()
    assert 'f"share/{NAME}/config/layouts"' in setup
    assert len(list(LAYOUTS.iterdir())) == 3
