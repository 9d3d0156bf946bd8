"""CFA, JSIIA and ABIA against the articulated-body recursion, and their errors."""

import pickle
import sys
from functools import partial

import numpy as np
import pytest
from balls import ball_robot
from device_arrays import DeviceModule
from parallel_robots import FIVE_LIMBS, chain, states, tree
from robots import ROBOTS
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_demo.robots import five_bar
from dynamics_node.algorithms import aba, crba, rnea
from dynamics_node.chains import CFA_ORDERINGS, SOLVERS, Motions, forward_dynamics, inverse_dynamics
from dynamics_node.chains.parallel_dynamics import mass_matrix
from dynamics_node.errors import ChoiceError
from dynamics_node.node.building.build_job import Job, do
from dynamics_node.node.core.consistency import check_together
from dynamics_node.node.core.settings import Settings
from dynamics_node.robot.inertial_parameters import with_payload

TREES = {
    "one": lambda: chain(1),
    "slide": lambda: chain(1, sliding=1.0),
    "two": lambda: chain(2, floating=True),
    "arm": lambda: chain(7, armature=0.1),
    "floating": lambda: chain(9, 0.3, floating=True, armature=0.1),
    "five_limbs": lambda: tree(FIVE_LIMBS, 0.3, armature=0.1),
    "five_limbs_floating": lambda: tree(FIVE_LIMBS, 0.3, floating=True),
    "uneven": lambda: tree((20, 3), 0.3, floating=True),
    "lone": lambda: tree((), floating=True),
}


@pytest.mark.parametrize("make", TREES.values(), ids=TREES)
def test_all_solvers_agree_with_the_recursions(make):
    model = make()
    q, qd, u, f_ext = states(model, 5)
    gravity = np.random.default_rng(5).uniform(-9, 9, (5, 3))
    for wrenches, g in ((None, None), (f_ext, gravity), (f_ext[0], gravity[0])):
        expected = aba(model, q, qd, u, f_ext=wrenches, gravity=g)[0]
        tau = inverse_dynamics(np, model, q, qd, u, g, wrenches)
        assert error(tau, rnea(model, q, qd, u, wrenches, g)).max() <= 1e-13
        for solver, ordering in [("jsiia", "cr"), ("abia", "cr"), *(("cfa", way) for way in CFA_ORDERINGS)]:
            qdd = forward_dynamics(np, model, q, qd, u, g, wrenches, solver, ordering=ordering)
            assert error(qdd, expected).max() <= 1e-12, (solver, ordering)
    motions = Motions(np, model, q, qd, model.gravity)
    assert error(mass_matrix(motions), crba(model, q), 2).max() <= 1e-13


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n, sliding", [(32, 0.0), (32, 0.3), (256, 0.0), (256, 0.3)])
def test_long_chains_agree_with_aba(solver, n, sliding):
    """Results are within 1e-10 of ABA, whose own residual is 4e-10 for the longest chain."""
    model = chain(n, sliding)
    q, qd, tau, _ = states(model, 3)
    qdd = forward_dynamics(np, model, q, qd, tau, solver=solver)
    assert error(qdd, aba(model, q, qd, tau)[0]).max() <= EXACT
    assert error(rnea(model, q, qd, qdd), tau).max() <= 1e-9


def test_odd_even_elimination_alone_loses_digits():
    """It is not backward stable. CR and Thomas lose far less, and one correction suffices for all."""
    model = chain(256, 0.3)
    q, qd, tau, _ = states(model, 3)
    expected = aba(model, q, qd, tau)[0]

    def errors(corrections):
        solved = partial(forward_dynamics, np, model, q, qd, tau, corrections=corrections)
        return {way: error(solved(ordering=way), expected).max() for way in CFA_ORDERINGS}

    alone, corrected = errors(0), errors(1)
    assert alone["oee"] > 10 * max(alone["cr"], alone["thomas"])
    assert alone["oee"] > 1e-9 and max(corrected.values()) <= EXACT


def test_batches_have_any_leading_axes():
    model = chain(5)
    q, qd, tau, f_ext = states(model, 6)
    for solver in SOLVERS:
        flat = forward_dynamics(np, model, q, qd, tau, f_ext=f_ext, solver=solver)
        shaped = [a.reshape(2, 3, *a.shape[1:]) for a in (q, qd, tau, f_ext)]
        qdd = forward_dynamics(np, model, *shaped[:3], f_ext=shaped[3], solver=solver)
        assert np.allclose(qdd.reshape(6, -1), flat, rtol=0, atol=1e-10)
        one = forward_dynamics(np, model, q[0], qd[0], tau[0], f_ext=f_ext[0], solver=solver)
        assert np.allclose(one, flat[0])


# --- another array module -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda: chain(6, 0.3, armature=0.1), lambda: tree(FIVE_LIMBS, 0.3, floating=True)]
)
def test_device_arrays_never_mix_with_numpy_arrays(make):
    model, xp = make(), DeviceModule()
    q, qd, tau, f_ext = states(model, 3)
    on_device = [xp.asarray(a) for a in (q, qd, tau, model.gravity, f_ext)]
    for solver in SOLVERS:
        for way in CFA_ORDERINGS if solver == "cfa" else ("cr",):
            qdd = forward_dynamics(xp, model, *on_device, solver=solver, ordering=way)
            expected = forward_dynamics(np, model, q, qd, tau, f_ext=f_ext, solver=solver, ordering=way)
            assert np.array_equal(qdd.get(), expected)
    expected = inverse_dynamics(np, model, q, qd, tau, f_ext=f_ext)
    assert np.array_equal(inverse_dynamics(xp, model, *on_device).get(), expected)


def test_fake_device_rejects_numpy_arrays():
    model, xp = chain(3), DeviceModule()
    q, qd, _, _ = states(model, 2)
    with pytest.raises(TypeError, match="NumPy"):
        Motions(xp, model, xp.asarray(q), qd, xp.asarray(model.gravity))


def test_backend_cuda_names_missing_packages(monkeypatch):
    model = chain(4)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(dn.DeviceError, match="pip install cupy-cuda13x"):
        dn.build(model, dn.forward_dynamics(model), solver="cfa", ordering="cr", backend="cuda")
    without = DeviceModule()
    without.cuda = type("cuda", (), {"is_available": staticmethod(lambda: False)})
    monkeypatch.setitem(sys.modules, "cupy", without)
    with pytest.raises(dn.DeviceError, match="no CUDA device"):
        dn.build(model, dn.forward_dynamics(model), solver="abia", backend="cuda")


# --- the facade ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_build_with_every_solver(solver):
    model = tree(FIVE_LIMBS, 0.3, floating=True)
    q, qd, u, f_ext = states(model, 700)  # more than one block
    forward = pickle.loads(
        pickle.dumps(dn.build(model, dn.forward_dynamics(model), solver=solver, f_ext=True))
    )
    assert (forward.choice.solver, forward.choice.backend) == (solver, "numpy")
    assert error(forward(q, qd, u, f_ext), aba(model, q, qd, u, f_ext=f_ext)[0]).max() <= 1e-12
    expected = aba(model, q[0], qd[0], u[0], gravity=np.array([1.0, 2, 3]))[0]
    assert error(forward(q[0], qd[0], u[0], gravity=[1, 2, 3]), expected) <= 1e-12
    inverse = dn.build(model, dn.inverse_dynamics(model), solver=solver, f_ext=True)
    assert inverse.description == "rnea by scans"
    assert error(inverse(q, qd, u, f_ext), rnea(model, q, qd, u, f_ext)).max() <= 1e-12
    with pytest.raises(dn.InputError, match="finite"):
        forward(q[0], qd[0], np.full(model.nv, np.nan))


@pytest.mark.parametrize("way", ["best", *CFA_ORDERINGS])
def test_orderings_of_cfa(way):
    model = chain(5)
    q, qd, tau, _ = states(model, 2)
    forward = dn.build(model, dn.forward_dynamics(model), solver="cfa", ordering=way)
    assert forward.description == f"cfa ({'cr' if way == 'best' else way})"
    assert error(forward(q, qd, tau), aba(model, q, qd, tau)[0]).max() <= 1e-12


@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_is_computed_in_float32(solver):
    """Results equal the float32 arrays bit by bit and differ from float64; with wrenches, and for one state."""
    model = chain(5, 0.3)
    q, qd, tau, f_ext = (array.astype(np.float32) for array in states(model, 6))
    forward = dn.build(model, dn.forward_dynamics(model), solver=solver, precision="float32", f_ext=True)
    for push in (None, f_ext):
        gravity = model.gravity.astype(np.float32)
        expected = forward_dynamics(np, model, q, qd, tau, gravity, push, solver)
        assert expected.dtype == np.float32
        qdd = forward(q, qd, tau, push)
        assert qdd.dtype == np.float32
        np.testing.assert_array_equal(qdd, expected)
        precise = aba(model, *(np.asarray(array, float) for array in (q, qd, tau)), f_ext=push)[0]
        assert 1e-9 < error(qdd, precise).max() < 1e-5
    assert error(forward(q[0], qd[0], tau[0], f_ext[0]), precise[0]).max() < 1e-3
    inverse = dn.build(model, dn.inverse_dynamics(model), solver=solver, precision="float32")
    expected = inverse_dynamics(np, model, q, qd, tau, gravity)
    np.testing.assert_array_equal(inverse(q, qd, tau), expected)


def test_solvers_follow_a_payload():
    model = ROBOTS["panda7"].model()
    loaded = with_payload(model, "panda_link7", 2.0, [0, 0, 0.1], 0.01 * np.eye(3))
    q, qd, tau, _ = states(model, 2)
    for solver in SOLVERS:
        forward = dn.build(model, dn.forward_dynamics(model), solver=solver, runtime_parameters=("inertia",))
        assert error(forward.with_inertias(loaded)(q, qd, tau), aba(loaded, q, qd, tau)[0]).max() <= 1e-10


def test_node_accepts_the_solvers():
    """The parameter `solver` accepts them; unsupported combinations raise errors or report a reason."""
    for solver in SOLVERS:
        check_together(Settings(solver=solver, problem="forward"))
    with pytest.raises(ChoiceError, match="'jsiia' does not run on backend 'c'"):
        check_together(Settings(solver="jsiia", backend="c"))
    assert do(Job(WRIST, {}, "forward", solver="abia", backend="numpy")).method == ("abia", "abia", "numpy")
    failure = do(Job(WRIST, {}, "forward", solver="cfa"))
    assert "'b'" in failure.reason and "inertia" in failure.reason and not failure.transient
    assert "not for hybrid" in do(Job(WRIST, {}, "hybrid", ("j",), solver="cfa")).reason


def test_invalid_problems_and_choices_are_rejected():
    model = chain(3)
    with pytest.raises(ChoiceError, match="hybrid.*'cluster'"):
        dn.build(model, dn.hybrid_dynamics(model, ["j_l0_1"]), solver="abia")
    loops = dn.parse_robot(five_bar())
    with pytest.raises(ChoiceError, match=r"loops.*'cluster'"):
        dn.build(loops, dn.forward_dynamics(loops), solver="cfa")
    for wrong, words in (
        ({"backend": "c"}, "'cfa' does not run on backend 'c', but on auto, numpy, cuda"),
        ({"backend": "gtsam"}, "'cfa' does not run on backend 'gtsam'"),
        ({"ordering": "aba"}, "unknown ordering 'aba'; there are best, cr, oee, thomas"),
    ):
        with pytest.raises(ChoiceError, match=words):
            dn.build(model, dn.forward_dynamics(model), solver="cfa", **wrong)
    with pytest.raises(ChoiceError, match="orderings belong to"):
        dn.build(model, dn.forward_dynamics(model), solver="jsiia", ordering="cr")


def test_unsupported_robots_are_rejected():
    def forward(model, solver="cfa"):
        return dn.build(model, dn.forward_dynamics(model), solver=solver)

    for solver in SOLVERS:
        with pytest.raises(dn.ModelError, match="revolute nor prismatic.*'cluster'"):
            forward(dn.parse_robot(ball_robot(0)), solver)
        with pytest.raises(dn.ModelError, match="'panda_finger_joint2'.*follow"):
            forward(ROBOTS["panda"].model(), solver)
    wide = tree((1,) * 9)
    with pytest.raises(dn.ModelError, match="9 joints"):
        forward(wide)
    weightless = dn.parse_robot(WRIST)
    with pytest.raises(dn.ModelError, match="'b'.*inertia"):
        forward(weightless)
    for model in (wide, weightless):  # supported by the other solvers
        q, qd, tau, _ = states(model, 2)
        for solver in ("jsiia", "abia"):
            assert error(forward(model, solver)(q, qd, tau), aba(model, q, qd, tau)[0]).max() <= 1e-10


WRIST = """<robot name="wrist"><link name="base"/>
<link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="b"/>
<link name="c"><inertial><mass value="1"/><inertia ixx="1" iyy="2" izz="2" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="continuous"><parent link="base"/><child link="a"/><axis xyz="0 0 1"/></joint>
<joint name="k" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 1 0"/></joint>
<joint name="l" type="continuous"><parent link="b"/><child link="c"/><axis xyz="1 0 0"/><origin xyz="0 0.2 0.3"/></joint>
</robot>"""
