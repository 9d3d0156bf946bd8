"""Drivers with other joint names: the robot behaves as if its description had their names."""

import numpy as np
import pytest
from plain import settings
from robots import PANDA, PANDA_JOINTS, ROBOTS, data_folder, random_states

import dynamics_node as dn
from dynamics_demo.robots import five_bar
from dynamics_node.node.building.build_job import Failure, do
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.errors import NoOutput
from dynamics_node.robot.joint_names import all_renamed, name_pairs, proposed_pair

DRIVER_NAMES = tuple(name.replace("panda", "fer") for name in PANDA_JOINTS)
NAMES = {"joint_names__from": ["fer_*"], "joint_names__to": ["panda_*"]}


def served(text, **values):
    """Core of a robot with these parameters, by NumPy."""
    chosen = settings(backend="numpy", **values)
    robot = do(chosen.job(text))
    assert not isinstance(robot, Failure), robot
    return Core(robot, chosen)


def panda(**values):
    return served((data_folder() / PANDA).read_text(), **values)


def test_topics_parameters_and_robots_have_driver_names():
    core = panda(
        joints=DRIVER_NAMES,
        armature__joints=DRIVER_NAMES[:1],
        armature__values=[0.5],
        friction__joints=DRIVER_NAMES[1:2],
        friction__viscous=[0.1],
        friction__coulomb=[0.0],
        command_joints=DRIVER_NAMES[::-1],
        **NAMES,
    )
    assert core.joints.names == core.model.v_names == DRIVER_NAMES
    model = ROBOTS["panda7"].model(armature={"panda_joint1": 0.5})
    q, qd, _, _ = (rows[0] for rows in random_states(model, 1, seed=3))
    core.joints.update(DRIVER_NAMES, q, qd, (), 1, 1)
    tau = core.solve(lambda: 1, 1).tau
    assert np.allclose(tau, dn.evaluate(model, "nonlinear_effects", q, qd, backend="numpy"), atol=1e-9)
    assert np.allclose(
        dn.evaluate(core.model, "mass_matrix", q, backend="numpy"),
        dn.evaluate(model, "mass_matrix", q, backend="numpy"),
    )


def test_plain_names_apply_to_mimic_joints():
    core = panda(joint_names__from=["gripper"], joint_names__to=["panda_finger_joint1"])
    assert core.joints.names == (*PANDA_JOINTS, "gripper")
    assert [joint.masters.names for joint in core.model.explicit_joints] == [("gripper",)]


def test_loops_have_driver_names():
    text = five_bar()
    core = served(text, joint_names__from=["motor_*"], joint_names__to=["j*"])
    plain = served(text)
    assert core.model.v_names == ("motor_1", "motor_2") and core.model.nq == plain.model.nq
    assert core.joints.names == tuple(name.replace("j", "motor_") for name in plain.joints.names)
    for one, names in ((core, core.joints.names), (plain, plain.joints.names)):
        one.joints.update(
            names[:2] if names[1].endswith("2") else (names[0], names[2]), [1.9, 1.2], [0, 0], (), 1, 1
        )
    assert np.allclose(core.solve(lambda: 1, 1).tau, plain.solve(lambda: 1, 1).tau)


@pytest.mark.parametrize(
    ("driver_names", "names", "reason"),
    [(["fer_*"], [], "joint_names.from.*joint_names.to"), (["fer_*"], ["panda_"], "'fer_\\*=panda_'.*star")],
)
def test_invalid_pairs_are_rejected(driver_names, names, reason):
    with pytest.raises(ValueError, match=reason):
        settings(joint_names__from=driver_names, joint_names__to=names)


def test_two_joints_of_one_name_are_rejected():
    chosen = settings(joint_names__from=["panda_joint2"], joint_names__to=["panda_joint1"], backend="numpy")
    failure = do(chosen.job((data_folder() / PANDA).read_text()))
    assert isinstance(failure, Failure)
    assert "'panda_joint1' and 'panda_joint2' are both called 'panda_joint2'" in failure.reason


def test_no_output_suggests_a_pair():
    """The reason names the parameters that fix it."""
    core = panda(joints=PANDA_JOINTS)
    core.joints.update((*DRIVER_NAMES, "wheel"), np.zeros(8), (), (), 1, 1)
    with pytest.raises(NoOutput) as raised:
        core.solve(lambda: 1, 1)
    assert "never seen: panda_joint1" in str(raised.value)
    assert str(raised.value).endswith("set joint_names.from ['fer_*'] and joint_names.to ['panda_*']")
    core = panda(joints=["x_joint1"], joint_names__from=["x_*"], joint_names__to=["panda_*"])
    core.joints.update(DRIVER_NAMES, np.zeros(7), (), (), 1, 1)
    with pytest.raises(NoOutput) as raised:
        core.solve(lambda: 1, 1)
    assert "joint_names.from" not in str(raised.value)  # the parameters already have pairs


# --- bounds -------------------------------------------------------------------------------------------------


class Counted(str):
    """A text that counts its comparisons and the texts made of it."""

    __slots__ = ()
    work = 0

    def removesuffix(self, ending):
        Counted.work += 1
        return Counted(str.removesuffix(self, ending))

    def __add__(self, other):
        Counted.work += 1
        return str.__add__(self, other)

    def __getitem__(self, part):
        Counted.work += 1
        return Counted(str.__getitem__(self, part))


def work_of(prefix, count):
    """Steps of a proposal for `count` joints with a common prefix, which the last name contradicts."""
    ours = [Counted(f"{prefix}{k}") for k in range(count)]
    theirs = [Counted(f"driver_{k}") for k in range(count - 1)]
    Counted.work = 0
    assert proposed_pair(theirs, ours) is None
    return Counted.work


def test_a_proposal_takes_no_longer_for_long_names():
    """A number of steps for every character would stop the node: names come from the network."""
    assert work_of("a" * 200, 50) <= work_of("a" * 20, 50) + 50
    assert work_of("a" * 20, 200) <= 5 * work_of("a" * 20, 50)


def by_all_cuts(theirs, ours):
    """The first pair of the definition: the cuts of the common prefix in turn."""
    prefix = ours[0]
    while not all(our.startswith(prefix) for our in ours):
        prefix = prefix[:-1]
    cuts = range(min(len(prefix), min(map(len, ours)) - 1) + 1)
    for cut in sorted(cuts, key=lambda cut: (cut > 0 and prefix[cut - 1].isalnum(), cut)):
        for name in sorted(theirs):
            head = name.removesuffix(ours[0][cut:])
            if head != name and all(head + our[cut:] in theirs for our in ours):
                return f"{head}*", f"{prefix[:cut]}*"
    return None


def test_proposals_are_those_of_the_definition():
    random, proposals = np.random.default_rng(5), 0
    for _ in range(2000):
        draw = lambda most: "".join(random.choice(list("ab_"), random.integers(0, most)))  # noqa: E731
        prefix, other = draw(5), draw(5)
        endings = [draw(4) for _ in range(random.integers(1, 4))]
        ours = [prefix + ending for ending in endings]
        if not all(ours):
            continue
        theirs = {other + ending for ending in endings if random.random() < 0.9} | {draw(6) for _ in range(6)}
        assert proposed_pair(theirs, ours) == by_all_cuts(theirs, ours), (theirs, ours)
        proposals += by_all_cuts(theirs, ours) is not None
    assert proposals > 300


def test_long_names_are_not_proposed():
    assert proposed_pair(["x" * 300 + "_joint1"], ["panda_joint1"]) is None
    assert proposed_pair(["fer_joint1"], ["panda_joint1"]) == ("fer_*", "panda_*")


@pytest.mark.parametrize(
    "pairs, reason",
    [
        ([(f"{k}*", "a*") for k in range(101)], "101 pairs with a star; the limit is 100"),
        ([("a" * 600, "b")], "601 characters|602 characters"),
        ([("a", "b"), ("a", "c")], "mapped twice"),
    ],
)
def test_pairs_are_bounded(pairs, reason):
    with pytest.raises(ValueError, match=reason):
        name_pairs(pairs)


def test_the_first_matching_pair_applies_among_plain_ones_and_patterns():
    pairs = (("a1", "x"), ("a*", "b*"), ("a2", "y"), ("*3", "z*"))
    assert all_renamed(["a1", "a2", "a3", "c3", "c4"], pairs) == ["x", "b2", "b3", "zc", "c4"]
