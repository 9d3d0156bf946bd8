"""The public interface: accepted arguments, and errors for the others."""

import pickle
import sys
from functools import partial

import numpy as np
import pytest
from robots import ROBOTS, random_states
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_demo.robots import four_bar
from dynamics_node.algorithms.quantity_methods import invert
from dynamics_node.functions import Function
from dynamics_node.functions.arguments import robot_signature
from dynamics_node.graph import dynamics_runner


@pytest.fixture(scope="module")
def panda():
    return ROBOTS["panda7"].model()


@pytest.fixture(scope="module")
def quadruped():
    return ROBOTS["solo12"].model()


def test_batches_of_any_shape_and_broadcasting(panda):
    inverse = dn.build(panda, dn.inverse_dynamics(panda), f_ext=True)
    q, qd, qdd, f_ext = random_states(panda, 12)
    flat = inverse(q, qd, qdd, f_ext)
    shaped = inverse(*(a.reshape(3, 4, *a.shape[1:]) for a in (q, qd, qdd, f_ext)))
    assert np.allclose(shaped.reshape(12, -1), flat, rtol=0, atol=1e-12)
    assert np.allclose(inverse(q[:, ::-1][:, ::-1], qd, qdd, f_ext), flat, rtol=0, atol=1e-12)
    one = inverse(q[0], qd, qdd)
    assert one.shape == (12, 7) and np.allclose(one[3], inverse(q[0], qd[3], qdd[3]))
    assert inverse(np.zeros((0, 7)), np.zeros((0, 7)), np.zeros((0, 7))).shape == (0, 7)
    assert inverse([0] * 7, [0] * 7, [0] * 7).dtype == np.float64


@pytest.mark.parametrize("kind", ["inverse", "forward", "hybrid"])
@pytest.mark.parametrize(
    "choice", [{}, {"solver": "factor_graph", "ordering": "colamd"}], ids=["best", "colamd"]
)
def test_inputs_are_never_changed(panda, kind, choice):
    problem = {
        "inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics,
        "hybrid": lambda m: dn.hybrid_dynamics(m, ["panda_joint2"]),
    }[kind](panda)  # fmt: skip
    q, qd, qdd, f_ext = random_states(panda, 3)
    arguments = [q, qd, qdd, *([qdd.copy()] if kind == "hybrid" else []), f_ext]
    copies = [a.copy() for a in arguments]
    result = dn.build(panda, problem, **choice, f_ext=True)(*arguments)
    for array in result if isinstance(result, tuple) else (result,):
        assert not any(np.shares_memory(array, a) for a in arguments)
    assert all(np.array_equal(a, c) for a, c in zip(arguments, copies, strict=True))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"q": np.zeros(6)}, r"q .*\(..., 7\).*\(6,\).*panda_joint1"),
        ({"q": 1.0}, r"q .*shape"),
        ({"qd": ["a"] * 7}, "qd.*numbers"),
        ({"qd": [0, 0, 0, np.nan, 0, 0, 0]}, r"qd\[3\].*panda_joint4.*nan"),
        ({"qdd": np.full((2, 7), np.inf)}, r"qdd\[0\].*panda_joint1"),
        ({"f_ext": np.zeros((7, 3))}, r"f_ext .*\(..., 7, 6\)"),
        ({"f_ext": np.full((7, 6), np.nan)}, r"f_ext\[0\].*panda_link1"),
        ({"gravity": [0, 0]}, r"gravity .*\(..., 3\)"),
        ({"q": np.zeros((2, 7)), "qd": np.zeros((3, 7))}, r"q \(2,\), qd \(3,\)"),
    ],
)
def test_input_error_names_the_entry(panda, change, words):
    arguments = {"q": np.zeros(7), "qd": np.zeros(7), "qdd": np.zeros(7), **change}
    with pytest.raises(dn.InputError, match=words):
        dn.build(panda, dn.inverse_dynamics(panda), f_ext=True)(**arguments)


@pytest.mark.filterwarnings("error")
def test_infinities_that_cancel_raise(panda):
    with pytest.raises(dn.InputError, match=r"q\[0\].*panda_joint1.*inf"):
        dn.build(panda, dn.inverse_dynamics(panda))(
            [np.inf, -np.inf, 0, 0, 0, 0, 0], np.zeros(7), np.zeros(7)
        )


def test_quaternion_is_normalized_or_raises(quadruped):
    inverse = dn.build(quadruped, dn.inverse_dynamics(quadruped))
    q, qd, qdd, _ = random_states(quadruped, 1)
    exact = inverse(q[0], qd[0], qdd[0])
    near = q[0].copy()
    near[3:7] *= 1 + 5e-7
    assert error(inverse(near, qd[0], qdd[0]), exact) <= EXACT
    near[3:7] *= 1 + 5e-6
    with pytest.raises(dn.InputError, match="'floating_base'.*norm 1.0000"):
        inverse(near, qd[0], qdd[0])


def test_hybrid_reads_only_known_entries(panda):
    problem = dn.hybrid_dynamics(panda, ["panda_joint2"])
    hybrid = dn.build(panda, problem)
    q, qd, qdd, _ = random_states(panda, 1)
    known = np.array(problem.forward)
    poisoned = np.where(known, np.nan, qdd[0]), np.where(known, 3.0, np.inf)
    accelerations, torques = hybrid(q[0], qd[0], *poisoned)
    assert np.isfinite(accelerations).all() and torques[1] == 3.0
    with pytest.raises(dn.InputError, match=r"tau\[1\].*panda_joint2"):
        hybrid(q[0], qd[0], qdd[0], np.full(7, np.nan))


@pytest.mark.parametrize("name", ["nope", "panda_finger_joint2"])
def test_hybrid_of_an_unknown_or_mimic_joint_raises(name):
    with pytest.raises(ValueError, match=f"forward.*'{name}'"):
        dn.hybrid_dynamics(ROBOTS["panda"].model(), [name])


def test_partly_forward_joint_raises(quadruped):
    split = dn.Problem("hybrid", (True,) + (False,) * (quadruped.nv - 1))
    q, qd, qdd, _ = random_states(quadruped, 1)
    for solver in ("cluster", "factor_graph"):
        with pytest.raises(ValueError, match="'floating_base'.*whole"):
            dn.build(quadruped, split, solver=solver)(q[0], qd[0], qdd[0], qdd[0])


def test_evaluate_calls_the_built_function(panda, monkeypatch):
    """The first call compiles; later calls do not build again."""
    q, panda = (
        np.full(7, 0.3),
        dn.with_payload(panda, "panda_hand", 0.3, (0, 0, 0.1)),
    )  # a robot of this test alone
    options = {"link": "panda_hand"}
    pose, M = dn.evaluate(panda, "frame_pose", q, **options), dn.evaluate(panda, "mass_matrix", q)
    assert np.array_equal(M, dn.build(panda, "mass_matrix")(q))
    assert np.array_equal(pose.rotation, dn.build(panda, "frame_pose", **options)(q).rotation)
    assert np.allclose(M, dn.evaluate(panda, "mass_matrix", q, backend="numpy"), rtol=0, atol=EXACT)
    monkeypatch.setattr(sys.modules["dynamics_node.functions.evaluate"], "build", None)
    assert np.array_equal(dn.evaluate(panda, "mass_matrix", q), M)
    assert np.array_equal(dn.evaluate(panda, "frame_pose", q, **options).position, pose.position)
    with pytest.raises(TypeError):
        dn.evaluate(panda, "mass_matrix", q, backend="c")


def test_unknown_name_error_lists_known_names(panda):
    with pytest.raises(KeyError, match="'nope'.*panda_hand") as caught:
        dn.evaluate(panda, "frame_jacobian", np.zeros(7), link="nope", backend="numpy")
    assert str(caught.value).startswith("unknown link 'nope'; ")  # without the quotes of KeyError
    with pytest.raises(ValueError, match="'sideways'.*world_aligned, body"):
        dn.evaluate(
            panda, "frame_jacobian", np.zeros(7), link="panda_hand", reference="sideways", backend="numpy"
        )


def test_lambda_of_dependent_links_raises(panda):
    q = np.full(7, 0.4)
    inverse_of = partial(dn.evaluate, panda, "operational_space_inertia_inverse", q, backend="numpy")
    inverse, _ = inverse_of(links=["panda_hand"])
    inertia, condition = invert(inverse)
    assert condition < 1e6 and np.allclose(inertia @ inverse, np.eye(6), atol=1e-8)
    singular, _ = inverse_of(links=["panda_hand", "panda_link8"])
    inertia, condition = invert(singular)
    assert inertia is None and condition >= 1e12
    q = np.tile(q, (100, 1))
    for backend in ("numpy", "c"):
        own = dn.build(panda, "operational_space_inertia", links=["panda_hand"], backend=backend)
        result = own(q[0]).inertia
        assert np.allclose(result @ inverse, np.eye(6), atol=1e-8) and np.array_equal(result, result.T)
        assert np.allclose(own(q).inertia, result, rtol=1e-9)


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_lambda_of_a_singular_position_raises(panda, backend):
    """The elbow is straight; other states of the batch have results."""
    own = dn.build(panda, "operational_space_inertia", links=["panda_hand"], backend=backend)
    q = np.array([np.full(7, 0.4), np.zeros(7)])
    inertia = own(q, errors="nan").inertia
    assert np.isfinite(inertia[0]).all() and np.isnan(inertia[1]).all()
    with pytest.raises(dn.SolutionError, match="links.*all directions"):
        own(q[1])


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_building_an_always_singular_lambda_raises(panda, backend):
    """Lambda^-1 is singular at every position: for a link of a planar linkage, the root of an arm, links that
    one joint moves, and a link given twice (whose factors are zero exactly)."""
    for robot, *links in (
        (dn.parse_robot(four_bar()), "coupler"),
        (ROBOTS["ur5"].model(), "base_link"),
        (panda, "panda_hand", "panda_link8"),
        (panda, "panda_hand", "panda_hand"),
    ):
        with pytest.raises(ValueError, match=f"{links[-1]}.*operational_space_inertia_inverse"):
            dn.build(robot, "operational_space_inertia", links=links, backend=backend)


@pytest.mark.parametrize("choice", [{}, {"solver": "factor_graph", "ordering": "colamd"}])
def test_solvers_pickle(panda, choice):
    solver = dn.build(panda, dn.forward_dynamics(panda), **choice)
    copy = pickle.loads(pickle.dumps(solver))
    q, qd, tau, _ = random_states(panda, 1)
    assert np.array_equal(copy(q[0], qd[0], tau[0]), solver(q[0], qd[0], tau[0]))


def test_missing_gtsam_error_names_the_package(panda, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "gtsam", None)
    with pytest.raises(ImportError, match="pip install 'gtsam>=4.3'"):
        dn.build(panda, dn.inverse_dynamics(panda), solver="factor_graph", backend="gtsam")


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_robot_without_joints(backend):
    robot = dn.parse_robot("<robot name='r'><link name='l'/></robot>")
    inverse = dn.build(robot, dn.inverse_dynamics(robot), backend=backend)
    assert inverse([], [], []).shape == (0,)
    assert inverse(*np.zeros((3, 4, 0))).shape == (4, 0)


def test_import_needs_neither_ros_nor_extras():
    import subprocess
    import sys

    code = "import sys, dynamics_node; print([m for m in ('rclpy', 'gtsam', 'scipy', 'pinocchio') if m in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


# --- invalid arguments --------------------------------------------------------------------------------------


def test_missing_argument_error_names_it(panda):
    q = np.zeros(panda.nv)
    inverse = dn.build(panda, dn.inverse_dynamics(panda), backend="numpy")
    for arguments, name in (((q, q, None), "qdd"), ((q, None, q), "qd"), ((None, q, q), "q")):
        with pytest.raises(dn.InputError, match=f"^{name} is missing"):
            inverse(*arguments)
    forward = dn.build(panda, dn.forward_dynamics(panda), backend="c")
    with pytest.raises(dn.InputError, match="^tau is missing"):
        forward(q, q, None)


def test_complex_arguments_and_integer_results_raise(panda):
    q = np.zeros(panda.nv)
    for backend in ("c", "numpy"):
        solver = dn.build(panda, dn.inverse_dynamics(panda), backend=backend)
        with pytest.raises(dn.InputError, match="qd.*complex"):
            solver(q, q + 1j, q)
        for dates in (q.astype("datetime64[s]"), list(q.astype("timedelta64[s]"))):
            with pytest.raises(dn.InputError, match="qd.*numbers"):
                solver(q, dates, q)
        with pytest.raises(dn.InputError, match="out.*int64"):
            solver(q, q, q, out=np.zeros(panda.nv, dtype=int))
        with pytest.raises(dn.InputError, match="out.*list"):
            solver(q, q, q, out=[0.0] * panda.nv)


@pytest.mark.parametrize("function", [
    lambda m, q: dn.evaluate(m, "mass_matrix", q, backend="numpy"),
    lambda m, q: dn.evaluate(m, "nonlinear_effects", q, [0.0] * 7, backend="numpy"),
    lambda m, q: dn.evaluate(m, "frame_jacobian", q, link="panda_link7", backend="numpy"),
    lambda m, q: dn.evaluate(m, "frame_pose", q, link="panda_link7", backend="numpy"),
    lambda m, q: dn.evaluate(m, "operational_space_inertia_inverse", q, links=["panda_link7"], backend="numpy"),
])  # fmt: skip
def test_functions_check_their_arguments(panda, quadruped, function):
    good = function(panda, [0.1] * 7)
    for one, two in zip(good, function(panda, np.full(7, 0.1)), strict=True):
        assert np.array_equal(one, two)
    for bad in (np.zeros(8), np.zeros(6), [0.0, np.nan] + [0.0] * 5, None, np.zeros(7) + 1j):
        with pytest.raises(dn.InputError, match="^q"):
            function(panda, bad)


def test_zero_quaternion_raises(quadruped):
    q = quadruped.neutral()
    q[6] = 0.0
    with pytest.raises(dn.InputError, match="'floating_base'.*norm 0"):
        dn.evaluate(quadruped, "mass_matrix", q, backend="numpy")


def test_states_solved_one_by_one_have_all_wrenches(panda):
    """Seven states are no axis of wrenches on seven bodies: each state, solved alone, has all wrenches."""

    class SingleState:
        """At call time: solves one state, with q = 0, and raises otherwise."""

        robot, problem, description = panda, dn.inverse_dynamics(panda), "single state"

        def __call__(self, q, qd, qdd, gravity, f_ext):
            assert f_ext.shape == (panda.nbodies, 6)
            if len(q) > 1 or q.any():
                raise np.linalg.LinAlgError("one state with q = 0")
            return {"tau": q + f_ext.sum()}

    runner = dynamics_runner(SingleState(), dn.inverse_dynamics(panda), wrenches=True)
    function = Function(signature=robot_signature(panda), runner=runner)
    q = np.zeros((panda.nbodies, panda.nv))
    q[2] = 1.0
    torques = function(q, q[0], q[0], np.ones((panda.nbodies, 6)), panda.gravity, errors="nan")
    assert np.isnan(torques).any(axis=1).tolist() == [k == 2 for k in range(panda.nbodies)]
    assert np.all(torques[[0, 6]] == 6.0 * panda.nbodies)


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_gravity_may_follow_the_other_arguments(panda, backend):
    gravity_torque = dn.build(panda, "gravity_torque", backend=backend)
    q, gravity, out = np.full(7, 0.3), np.array([1.0, 2.0, 3.0]), np.empty(7)
    expected = gravity_torque(q, gravity=gravity)
    assert np.array_equal(gravity_torque(q, gravity), expected)
    assert np.array_equal(gravity_torque(q[None], gravity), expected[None])
    assert gravity_torque(q, gravity, out=out) is out and np.array_equal(out, expected)


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_error_counts_the_given_arguments(panda, backend):
    q = np.zeros(7)
    for name, arguments, words in (
        (
            "gravity_torque",
            (q, q[:3], q),
            "^gravity_torque takes q and optionally gravity: 3 arguments are given",
        ),
        ("gravity_torque", (), "^gravity_torque takes q and optionally gravity: 0 arguments are given"),
        ("coriolis_torque", (q,), "^coriolis_torque takes q, qd: 1 argument is given"),
        ("mass_matrix", (q, q), "^mass_matrix takes q: 2 arguments are given"),
    ):
        for options in {}, {"out": np.empty(7)}:
            with pytest.raises(TypeError, match=words):
                dn.build(panda, name, backend=backend)(*arguments, **options)


def test_wrong_wrenches_raise(panda):
    with pytest.raises(ValueError, match=r"wrench on 'panda_hand' .*\(\.\.\., 6\), moment first, not \(3,\)"):
        dn.external_wrenches(panda, {"panda_hand": np.zeros(3)})
    for place in (
        {"axes": "world"},
        {"q": np.zeros(7)},
        {"axes": "world", "q": np.zeros(6)},
        {"axes": "body"},
    ):
        with pytest.raises(dn.InputError, match="axes|^q "):
            dn.external_wrenches(panda, {"panda_hand": np.zeros(6)}, **place)
    q = np.zeros(7)
    with pytest.raises(dn.InputError, match="^f_ext is not an array of numbers: use dn.external_wrenches"):
        dn.build(panda, "inverse_dynamics", backend="numpy", f_ext=True)(q, q, q, {"panda_hand": np.zeros(6)})


def test_input_error_names_the_state_of_a_batch(panda):
    q = np.zeros((100, 7))
    q[77, 3] = np.nan
    for batch, state in ((q, "77"), (q.reshape(4, 25, 7), "3, 2")):
        with pytest.raises(
            dn.InputError, match=rf"^q\[3\] \(panda_joint4\) of state {state} is not finite: nan"
        ):
            dn.evaluate(panda, "mass_matrix", batch, backend="numpy")


def test_wrong_robot_or_quantity_raises(panda):
    for build in (dn.build, dn.evaluate):
        with pytest.raises(TypeError, match="^robot must be a Robot, not str: use dn.load_robot"):
            build("panda.urdf", "mass_matrix", backend="numpy")
        with pytest.raises(ValueError, match="^unknown quantity 'gravity'.*gravity_torque"):
            build(panda, "gravity", backend="numpy")
    with pytest.raises(TypeError, match="^what must be the name of a quantity.*not forward_dynamics"):
        dn.build(panda, dn.forward_dynamics)
    with pytest.raises(ValueError, match="^unknown quantity 'x'; there are inverse_dynamics, "):
        dn.build(panda, "x")


def test_one_name_is_a_list_of_one(panda):
    q = np.full(7, 0.3)
    for name, option, value in (
        ("frame_poses", "links", "panda_hand"),
        ("hybrid_dynamics", "forward_joints", "panda_joint2"),
        ("gravity_torque", "runtime_parameters", "inertia"),
    ):
        one, listed = (dn.build(panda, name, backend="numpy", **{option: v}) for v in (value, [value]))
        state = (q,) * (4 if name == "hybrid_dynamics" else 1)
        for result, expected in zip(one(*state), listed(*state), strict=True):
            assert np.array_equal(result, expected)
    assert dn.build(panda, "mass_matrix", backend="numpy", runtime_parameters="inertia").spec.parameters == (
        "inertia",
    )


@pytest.mark.parametrize(
    "choice, words",
    [
        ({"backend": "gpu"}, "^unknown backend 'gpu'; there are auto, numpy, c, cuda, gtsam$"),
        ({"backend": "numpi"}, r"^unknown backend 'numpi'; did you mean numpy\?$"),
        (
            {"solver": "cluster", "backend": "gtsam"},
            "^solver 'cluster' does not run on backend 'gtsam', but on",
        ),
        ({"solver": "factor_graph", "ordering": "colmd"}, r"^unknown ordering 'colmd'; did you mean colamd"),
    ],
)
def test_choice_error_is_short(panda, choice, words):
    with pytest.raises(dn.ChoiceError, match=words):
        dn.build(panda, "inverse_dynamics", **choice)
