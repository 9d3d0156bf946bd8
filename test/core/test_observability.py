"""Observability of the motion from sensors, determined before any solve: paper 4, sections II and III."""

import numpy as np
import pytest
from urdf_text import INERTIAL, joint, link, robot

import dynamics_node as dn
from dynamics_demo.robots import five_bar
from dynamics_node.robot import sensors as s
from dynamics_node.robot.state_arrays import sample_positions

SIDES = ("left", "right")
AXES = {"yaw": "0 0 1", "roll": "1 0 0", "pitch": "0 1 0", "knee": "0 1 0", "ankle": "0 1 0", "foot": "1 0 0"}


def biped():
    """A free torso on two legs of six joints; at zero the feet are flat on the ground."""
    parts = [link("torso")]
    for side, y in zip(SIDES, (0.1, -0.1), strict=True):
        before = "torso"
        for name, axis in AXES.items():
            own = f"{side}_{name}"
            place = f'<origin xyz="0 {y if before == "torso" else 0} -0.2"/>'
            text = joint(f"{own}_joint", before, own, extra=f'<axis xyz="{axis}"/>')
            parts += [link(own, INERTIAL), text.replace('<origin xyz="0 0 0.3"/>', place)]
            before = own
    return dn.parse_robot(robot(*parts), floating_base=True)


MODEL = biped()
FLAT = MODEL.neutral()


def standing(unknown):
    """Sensors of all accelerations and of the wrench rows (mx my mz fx fy fz) on each sole that are not `unknown`."""
    rows = [row for row in s.WRENCH if row not in unknown]
    accelerations = [s.JointAcceleration(joint.name, std=0.1) for joint in MODEL.independent_joints]
    return [*accelerations, *(s.ExternalWrench(f"{side}_foot", rows=rows, std=1.0) for side in SIDES)]


SOLES = [dn.Contact(f"{side}_foot", "surface") for side in SIDES]
EQ_20 = standing(("mz", "fx", "fy"))  # of the paper, in which forces come first
EQ_24 = standing(("mz",))


def tilted(angle):
    """The left foot rolled by an angle."""
    q = FLAT.copy()
    q[next(j.q for j in MODEL.independent_joints if j.name == "left_foot_joint")] = angle
    return q


@pytest.mark.parametrize("seed", range(5))
def test_equation_20_is_observable_for_no_pose_of_the_feet(seed):
    """The sensors determine at most five of six unknowns, although the structural rank is full."""
    problem = dn.sensor_problem(MODEL, EQ_20, contacts=SOLES)
    q = sample_positions(MODEL, 1, np.random.default_rng(seed))[0]
    observability = dn.observability(MODEL, problem, q)
    assert not observability.observable
    assert observability.structural_rank == observability.unknowns
    assert observability.rank == observability.rank_here == observability.unknowns - 1
    assert dn.observability(MODEL, problem, FLAT).rank_here == observability.unknowns - 3
    with pytest.raises(dn.UnobservableError, match="any state.*moment z.*'left_foot'"):
        dn.build(MODEL, problem, backend="numpy")


def test_equation_20_names_unobservable_variables():
    observability = dn.observability(MODEL, dn.sensor_problem(MODEL, EQ_20, contacts=SOLES))
    external = {name for name in observability.unobservable if "contact" in name}
    rows = ("moment z", "force x", "force y")
    assert external == {f"{row} of contact '{side}_foot'" for row in rows for side in SIDES}
    legs = {f"torque of joint '{side}_{name}_joint'" for name in AXES for side in SIDES}
    assert set(observability.unobservable) - external <= legs


def test_equation_24_on_flat_ground_leaves_both_yaw_torques_unobservable():
    problem = dn.sensor_problem(MODEL, EQ_24, contacts=SOLES)
    assert dn.observability(MODEL, problem).observable
    observability = dn.observability(MODEL, problem, FLAT)
    assert not observability.observable
    assert observability.unobservable == ()
    yaw = [f"moment z of contact '{side}_foot'" for side in SIDES]
    hips = [f"torque of joint '{side}_yaw_joint'" for side in SIDES]
    assert list(observability.unobservable_here) == [*yaw, *hips]
    assert observability.rank_here == observability.unknowns - 1
    text = str(observability)
    assert "not determined at this position: moment z of contact 'left_foot'" in text
    assert (
        "one more sensor makes the motion observable: left_foot wrench.mz, right_foot wrench.mz, left_yaw_joint torque"
        in text
    )


def test_equation_24_is_observable_if_the_normals_differ():
    """Even one degree suffices; the covariance grows as the normals become parallel."""
    problem = dn.sensor_problem(MODEL, EQ_24, ["f_ext"], SOLES)
    estimator = dn.build(MODEL, problem, backend="numpy")
    foot = MODEL.frames["left_foot"].body
    stds = []
    for degrees in (30, 1):
        q = tilted(np.radians(degrees))
        assert dn.observability(MODEL, problem, q).observable
        estimate = estimator(q, np.zeros(MODEL.nv), np.zeros(len(problem.readings)))
        stds.append(np.sqrt(estimate.f_ext_covariance[foot, 2, 2]))
    assert 20 < stds[1] / stds[0] < 40


@pytest.mark.parametrize(
    "more",
    [
        s.ExternalWrench("left_foot", rows="mz", std=1.0, name="yaw"),
        s.JointTorque("right_yaw_joint", std=0.1),
    ],
)
def test_equation_24_is_observable_on_flat_ground_with_one_yaw_torque(more):
    problem = dn.sensor_problem(MODEL, [*EQ_24, more], contacts=SOLES)
    assert dn.observability(MODEL, problem, FLAT).observable
    estimate = dn.build(MODEL, problem, backend="numpy")(
        FLAT, np.zeros(MODEL.nv), np.zeros(len(problem.readings))
    )
    assert np.isfinite(estimate.tau).all()


def test_pose_with_a_rank_deficiency_raises_an_error():
    problem = dn.sensor_problem(MODEL, EQ_24, contacts=SOLES)
    estimator = dn.build(MODEL, problem, backend="numpy")
    qd, readings = np.zeros(MODEL.nv), np.zeros(len(problem.readings))
    with pytest.raises(dn.SolutionError, match="this position.*moment z.*'left_foot'"):
        estimator(FLAT, qd, readings)
    with pytest.raises(dn.SolutionError, match="moment z"):
        estimator.judge(FLAT, qd, readings)
    estimate = estimator(np.stack([FLAT, tilted(0.3)]), qd, readings, errors="nan")
    assert np.isnan(estimate.tau[0]).all() and np.isfinite(estimate.tau[1]).all()


def test_proposed_sensors_increase_the_rank():
    """Each proposed sensor increases the rank by the stated number."""
    one_sided = [x for x in EQ_20 if "left" not in x.place]
    for sensors, q in ((EQ_24, FLAT), (EQ_20, None), (one_sided, None)):
        before = dn.observability(MODEL, dn.sensor_problem(MODEL, sensors, contacts=SOLES), q)
        assert before.help
        for proposal in before.help[::3]:
            after = dn.observability(
                MODEL, dn.sensor_problem(MODEL, [*sensors, proposal.sensor], contacts=SOLES), q
            )
            gained = (after.rank if q is None else after.rank_here) - (
                before.rank if q is None else before.rank_here
            )
            assert gained == proposal.settles > 0, proposal


def test_error_has_the_observability():
    problem = dn.sensor_problem(MODEL, EQ_20, contacts=SOLES)
    with pytest.raises(dn.UnobservableError) as error:
        dn.build(MODEL, problem, backend="numpy")
    assert error.value.observability == dn.observability(MODEL, problem)


def test_contradicting_exact_sensors_are_named():
    """An exact torque and an exact acceleration of an arm's only joint contradict each other."""
    arm = dn.parse_robot(robot(link("base"), link("arm"), joint("shoulder", "base", "arm")))
    both = [s.JointTorque("shoulder", std=0.0), s.JointAcceleration("shoulder", std=0.0)]
    observability = dn.observability(arm, dn.sensor_problem(arm, both))
    assert set(observability.repeated) == {"shoulder torque", "shoulder acceleration"}
    assert not observability.observable
    with pytest.raises(dn.UnobservableError, match="exact.*shoulder torque.*std"):
        dn.build(arm, dn.sensor_problem(arm, both), backend="numpy")
    one = dn.sensor_problem(arm, [both[0], s.JointAcceleration("shoulder", std=0.1)])
    assert dn.observability(arm, one).degrees_of_freedom == 1


def test_arm_without_sensors_is_unobservable():
    arm = dn.parse_robot(robot(link("base"), link("arm"), joint("shoulder", "base", "arm")))
    observability = dn.observability(arm, dn.sensor_problem(arm, []))
    assert observability.unobservable == ("acceleration of joint 'shoulder'", "torque of joint 'shoulder'")
    assert observability.degrees_of_freedom == 0
    assert observability.structural_rank == observability.rank == observability.unknowns - 1


def test_loop_needs_a_sensor_for_every_motor():
    """Two torques make a five-bar with two motors observable; one does not."""
    linkage = dn.parse_robot(five_bar())
    names = [joint.name for joint in linkage.independent_joints]
    both = [s.JointTorque(name, std=0.1) for name in names]
    assert dn.observability(linkage, dn.sensor_problem(linkage, both)).observable
    observability = dn.observability(linkage, dn.sensor_problem(linkage, both[:1]))
    assert f"torque of joint {names[1]!r}" in observability.unobservable
    assert observability.rank == observability.unknowns - 1
    assert f"{names[1]} torque" in [help.sensor.name for help in observability.help]
