"""Files of other formats: the error names the file, and the page Bring your robot."""

import pytest

import dynamics_node as dn

PAGE = "docs/how-to/bring_your_robot.md"
WRONG = {
    "robot.sdf": ('<sdf version="1.7"><model name="a"/></sdf>', "sdf2mjcf"),
    "sdf.urdf": ('<?xml version="1.0"?><sdf version="1.7"/>', "sdf2mjcf"),
    "package.xml": ('<package format="3"/>', "<package>"),
    "robot.usda": ("#usda 1.0\n", "starts with no tag"),
    "mesh.stl": ("solid part", "starts with no tag"),
    "robot.json": ('{"links": []}', "starts with no tag"),
    "empty.urdf": ("", "starts with no tag"),
    "robot.osim": ('<OpenSimDocument Version="40000"/>', "<OpenSimDocument>"),
    "expression.urdf": (
        '<robot name="a"><link name="a"><inertial><mass value="${m}"/></inertial></link></robot>',
        "expression of xacro",
    ),
    "broken.xacro": (
        '<robot name="a" xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="${1/0}"/></robot>',
        "division by zero",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_error_names_file_and_page(name, tmp_path, capsys):
    from dynamics_node.cli.commands import run

    if name.endswith("xacro"):
        pytest.importorskip("xacro", reason="xacro: pip install xacro")
    file, (text, words) = tmp_path / name, WRONG[name]
    file.write_text(text)
    with pytest.raises(dn.ModelError) as caught:
        dn.load_robot(file)
    message = str(caught.value)
    assert message.count(str(file)) == 1 and words in message and PAGE in message
    assert run(["info", str(file)]) == 3
    assert capsys.readouterr().err.count(str(file)) == 1


def test_an_unknown_type_of_joint_lists_the_known_ones(tmp_path):
    file = tmp_path / "robot.urdf"
    file.write_text(
        '<robot name="a"><link name="a"/><link name="b"/><joint name="j" type="helical"><parent link="a"/>'
        '<child link="b"/></joint></robot>'
    )
    with pytest.raises(dn.ModelError, match=r"robot\.urdf: joint 'j'.*'helical'.*prismatic.*planar"):
        dn.load_robot(file)
