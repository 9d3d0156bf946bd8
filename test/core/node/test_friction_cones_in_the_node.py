"""contact_forces friction_cones in the node: the forces that the ground can give, and what is said where none are."""

import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("daqp", reason="the solver: pip install 'dynamics_node[contacts]'")
pytest.importorskip("pinocchio", reason="the robots: pip install example-robot-data")

from environments import COM, MASS, MOMENTS
from plain import robot_settings, settings
from served_dog import EXACT, LEGS, RATES, TWIST, Dog
from standing import FEET
from tolerances import error

import dynamics_node as dn
from dynamics_node.functions import cone_qp
from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.state.reference import read_base_acceleration

CONES = {"contact_forces": "friction_cones"}
FRICTION = 0.8
FORWARD = (0, 0, 0, 9.0, 0, 0)  # more than friction times gravity
FLAT = np.array([0, 0, 0.24, 0, 0, 0, 1.0])


class ConeDog(Dog):
    def __init__(self, folder, **values):
        super().__init__(folder, **{**CONES, **values})

    def accelerate(self, *values):
        """Set the reference of the base: angular, linear."""
        self.core.base_acceleration = read_base_acceleration(self.core.model, values, "", self.served.now)

    def rest(self):
        """At rest on a level ground."""
        self.core.state.base = self.core.state.read_base(FLAT, 0 * TWIST, 0, self.served.now)
        self.served.receive(self.case.names, LEGS, 0 * RATES)
        self.q, self.qd = np.concatenate([FLAT, LEGS]), np.zeros(18)
        return self


@pytest.fixture
def dog(tmp_path):
    return ConeDog(tmp_path)


def motion_holds(dog, result):
    """Whether the torques and forces produce the accelerations, by Pinocchio."""
    oracle, forces = dog.case.oracle, result.loads.forces.reshape(4, 3)
    J = np.concatenate([oracle.jacobian(dog.q, foot)[3:] for foot in FEET])
    needed = oracle.inverse(dog.q, dog.qd, result.qdd)
    given = J.T @ forces.ravel() + np.concatenate([result.loads.residual, result.tau[6:]])
    return error(given, needed) < 1e-6


def in_cones(result):
    forces = result.loads.forces.reshape(4, 3)
    margins = FRICTION * forces[:, 2] - np.hypot(forces[:, 0], forces[:, 1])
    return margins.min() >= -1e-6


@pytest.mark.parametrize("backend", ["auto", "numpy"])
@pytest.mark.parametrize("push", [0.0, 6.0], ids=["within the cones", "at the cones"])
def test_forces_are_within_the_cones_and_move_the_robot(tmp_path, backend, push):
    dog = ConeDog(tmp_path, backend=backend)
    dog.accelerate(0, 0, 0, push, 0, 0)
    result = dog.served.solve()
    assert result.qdd[3] == push and in_cones(result) and motion_holds(dog, result)
    assert np.abs(result.loads.residual).max() < 1e-4 and not result.clamped
    feet = dog.core.robot.touching.contacts
    solver = dn.build_contact_solver(dog.case.model, feet, effort_limits=False, backend="numpy")
    tau, forces, _ = solver(dog.q, dog.qd, result.qdd)
    assert error(result.tau, tau) < EXACT and error(result.loads.forces, forces) < EXACT


def test_the_shortest_forces_leave_the_cones(tmp_path):
    """What the parameter is for."""
    forces = []
    for values in ({"contact_forces": "shortest"}, CONES):
        dog = ConeDog(tmp_path, **values)
        dog.accelerate(0, 0, 0, 6.0, 0, 0)
        forces.append(in_cones(dog.served.solve()))
    assert forces == [False, True]


def test_payloads_and_wrenches_act(dog):
    dog.rest()
    before = dog.served.solve().loads.forces[2::3].sum()
    dog.core.set_payload("base_link", MASS, COM, MOMENTS)
    after = dog.served.solve().loads.forces[2::3].sum()
    assert after - before == pytest.approx(9.81 * MASS)
    dog.core.wrenches.update("base_link", [0, 0, 0, 0, 0, 5.0], dog.served.now)
    assert after - dog.served.solve().loads.forces[2::3].sum() == pytest.approx(5.0)


def test_stale_gravity_torques_are_within_the_cones(dog):
    dog.served.use(on_stale="gravity")
    result = dog.core.gravity_torques()
    assert in_cones(result) and result.loads.limited is not None


# --- where no forces are ------------------------------------------------------------------------------------


def trouble(dog):
    result, statistics = dog.served.solve(), Statistics()
    statistics.solved(1e-4, (), dog.core.contacts, result.loads)
    return statistics.contact_trouble


def test_it_is_silent_and_names_what_slips(dog):
    dog.rest().accelerate(*FORWARD)
    reason = str(dog.served.no_output("no contact forces produce this acceleration: contact '"))
    assert "_FOOT' slips: " in reason and " N are beyond its friction" in reason
    assert not dog.served.no_output("").stale


def test_the_least_violation_is_published_and_named(tmp_path):
    dog = ConeDog(tmp_path, on_violation="least").rest()
    dog.accelerate(*FORWARD)
    result = dog.served.solve()
    assert motion_holds(dog, result) and not in_cones(result)
    assert trouble(dog).startswith("least violation: contact '") and " slips: " in trouble(dog)
    dog.served.wait(1000)
    assert trouble(dog) == ""


def test_a_set_that_cannot_hold_the_robot(dog):
    dog.rest().core.active.update(FEET[:2], (True, True), 0)
    dog.served.no_output("no motor gives the")
    dog.served.use(on_violation="least")
    assert "no motor gives the" in trouble(dog) and "'floating_base.angular.y' needs" in trouble(dog)
    assert np.abs(dog.served.solve().loads.residual).max() > 0.1
    dog.core.active.update((), (), 0)
    result = dog.served.solve()
    assert not result.loads.forces.any() and result.loads.residual[5] == pytest.approx(
        9.81 * dog.case.model.mass
    )


@pytest.mark.parametrize("limits", ["list", "urdf", "none", "file"])
def test_effort_limits_bound_the_torques(tmp_path, limits):
    """With a limit below the torque of a knee, other legs carry more."""
    free = ConeDog(tmp_path).rest().served.solve().tau[6:]
    names = list(ConeDog(tmp_path).core.joints.names)
    knee = int(np.argmax(np.abs(free)))
    efforts = [50.0] * 12
    efforts[knee] = 0.7 * abs(free[knee])
    file = tmp_path / "limits.yaml"
    file.write_text(f"joint_limits: {{{names[knee]}: {{max_effort: {efforts[knee]}}}}}")
    source = {"limits_file": str(file)} if limits == "file" else {"effort_limits": limits}
    dog = ConeDog(tmp_path, effort_limits_list=efforts, **source).rest()
    result = dog.served.solve()
    bounded = limits in ("list", "file")
    assert (abs(result.tau[6 + knee]) <= efforts[knee] + 1e-6) == bounded and not result.clamped
    assert motion_holds(dog, result) and np.abs(result.loads.residual).max() < 1e-4
    if bounded:
        dog = ConeDog(tmp_path, effort_limits="list", effort_limits_list=[0.2] * 12).rest()
        dog.served.no_output("N m more than its limit of 0.2")
        dog.served.use(on_violation="least")
        result = dog.served.solve()
        assert result.clamped and np.abs(result.tau[6:]).max() <= 0.2
        assert any(f"joint {name!r} needs" in trouble(dog) for name in names)


def test_limits_by_sign_are_no_limits_of_the_solver(tmp_path):
    file = tmp_path / "limits.yaml"
    file.write_text("joint_limits: {FL_KFE: {min_effort: -1.0}}")
    with pytest.raises(AssertionError, match=r"limits.yaml: contact_forces .*max_effort alone.*'FL_KFE'"):
        ConeDog(tmp_path, limits_file=str(file))


# --- parameters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values, reason",
    [
        (CONES, "contact_forces friction_cones needs contacts_file"),
        ({**CONES, "contacts_file": "x", "problem": "forward"}, "requires problem inverse, not forward"),
        ({**CONES, "contacts_file": "x", "driven__joints": ["a"]}, "leave driven.joints empty"),
        ({"contact_forces": "pyramids"}, "contact_forces must be one of shortest, friction_cones"),
        ({"contacts_file": "x", "on_violation": "least"}, "on_violation least needs contact_forces"),
    ],
)
def test_impossible_combinations(values, reason):
    with pytest.raises(ValueError, match=reason):
        settings(**values)


def test_without_daqp_the_parameter_is_rejected(monkeypatch):
    monkeypatch.setitem(sys.modules, "daqp", None)
    cone_qp.required_daqp.cache_clear()
    with pytest.raises(ValueError, match="contact_forces friction_cones: .*pip install .*daqp"):
        settings(**CONES, contacts_file="x")
    monkeypatch.undo()
    cone_qp.required_daqp.cache_clear()
    assert settings(**CONES, contacts_file="x").contact_forces == "friction_cones"


def test_limits_are_part_of_the_build_with_cones_only(dog):
    """A change of the limits must not leave a solver with the old ones."""
    cones = robot_settings("solo12", contacts_file=str(dog.file), **CONES)
    for chosen, differs in ((cones, True), (replace(cones, contact_forces="shortest"), False)):
        other = replace(chosen, effort_limits="none")
        assert (chosen.job("") != other.job("")) == differs


def test_reports_name_the_method(dog):
    solver, algorithm, backend = dog.core.robot.method
    assert (solver, algorithm, backend) == ("quadratic program", "DAQP with friction cones", "numpy")
    assert "inverse dynamics by DAQP with friction cones (numpy)" in dog.core.summary
