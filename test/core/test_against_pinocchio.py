"""Every result against Pinocchio: published robots with distinct joints (test_product.py has the others), ball joints, gears and belts, closed loops, legged robots with gears."""

from functools import cache, cached_property

import numpy as np
import pytest
from cases import oracle_of
from oracle import Quantities, pin
from robots import BALLS, DISTINCT, GEARED, LEGGED, ROBOTS, TEXTS, closed_states, robot_of, states_of
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_demo.robots import four_bar
from dynamics_node.algorithms import QUANTITIES

ALL = (*ROBOTS, *BALLS, *TEXTS, *LEGGED)
MOBILITY = {"four_bar": 1, "five_bar": 2, "tilted five_bar": 2, "geared_chain": 4, "belt_chain": 4, "belt_leg": 3, "differential": 2,
            "revolute": 1, "prismatic": 1, "universal": 2, "ball": 3, "planar": 3, "rod": 5}  # fmt: skip
FEW = 3
ROUNDING = 1e-12  # absolute, for zeros


class Case:
    """A robot, its oracle, some states and the reference results. condition (count,): of the equations of its loops."""

    def __init__(self, name):
        self.name, self.robot, self.oracle = name, robot_of(name), oracle_of(name)
        self.states = q, qd, _, _ = states_of(name, 20 if name in ROBOTS else FEW)
        self.tau = np.array([self.oracle.inverse(*state) for state in zip(*self.states, strict=True)])
        self.M = np.array([self.oracle.mass_matrix(x) for x in q])
        spreads = [self.oracle.spread(x, v) for x, v in zip(q, qd, strict=True)]
        self.condition = np.array([spread.condition for spread in spreads])
        self.exact, self.solved = EXACT * self.condition, solved(self.M) * self.condition

    @cached_property
    def quantities(self):
        """At the first states; mimic joints are free joints here, because Pinocchio has all quantities for those
        only."""
        oracle = oracle_of(self.name, mimic=False)
        return [Quantities(oracle, *state) for state in zip(*self.few, strict=True)]

    @property
    def few(self):
        return [array[:FEW] for array in self.states[:3]]

    def compare(self, name, right, **options):
        """Compare a quantity at the first states with right, the arrays of each state."""
        row = QUANTITIES[name]
        arrays = dict(zip(("q", "qd", "qdd"), self.few, strict=True))
        results = dn.evaluate(
            self.robot, name, *(arrays[x] for x in row.reads if x != "gravity"), **options, backend="numpy"
        )
        for k, of_state in enumerate(right):
            for array, expected in zip(results if row.result else (results,), of_state, strict=True):
                if np.abs(array[k] - expected).max() <= ROUNDING:
                    continue
                wrong = error(array[k], expected, tail=np.ndim(expected))
                assert wrong <= self.exact[k] or (row.inverts and wrong <= self.solved[k]), (name, options)

    @property
    def links(self):
        """About four links, including fixed ones and the last."""
        links = [name for name, frame in self.robot.frames.items() if frame.body >= 0]
        return [*links[:: max(1, len(links) // 3)], links[-1]]


case_of = cache(Case)


@pytest.fixture(params=[name for name in ALL if name in DISTINCT or name not in ROBOTS])
def case(request):
    return case_of(request.param)


def test_inverse_dynamics(case):
    solver = dn.build(case.robot, dn.inverse_dynamics(case.robot), backend="numpy", f_ext=True)
    assert np.all(error(solver(*case.states), case.tau) <= case.exact)


def test_mass_matrix_and_nonlinear_effects(case):
    q, qd, _, _ = case.states
    assert np.all(
        error(dn.evaluate(case.robot, "mass_matrix", q, backend="numpy"), case.M, tail=2) <= case.exact
    )
    expected = [case.oracle.inverse(x, v, 0 * v) for x, v in zip(q, qd, strict=True)]
    assert np.all(
        error(dn.evaluate(case.robot, "nonlinear_effects", q, qd, backend="numpy"), expected) <= case.exact
    )


def test_forward_dynamics(case):
    """The oracle solves loops in one system with their constraint forces."""
    q, qd, _, f_ext = case.states
    tau = np.random.default_rng(5).uniform(-20, 20, qd.shape)
    qdd = dn.build(case.robot, dn.forward_dynamics(case.robot), backend="numpy", f_ext=True)(
        q, qd, tau, f_ext
    )
    expected = [case.oracle.forward(*state) for state in zip(q, qd, tau, f_ext, strict=True)]
    assert np.all(error(qdd, expected) <= case.solved)
    residual = [case.oracle.inverse(*state) for state in zip(q, qd, qdd, f_ext, strict=True)]
    assert np.all(error(residual, tau) <= case.exact)


def test_hybrid_dynamics(case):
    """Pinocchio has no hybrid dynamics: its inverse dynamics must confirm both halves."""
    q, qd, qdd, f_ext = case.states
    problem = dn.hybrid_dynamics(case.robot, [joint.name for joint in case.robot.independent_joints[::2]])
    forward = np.array(problem.forward)
    known = np.where(forward, np.nan, qdd), np.where(forward, case.tau, np.nan)
    accelerations, torques = dn.build(case.robot, problem, backend="numpy", f_ext=True)(q, qd, *known, f_ext)
    assert np.all(error(accelerations, qdd) <= case.solved)
    assert np.array_equal(accelerations[:, ~forward], qdd[:, ~forward])
    assert np.array_equal(torques[:, forward], case.tau[:, forward])
    residual = [case.oracle.inverse(*state) for state in zip(q, qd, accelerations, f_ext, strict=True)]
    assert np.all(error(residual, torques) <= case.exact)


def test_links(case):
    """Every robot has one reference, by turns."""
    reference = ("world_aligned", "body", "WORLD")[len(case.name) % 3]
    if case.oracle.rotors.any():
        return
    poses = dn.evaluate(case.robot, "frame_poses", case.few[0], backend="numpy")
    moving = ("frame_jacobian", "frame_kinematics", "frame_jacobian_bias", "frame_jacobian_time_derivative")
    for link in case.links:
        right = [quantities.of_link(link, reference) for quantities in case.quantities]
        for name in [name for name in moving if name in right[0]]:
            case.compare(name, [expected[name] for expected in right], link=link, reference=reference)
        case.compare("frame_pose", [expected["frame_pose"] for expected in right], link=link)
        number = list(case.robot.frames).index(link)
        for k, expected in enumerate(right):
            assert error(poses.rotations[k, number], expected["frame_pose"][0], tail=2) <= case.exact[k]
            assert error(poses.positions[k, number], expected["frame_pose"][1]) <= case.exact[k]


def test_operational_space(case):
    """For two links at once."""
    q, links = case.states[0][:FEW], case.links[-2:]
    right = []
    for x, M in zip(q, case.M, strict=False):
        J = np.concatenate([case.oracle.jacobian(x, link) for link in links])
        right.append((J @ np.linalg.solve(M, J.T), J))
    case.compare("operational_space_inertia_inverse", right, links=links)


def test_quantities_of_the_whole_robot(case):
    """Torques, energies, momenta and regressors; for trees also joint wrenches."""
    if case.oracle.rotors.any():
        return
    right = [
        quantities.dynamics() | quantities.whole() | quantities.regressors() for quantities in case.quantities
    ]
    for name in right[0]:
        if name != "inverse_dynamics_derivatives":  # test_derivatives.py
            case.compare(name, [expected[name] for expected in right])
    if not case.oracle.ties:
        case.compare("reaction_wrenches", [[quantities.wrenches()] for quantities in case.quantities])
        joint = case.robot.bodies[-1].joint.name
        case.compare(
            "sensor_wrench", [[quantities.wrenches()[-1]] for quantities in case.quantities], joint=joint
        )


@pytest.mark.parametrize("name", [*TEXTS, *LEGGED])
def test_coordinates(name):
    """Pinocchio finds the loops closed; robots have the drawn numbers of joints and coordinates."""
    case, (q, qd, _, _) = case_of(name), case_of(name).states
    for x, v in zip(q, qd, strict=True):
        assert case.oracle.gap(x) <= 1e-9
        G, g, condition = case.oracle.spread_over_bodies(x, v)
        _, rates, accelerations = dn.spanning(case.robot, x, v, 0 * v)
        assert error(rates, G @ v) <= EXACT * condition and error(accelerations, g) <= EXACT * condition**2
    if name in LEGGED:
        assert (len(case.robot.joint_map), case.robot.nv) == LEGGED[name][1:]
    if name in MOBILITY:
        assert case.robot.nv == MOBILITY[name] == len(case.robot.v_names)
        assert bool(case.robot.constrained) == (name not in GEARED), "gears and belts have no constraints"


def test_four_bar_against_pinocchios_constraint_dynamics():
    """Pinocchio's contact solver, with a contact at the pin of the four-bar."""
    robot, model = robot_of("four_bar"), pin.buildModelFromXML(four_bar())
    ends = [(model.getJointId("coupler_j"), 0.8), (model.getJointId("rocker_j"), 0.6)]
    places = [pin.SE3(np.eye(3), np.array([x, 0.0, 0.0])) for _, x in ends]
    contact = pin.RigidConstraintModel(
        pin.ContactType.CONTACT_3D, model, ends[0][0], places[0], ends[1][0], places[1], pin.LOCAL
    )
    data, contact_data = model.createData(), contact.createData()
    contacts, contact_datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    contacts.append(contact)
    contact_datas.append(contact_data)
    pin.initConstraintDynamics(model, data, contacts, contact_datas)
    settings = pin.ProximalSettings(1e-12, 1e-12, 200)
    order = [model.joints[model.getJointId(n)].idx_v for n in robot.tree.v_names]
    q, qd, tau = closed_states(robot, 5)
    accelerations = dn.build(robot, dn.forward_dynamics(robot), backend="numpy")(q, qd, tau)
    for k in range(5):
        at, rates, effort = np.zeros((3, 3))
        at[order], rates = q[k], oracle_of("four_bar").spread(q[k], qd[k]).G @ qd[k]
        effort[order[0]] = tau[k, 0]
        expected = pin.constraintDynamics(model, data, at, rates, effort, contacts, contact_datas, settings)
        assert error(accelerations[k], expected[order][robot.independent]) <= 1e-6  # its solver's tolerance
