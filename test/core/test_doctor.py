"""The doctor: solids against formulas, planted errors with their causes, and repairs that change only numbers."""

import re
import struct
from functools import cache

import numpy as np
import pytest
from robots import ROBOTS
from urdf_text import joint, robot

from dynamics_demo.robots import four_bar
from dynamics_node.algorithms import rnea
from dynamics_node.cli import main
from dynamics_node.errors import ModelError
from dynamics_node.identification.doctor import (
    diagnose,
    evidence,
    examine,
    nearest_consistent,
    repairs,
    write_page,
)
from dynamics_node.identification.doctor.evidence import (
    MassProperties,
    describe_anomalies,
    ellipsoid,
    is_inconsistent,
    second_moments,
    share_of_largest,
)
from dynamics_node.identification.doctor.faults import FAULTS, SWAPPED
from dynamics_node.identification.doctor.link_drawing import SIDE
from dynamics_node.identification.doctor.report import facts
from dynamics_node.identification.doctor.solids import (
    MeshError,
    box,
    capsule,
    cylinder,
    enclosed,
    find_mesh,
    hull,
    joined,
    link_geometry,
    read_triangles,
    sphere,
)
from dynamics_node.identification.doctor.whole_robot import (
    PARAMETERS,
    condition_of,
    margins_of,
    positions_within,
    unseen_parameters,
)
from dynamics_node.robot import parse_robot
from dynamics_node.robot.loading import read_description
from dynamics_node.robot.urdf_numbers import ALL_FIGURES, with_numbers
from dynamics_node.robot.urdf_numbers import Inertial as Numbers
from dynamics_node.robot.urdf_shapes import Shape, parse_shapes
from dynamics_node.symbolic import rpy_rotation

# link: boxes as (size, place, turn); none is symmetric about an axis of its link
ARM = {
    "base": [((0.3, 0.3, 0.1), (0, 0, 0.05), (0, 0, 0))],
    "shoulder": [((0.1, 0.12, 0.2), (0.02, 0.01, 0.12), (0, 0.3, 0.2)), ((0.06, 0.1, 0.1), (0.03, -0.1, 0.1), (0.4, 0, 0))],
    "upper": [((0.06, 0.08, 0.5), (0.05, 0.04, 0.25), (0.2, 0.3, 0)), ((0.1, 0.1, 0.1), (0.1, 0.05, 0.1), (0, 0, 0.5))],
    "lower": [((0.4, 0.06, 0.05), (0.2, 0.03, -0.04), (0, 0.2, 0.35))],
    "hand": [((0.05, 0.15, 0.03), (0.02, 0.06, 0.03), (0.3, 0.1, 0.4))],
}  # fmt: skip
DENSITY = 900.0


def numbers(values):
    return " ".join(f"{x!r}" for x in np.asarray(values, dtype=float).tolist())


def visual(size, place, turn):
    return f'<visual><origin xyz="{numbers(place)}" rpy="{numbers(turn)}"/><geometry><box size="{numbers(size)}"/></geometry></visual>'


def inertial(own):
    moments = " ".join(
        f'{key}="{x!r}"'
        for key, x in zip(
            ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), own.inertia[np.triu_indices(3)].tolist(), strict=True
        )
    )
    return f'<inertial><origin xyz="{numbers(own.com)}"/><mass value="{float(own.mass)!r}"/><inertia {moments}/></inertial>'


def solid_of(boxes):
    return joined(
        [enclosed(box(size) @ rpy_rotation(np.array(turn)).T + place) for size, place, turn in boxes]
    )


@cache
def own_inertials():
    solids = {name: solid_of(boxes) for name, boxes in ARM.items()}
    masses = {name: DENSITY * solid.volume for name, solid in solids.items()}
    return {
        name: MassProperties(
            np.array(masses[name]),
            solid.center,
            masses[name] * (np.trace(solid.second) * np.eye(3) - solid.second),
        )
        for name, solid in solids.items()
    }


def arm(**changed):
    """URDF text of the arm: links have the inertias of their boxes, or the given ones."""
    own = {**own_inertials(), **changed}
    links = [
        f'<link name="{name}">{"".join(visual(*each) for each in boxes)}{inertial(own[name])}</link>'
        for name, boxes in ARM.items()
    ]
    names = list(ARM)
    axes = ("0 0 1", "0 1 0", "0 1 0", "1 0 0")
    joints = [
        joint(f"j{k}", names[k], names[k + 1], extra=f'<axis xyz="{axes[k]}"/>').replace(
            'effort="10"', 'effort="500"'
        )
        for k in range(4)
    ]
    return robot(*links, *joints)


def test_moments_of_solids_match_formulas():
    cases = {
        "box": (box((1.0, 2.0, 3.0)), 6.0, np.array([1, 4, 9]) / 12, 1e-12),
        "cylinder": (cylinder(0.5, 2.0), np.pi / 2, np.array([1 / 16, 1 / 16, 1 / 3]), 0.03),
        "sphere": (sphere(0.5), np.pi / 6, np.full(3, 0.05), 0.08),
        "capsule": (capsule(0.5, 2.0), np.pi / 2 + np.pi / 6, None, 0.05),
    }
    turn, place = rpy_rotation(np.array([0.3, -0.5, 1.1])), np.array([1.0, -2.0, 0.5])
    for name, (triangles, volume, squares, tolerance) in cases.items():
        solid = enclosed(triangles @ turn.T + place)
        assert solid.volume == pytest.approx(volume, rel=tolerance), name
        np.testing.assert_allclose(solid.center, place, atol=1e-9)
        if squares is not None:
            np.testing.assert_allclose(
                turn.T @ solid.second @ turn, np.diag(squares), atol=tolerance * squares.max()
            )


def test_moments_of_a_hull_match_random_points():
    """Against the count of random points inside."""
    random = np.random.default_rng(0)
    corners = random.normal(size=(40, 3))
    triangles = hull(corners)
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    low, high = corners.min(axis=0), corners.max(axis=0)
    points = random.uniform(low, high, (200_000, 3))
    inside = points[(np.einsum("pki,ki->pk", points[:, None] - triangles[:, 0], normals) < 0).all(axis=1)]
    solid = enclosed(triangles)
    assert solid.volume == pytest.approx(np.prod(high - low) * len(inside) / len(points), rel=0.02)
    np.testing.assert_allclose(solid.center, inside.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(solid.second, np.cov(inside.T), atol=0.03)
    half = [enclosed(hull(box((1, 1, 1)).reshape(-1, 3) + np.array([x, 0, 0]))) for x in (-0.5, 0.5)]
    np.testing.assert_allclose(joined(half).second, np.diag([4, 1, 1]) / 12, atol=1e-12)
    assert (
        enclosed(hull(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]))).volume > 0
    )  # flat bodies have a volume


def test_consistent_arm_is_healthy():
    report = examine(arm())
    assert report.findings == [] and report.is_healthy and report.left_out == []


@pytest.mark.parametrize("link", ["shoulder", "upper", "lower", "hand"])
@pytest.mark.parametrize("name", [name for name in FAULTS if name != SWAPPED])
def test_planted_fault_is_identified(name, link):
    fault, own = FAULTS[name], own_inertials()[link]
    faulty = fault.plant(own, np.random.default_rng(1))
    findings = {finding.link: finding for finding in findings_of(**{link: faulty})}
    assert set(findings) == {link}
    assert findings[link].cause == name
    if findings[link].put_right is not None:
        np.testing.assert_allclose(findings[link].put_right.inertia, own.inertia, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(findings[link].put_right.com, own.com, rtol=1e-9)


def findings_of(**changed):
    description = read_description(arm(**changed))
    return diagnose(facts(description, {name: solid_of(boxes) for name, boxes in ARM.items()}))


def test_swapped_inertias_are_reported_on_both_links():
    own = own_inertials()
    findings = findings_of(shoulder=own["lower"], lower=own["shoulder"])
    assert {finding.link: finding.cause for finding in findings} == {"shoulder": SWAPPED, "lower": SWAPPED}
    assert all("'lower'" in finding.symptom or "'shoulder'" in finding.symptom for finding in findings)


def test_mirrored_twin_reveals_wrong_products():
    """Two mirrored arms: products of inertia with wrong signs differ from the twin's."""
    links = facts(read_description(arm()), {name: solid_of(boxes) for name, boxes in ARM.items()})
    mirror = np.diag([1.0, -1.0, 1.0])

    def mirrored(link):
        own, solid = link.inertial, link.solid
        corners = np.sort([mirror @ solid.low, mirror @ solid.high], axis=0)
        return link._replace(
            name="other " + link.name,
            inertial=MassProperties(own.mass, mirror @ own.com, mirror @ own.inertia @ mirror),
            solid=solid._replace(
                center=mirror @ solid.center,
                second=mirror @ solid.second @ mirror,
                low=corners[0],
                high=corners[1],
                bounds=corners,
            ),
        )

    both = [*links, *map(mirrored, links)]
    assert diagnose(both) == []
    k = next(k for k, link in enumerate(both) if link.name == "other hand")
    both[k] = both[k]._replace(inertial=FAULTS["products mirrored"].plant(both[k].inertial))
    assert [(f.link, f.cause) for f in diagnose(both)] == [("other hand", "products mirrored")]


def test_meshes_in_mm_are_distinguished_from_links_in_mm():
    links = facts(read_description(arm()), {name: solid_of(boxes) for name, boxes in ARM.items()})
    large = [link._replace(solid=link.solid.scaled(1e3)) for link in links]
    assert [finding.cause for finding in diagnose(large)] == ["mesh in mm"] * 5


def test_impossible_inertia_is_never_healthy():
    for name, own in own_inertials().items():
        squares, axes = np.linalg.eigh(second_moments(own))
        spread = own.mass * (axes * (-1e-3 * squares[2], *squares[1:])) @ axes.T
        faulty = own._replace(inertia=np.trace(spread) * np.eye(3) - spread)
        assert [finding.link for finding in findings_of(**{name: faulty})] == [name]


# --- bounds and common errors -------------------------------------------------------------------------------


def test_no_mass_within_its_shapes_has_more_than_the_largest_inertia(monkeypatch):
    """Point masses within a shape, mostly at its corners; without the margin, the bounds are attained."""
    monkeypatch.setattr(evidence, "OUTSIDE", 0.0)
    random = np.random.default_rng(0)
    shares = []
    for _ in range(300):
        corners = random.normal(size=(random.integers(4, 12), 3)) * random.uniform(0.1, 1, 3)
        weights = random.dirichlet(np.full(len(corners), random.choice([0.1, 1.0])))
        com = weights @ corners
        spread = (weights[:, None] * (corners - com)).T @ (corners - com)
        own = MassProperties(np.array(2.0), com, 2.0 * (np.trace(spread) * np.eye(3) - spread))
        shares.append(share_of_largest(own, enclosed(hull(corners))))
    assert 0.5 < max(shares) <= 1 + 1e-9
    ends = MassProperties(
        np.array(1.0), np.zeros(3), np.diag([0.0, 4.0, 4.0])
    )  # two points at x = -2 and x = 2
    rod = enclosed(box((4.0, 1e-6, 1e-6)))
    assert share_of_largest(ends, rod) == pytest.approx(1, abs=1e-6)
    ring = MassProperties(np.array(1.0), np.zeros(3), np.diag([0.5, 0.5, 1.0]))
    assert share_of_largest(ring, enclosed(cylinder(1.0, 1e-6))) == pytest.approx(1, abs=1e-6)


def test_bounds_contain_collision_shapes_and_masses_outside():
    visual, collision = Shape("sphere", (0.1,)), Shape("box", (2.0, 0.1, 0.1), visual=False)
    solid = link_geometry([visual, collision], ".", []).solid
    assert solid.volume < 0.005 and solid.high[0] == pytest.approx(0.1, rel=0.05)
    np.testing.assert_allclose(solid.bounds, [[-1, -0.1, -0.1], [1, 0.1, 0.1]], rtol=0.05)
    assert solid.radius == pytest.approx(np.sqrt(1 + 2 * 0.05**2))
    own = MassProperties(
        np.array(1.0), np.array([3.0, 0, 0]), 1e-4 * np.eye(3)
    )  # its center is outside, it is small
    assert 0 < share_of_largest(own, solid) < 1


@pytest.mark.parametrize(
    ("mass", "inertia", "what"),
    [(8, 8, "too heavy"), (8, 1, "too heavy"), (1, 8, "times the largest"), (1, 1 / 8, "too small"), (1 / 20, 1 / 20, "too light")],
)  # fmt: skip
def test_factor_that_all_links_share_is_found(mass, inertia, what):
    own = {
        name: one._replace(mass=mass * one.mass, inertia=inertia * one.inertia)
        for name, one in own_inertials().items()
    }
    report = examine(arm(**own))
    sentences = [*report.common, *(finding.symptom for finding in report.findings)]
    assert any(what in sentence for sentence in sentences) and not report.is_healthy


@pytest.mark.parametrize("link", ["shoulder", "upper", "lower", "hand"])
def test_eightfold_inertia_of_one_link_is_found(link):
    own = own_inertials()[link]
    (finding,) = findings_of(**{link: own._replace(inertia=8 * own.inertia)})
    assert finding.link == link and "times the largest" in finding.symptom


def test_equivalent_boxes():
    own = own_inertials()["lower"]
    shape = ellipsoid(own)
    np.testing.assert_allclose(np.sort(shape.sides), (0.05, 0.06, 0.4), rtol=1e-9)
    np.testing.assert_allclose(shape.half_axes, np.sqrt(5 / 12) * shape.sides)
    heavy = FAULTS["mass in g"].plant(FAULTS["com in mm"].plant(own))
    text = "; ".join(describe_anomalies(heavy, solid_of(ARM["lower"])))
    assert "density would be 9e+05" in text and "smaller than the link" in text and "lies outside" in text


# --- the robot as a whole -----------------------------------------------------------------------------------


def test_margins_and_condition_name_joint_and_link():
    text = arm().replace('effort="500"', 'effort="3"', 1)
    report = examine(text.replace('effort="500"', 'effort="5"', 1))
    assert [line.split("'")[1] for line in report.robot_findings] == ["j1"]  # j0 turns about gravity
    model = parse_robot(arm())
    q = positions_within(model)
    assert (np.abs(q) <= 1).all()
    condition = condition_of(model, q)
    assert condition.link == "hand" and condition.joint == "j3" and not condition.is_bad
    torques = np.array([rnea(model, each, np.zeros(4), np.zeros(4)) for each in q])
    for margin in margins_of(model, q):
        assert margin.gravity == pytest.approx(np.abs(torques[:, int(margin.joint[1])]).max(), abs=1e-9)


def test_unidentifiable_parameters_are_zero_columns_of_pinocchio():
    pin = pytest.importorskip("pinocchio", reason="the oracle: pip install pin")
    chosen = ROBOTS["panda7"]
    model = chosen.model()
    pin_model = pin.buildModelFromUrdf(str(chosen.file))
    fingers = [pin_model.getJointId(name) for name in pin_model.names if "finger" in name]
    pin_model = pin.buildReducedModel(pin_model, fingers, pin.neutral(pin_model))
    data, random = pin_model.createData(), np.random.default_rng(3)
    states = random.uniform(-2, 2, (20, 3, 7))
    columns = np.concatenate([pin.computeJointTorqueRegressor(pin_model, data, *state) for state in states])
    order = ["m", "m x", "m y", "m z", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz"]  # Pinocchio's order
    zero = np.linalg.norm(columns, axis=0).reshape(7, 10) < 1e-9
    expected = {
        body.name: {name for name, none in zip(order, row, strict=True) if none}
        for body, row in zip(model.bodies, zero, strict=True)
        if row.any()
    }
    assert {body: set(names) for body, names in unseen_parameters(model).items()} == expected
    assert set(PARAMETERS) == set(order)


def test_loops_of_a_four_bar_close():
    report = examine(four_bar())
    assert report.robot.loops.closed > 0 and report.robot.loops.worst < 1e3


# --- meshes -------------------------------------------------------------------------------------------------


def test_meshes_are_read_and_scaled(tmp_path):
    pytest.importorskip("trimesh", reason="pip install trimesh")
    triangles = box((100, 200, 300)).astype("<f4")
    content = b"".join(struct.pack("<12fH", *np.zeros(3), *one.ravel(), 0) for one in triangles)
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "a.STL").write_bytes(bytes(80) + struct.pack("<I", len(triangles)) + content)
    (tmp_path / "meshes" / "b.stl").write_bytes(b"no mesh")
    left_out = []
    shape = Shape("mesh", (1e-3, -1e-3, 1e-3), file="package://somewhere/meshes/a.STL")
    geometry = link_geometry([shape], tmp_path, left_out)
    assert left_out == [] and geometry.solid.volume == pytest.approx(0.006, rel=1e-6)
    np.testing.assert_allclose(geometry.solid.second, np.diag([0.01, 0.04, 0.09]) / 12, rtol=1e-5, atol=1e-12)
    bad = Shape("mesh", (1, 1, 1), file="meshes/b.stl")
    assert link_geometry([bad], tmp_path, left_out).solid is None and "'b.stl'" in left_out[0]


def test_missing_meshes_are_reported(tmp_path):
    text = arm().replace(
        visual(*ARM["hand"][0]),
        '<visual><geometry><mesh filename="package://x/none.stl"/></geometry></visual>',
    )
    report = examine(text, tmp_path)
    assert len(report.left_out) == 1 and "package://x/none.stl" in report.left_out[0] and report.is_healthy
    with pytest.raises(MeshError, match="not found"):
        find_mesh("none.stl", tmp_path)
    (tmp_path / "a.so").write_bytes(b"")
    with pytest.raises(MeshError, match="kinds"):
        read_triangles(tmp_path / "a.so")


def test_unreadable_shapes_are_left_out():
    good = '<visual><geometry><sphere radius="0.1"/></geometry></visual>'
    for bad in (
        '<box size="1 2"/>',
        '<sphere radius="-1"/>',
        "<mesh/>",
        "<nothing/>",
        '<box size="a b c"/>',
        '<box size="nan 1 1"/>',
    ):
        shapes, left_out = parse_shapes(
            f'<robot name="r"><link name="l">{good}<visual><geometry>{bad}</geometry></visual></link></robot>'
        )
        assert len(shapes["l"]) == 1 and len(left_out) == 1 and "'l'" in left_out[0]


# --- repair -------------------------------------------------------------------------------------------------


def test_nearest_consistent_inertia_is_nearest():
    own = own_inertials()["upper"]
    faulty = own._replace(inertia=own.inertia @ np.diag([1, 1, 30]))
    faulty = faulty._replace(inertia=0.5 * (faulty.inertia + faulty.inertia.T))
    assert is_inconsistent(faulty)
    right = nearest_consistent(faulty)
    assert not is_inconsistent(right) and np.linalg.eigvalsh(second_moments(right)).min() > 0
    distance = np.linalg.norm(second_moments(right) - second_moments(faulty))
    random = np.random.default_rng(0)
    for _ in range(200):  # no equally consistent inertia nearby is nearer
        other = second_moments(right) + 1e-3 * symmetric(random) * np.trace(second_moments(right))
        if np.linalg.eigvalsh(other).min() >= np.linalg.eigvalsh(second_moments(right)).min():
            assert np.linalg.norm(other - second_moments(faulty)) >= distance * (1 - 1e-9)


def symmetric(random):
    matrix = random.normal(size=(3, 3))
    return matrix + matrix.T


def test_repair_changes_only_numbers():
    own = own_inertials()["upper"]
    faulty = own._replace(inertia=own.inertia + np.diag([0, 0, 5.0]))
    text = (
        arm(upper=faulty).replace("/><mass", ' rpy="0.1 0.2 0.3"/><!-- <inertia ixx="7"/> --><mass').encode()
    )
    before = facts(read_description(text), {})
    repaired = repairs(before)
    assert list(repaired) == ["upper"]
    inertias = {name: Numbers(one.inertia) for name, one in repaired.items()}
    after = with_numbers(text, inertias, figures=ALL_FIGURES).encode()
    links = {link.name: link for link in read_description(after).links}
    np.testing.assert_allclose(links["upper"].inertia, repaired["upper"].inertia, rtol=1e-12, atol=1e-15)
    assert repairs(facts(read_description(after), {})) == {}
    number = re.compile(rb'i[xyz][xyz]="[^"]*"')
    assert number.sub(b"", after) == number.sub(b"", text) and after != text
    with pytest.raises(ModelError, match="no <inertial>"):
        with_numbers(b'<robot name="r"><link name="l"/></robot>', {"l": Numbers(np.eye(3))})


# --- the page and the command -------------------------------------------------------------------------------


@pytest.fixture
def page(tmp_path):
    """A function of a report that returns the text of its page."""
    return lambda report: write_page(report, tmp_path / "page.html").read_text(encoding="utf-8")


def test_links_are_drawn(page):
    faulty = FAULTS["mass in g"].plant(own_inertials()["hand"])
    text = page(examine(arm(hand=faulty)))
    assert text.count("<svg xmlns") == 5 and text.count("<ellipse") == 15 and "mass in g" in text
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")


def test_exit_codes_of_the_command(tmp_path, capsys):
    good, bad, none = (tmp_path / name for name in ("good.urdf", "bad.urdf", "none.urdf"))
    good.write_text(arm())
    own = own_inertials()["lower"]
    bad.write_text(arm(lower=own._replace(inertia=own.inertia + np.diag([0, 0, 5.0]))))
    none.write_text("<robot")
    out = ["-o", str(tmp_path / "page.html")]
    assert main(["doctor", str(good), *out]) == 0
    assert "healthy" in capsys.readouterr().out and (tmp_path / "page.html").is_file()
    repaired = tmp_path / "repaired.urdf"
    assert main(["doctor", str(bad), *out, "--repair", str(repaired)]) == 1
    output = capsys.readouterr().out
    assert "link 'lower'" in output and "1 finding" in output
    assert repairs(facts(read_description(repaired.read_bytes()), {})) == {}
    assert main(["doctor", str(none), *out]) == 3 and main(["doctor", str(tmp_path / "x"), *out]) == 3
    assert "malformed" in capsys.readouterr().err


def test_massless_link_is_reported_without_dynamics(page):
    nothing = FAULTS["massless"].plant(own_inertials()["hand"], None)
    report = examine(arm(hand=nothing))
    assert [finding.cause for finding in report.findings] == ["massless"]
    assert report.robot is None and "hand" in report.why and not report.is_healthy
    assert "<strong>massless</strong>" in page(report) and "cannot be loaded" in page(report)


def test_ellipsoids_are_drawn_whole(page):
    """Twice as large as its link, each stays within its view."""
    large = {name: own._replace(inertia=4.0 * own.inertia) for name, own in own_inertials().items()}
    ellipses = re.findall(
        r'<ellipse [^>]*rx="([\d.]+)" ry="([\d.]+)" transform="translate\(([-\d.]+) ([-\d.]+)\) rotate\(([-\d.]+)\)"',
        page(examine(arm(**large))),
    )
    assert len(ellipses) == 15
    for rx, ry, x, y, turn in np.array(ellipses, dtype=float):
        c, s = np.cos(np.radians(turn)), np.sin(np.radians(turn))
        reach = np.hypot(rx * c, ry * s), np.hypot(rx * s, ry * c)
        assert all(at - far >= 0.0 and at + far <= SIDE for at, far in zip((x, y), reach, strict=True))
