"""A model in MJCF opens no file outside its folder, and makes a bounded number of bodies."""

import pytest

import dynamics_node as dn

pytest.importorskip("mujoco", reason="MuJoCo: pip install mujoco")

BODY = '<body name="{}"> <joint axis="0 1 0"/> <inertial mass="1" pos="0 0 .1" diaginertia=".1 .1 .1"/> {}</body>'
SECRET = f"<mujoco><worldbody> {BODY.format('secret', '')} </worldbody></mujoco>"
CUBE = "".join(
    f"f {face}\n" for face in ("1 2 3", "1 3 4", "5 7 6", "5 8 7", "1 5 6", "1 6 2", "2 6 7", "2 7 3", "3 7 8", "3 8 4", "4 8 5", "4 5 1")
)  # fmt: skip
CUBE = "".join(f"v {x} {y} {z}\n" for z in (0, 1) for x, y in ((0, 0), (1, 0), (1, 1), (0, 1))) + CUBE


def mjcf(more="", within=""):
    return f"<mujoco> {more} <worldbody> {BODY.format('arm', within)} </worldbody></mujoco>"


@pytest.fixture
def folder(tmp_path):
    """The folder of a model, beside a secret file."""
    (tmp_path / "secret.xml").write_text(SECRET)
    (tmp_path / "secret.obj").write_text(CUBE)
    inside = tmp_path / "robot"
    (inside / "parts").mkdir(parents=True)
    return inside


def load(folder, text):
    file = folder / "robot.xml"
    file.write_text(text)
    return dn.load_robot(file)


def test_files_of_the_folder_are_read(folder):
    """An included file names others from the folder of the model, or from its own."""
    (folder / "parts" / "leg.xml").write_text('<mujoco><include file="foot.xml"/></mujoco>')
    (folder / "parts" / "foot.xml").write_text(SECRET.replace("secret", "foot"))
    (folder / "parts" / "cube.obj").write_text(CUBE)
    more = (
        '<include file="parts/leg.xml"/><compiler meshdir="parts"/>'
        '<asset><mesh name="cube" file="cube.obj"/></asset>'
    )
    robot = load(
        folder, mjcf(more, '<body name="box"><joint/><geom type="mesh" mesh="cube" density="2"/></body>')
    )
    assert {"arm", "foot", "box"} <= robot.frames.keys()
    assert robot.frames["box"].inertia[5, 5] == pytest.approx(2)


GEOM = '<body name="box"><joint/><geom type="mesh" mesh="m"/></body>'
OUTSIDE = {
    "included": ('<include file="../secret.xml"/>', ""),
    "included by an absolute path": ('<include file="{}/secret.xml"/>', ""),
    "included, and not there": ('<include file="/no/such/file.xml"/>', ""),
    "mesh": ('<asset><mesh name="m" file="../secret.obj"/></asset>', GEOM),
    "folder of meshes": ('<compiler meshdir=".."/><asset><mesh name="m" file="secret.obj"/></asset>', GEOM),
    "folder of assets": ('<compiler assetdir="{}"/><asset><mesh name="m" file="secret.obj"/></asset>', GEOM),
    "height field": (
        '<asset><hfield name="h" size="1 1 1 1" file="../secret.png"/></asset>',
        '<body><joint/><geom type="hfield" hfield="h"/></body>',
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_other_files_are_an_error(name, folder):
    more, within = OUTSIDE[name]
    with pytest.raises(dn.ModelError, match="robot.xml.*outside the folder"):
        load(folder, mjcf(more.replace("{}", str(folder.parent)), within))


@pytest.mark.parametrize(
    "name", [name for name in OUTSIDE if "not there" not in name and "field" not in name]
)
def test_a_trusted_folder_has_them(name, folder):
    more, within = OUTSIDE[name]
    with pytest.raises(dn.ModelError):
        load(folder, mjcf(more.replace("{}", str(folder.parent)), within))
    assert dn.load_robot(folder / "robot.xml", trusted_folder=folder.parent).nv == 2
    with pytest.raises(dn.ModelError, match="outside the folder"):
        dn.load_robot(folder / "robot.xml", trusted_folder=folder / "parts")


def test_files_that_determine_no_inertia_are_not_opened(folder):
    """They may be anywhere, or nowhere."""
    assets = (
        '<asset><texture name="t" type="2d" file="/dev/zero"/><material name="s" texture="t"/>'
        '<skin name="k" file="/dev/zero"/><mesh name="m" file="/dev/zero"/>'
        '<hfield name="h" size="1 1 1 1" file="/dev/zero"/></asset>'
    )
    assert load(folder, mjcf(assets, '<geom type="mesh" mesh="m" material="s"/>')).nv == 1


def test_links_out_of_the_folder_do_not_pass(folder):
    (folder / "innocent.xml").symlink_to(folder.parent / "secret.xml")
    with pytest.raises(dn.ModelError, match="outside the folder"):
        load(folder, mjcf('<include file="innocent.xml"/>'))


def test_an_installation_by_links_is_read(folder, tmp_path):
    """As colcon makes it with --symlink-install: every file is a link into the sources."""
    (folder / "robot.xml").write_text(mjcf('<include file="leg.xml"/>'))
    (folder / "leg.xml").write_text(SECRET)
    installed = tmp_path / "installed"
    installed.mkdir()
    for name in ("robot.xml", "leg.xml"):
        (installed / name).symlink_to(folder / name)
    assert dn.load_robot(installed / "robot.xml").nv == 2


REFUSED = {
    "another model": ('<asset><model name="m" file="robot.xml"/></asset>', "", "file of <model>"),
    "flexible bodies": ("", '<flexcomp name="f" type="mesh" file="x.obj"/>', "file of <flexcomp>"),
    "many copies": ("", '<replicate count="100"><replicate count="100"> <geom size="1"/></replicate></replicate>', "copies"),
    "huge copies": ("", '<replicate count="1e9"> <geom size="1"/> </replicate>', "copies"),
    "a grid": ("", '<flexcomp name="f" type="grid" count="1000 1000 2" spacing="1 1 1"/>', "copies"),
    "a name with a zero": ('<include file="a&#x1;.xml"/>', "", "robot.xml"),
    "a long name": (f'<include file="{"a" * 5000}.xml"/>', "", "robot.xml"),
    "a folder": ('<include file="parts"/>', "", "not there"),
    "itself": ('<include file="robot.xml"/>', "", "more than 200 files"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, folder):
    more, within, words = REFUSED[name]
    with pytest.raises(dn.ModelError, match=words):
        load(folder, mjcf(more, within))


@pytest.mark.parametrize("encoding", ["utf-16", "cp037", "latin-1"])
def test_other_encodings_are_an_error(encoding, folder):
    """MuJoCo would read other elements than the check."""
    file = folder / "robot.xml"
    file.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>{mjcf()}'.encode(encoding))
    with pytest.raises(dn.ModelError, match="robot.xml"):
        dn.load_robot(file)


def test_memory_for_simulations_is_not_reserved(folder):
    assert load(folder, mjcf('<size memory="900G"/>')).nv == 1


def test_commands_take_a_trusted_folder(folder, capsys):
    from dynamics_node.cli.commands import run

    (folder / "robot.xml").write_text(mjcf('<include file="../secret.xml"/>'))
    trusted = ["--trusted-folder", str(folder.parent)]
    urdf = folder / "robot.urdf"
    assert run(["convert", str(folder / "robot.xml"), *trusted, "-o", str(urdf)]) == 0
    assert run(["info", str(folder / "robot.xml"), *trusted]) == 0
    assert "secret" in capsys.readouterr().out and dn.load_robot(urdf).nv == 2
