"""Arguments of wrong kinds: the error names the argument, and no number is changed in silence."""

import re
from functools import cache

import numpy as np
import pytest
from cart_pole import CART
from robots import robot_of

import dynamics_node as dn

WRONG = {
    "a text": "a",
    "bytes": b"a",
    "a complex number": 1j,
    "a complex array": np.zeros(2, dtype=complex),
    "not a number": np.nan,
    "an object": object(),
    "a function": lambda *_: 0,
    "rows of two lengths": [[1.0, 2.0], [3.0]],
    "a mapping": {"slide": None},
    "a mapping of mappings": {"slide": {"max_effort": None}},
    "numbers as texts": {"slide": {"max_effort": "a"}},
    "dates": np.array(["2020-01-01"], dtype="datetime64[s]"),
    "many axes": np.zeros((2, 1, 2, 3)),
    "a negative number": -1,
}
NUMBERS = ("a negative number", "not a number")  # for which some arguments have a meaning
BATCHES = ("many axes",)
STILL = np.zeros((2, 2))
TIME, CURVE = np.linspace(0.0, 0.1, 4), np.zeros((4, 2))


@cache
def cart():
    return dn.parse_robot(CART)


@cache
def forward():
    return dn.build(cart(), "forward_dynamics", backend="numpy")


def points():
    return dn.JointTrajectory(("slide", "hinge"), [0.0, 1.0], [[0.0, 0.0], [0.1, 0.0]], STILL, STILL)


def check():
    return dn.check_trajectory(cart(), points(), backend="numpy")


def arm(**more):
    q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.8])
    return {"robot": robot_of("panda7"), "link": "panda_hand", "q": q, "backend": "numpy"} | more


@cache
def made(which):
    if which == "filter":
        return dn.JointFilter(cart(), 1e-4, 1.0, backend="numpy")
    options = dn.ObserverOptions(velocity_std=1e-3, torque_std=0.1)
    return dn.build_observer(cart(), options, backend="numpy")


def moving(which):
    """A step after the first one."""

    def step(**arguments):
        thing = made(which)
        thing.reset()
        thing.step(0.0, *[np.zeros(2)] * (3 if which == "observer" else 1))
        return thing.step(**arguments)

    return step


OPTIONS = {
    "q0": np.zeros(2),
    "limits": {},
    "friction": True,
    "gravity": np.zeros(3),
    "rate": 50.0,
    "backend": "numpy",
}
CALLS = {  # name: function, arguments, (argument, kinds) that are not wrong
    "check_trajectory": (dn.check_trajectory, lambda: {"robot": cart(), "trajectory": points(), **OPTIONS, "thermal_window": 1.0}, {}),
    "scale_trajectory": (
        dn.scale_trajectory,
        lambda: {"robot": cart(), "trajectory": points(), **OPTIONS, "method": "uniform"},
        {},
    ),
    "stopping_trajectory": (
        dn.stopping_trajectory,
        lambda: {
            "robot": cart(), "q": np.array([0.0, 0.3]), "qd": np.array([0.1, 0.2]), "qdd": np.zeros(2),
            "limits": {}, "links": ["cart"], "longest": 5.0, "friction": True, "gravity": np.zeros(3),
            "backend": "numpy",
        },
        {},
    ),
    "stop_on_path": (
        dn.stop_on_path,
        lambda: {
            "robot": cart(), "trajectory": points(), "time": 0.5, "q0": np.array([0.0, 0.3]), "limits": {},
            "links": ["cart"], "longest": 5.0, "friction": True, "gravity": np.zeros(3), "backend": "numpy",
        },
        {},
    ),
    "stopping_table": (
        dn.stopping_table,
        lambda: {
            "robot": cart(), "qd": np.array([0.1, 0.2]), "positions": np.zeros((1, 2)), "payloads": [],
            "limits": {}, "longest": 5.0, "friction": True, "gravity": np.zeros(3), "seed": 0, "backend": "numpy",
        },
        {},
    ),
    "retimed": (lambda **own: check().retimed(**own), lambda: {"trajectory": points(), "limits": {}}, {}),
    "largest_payload": (lambda **own: check().largest_payload(**own), lambda: {"link": "cart", "com": np.zeros(3)}, {}),
    "JointTrajectory": (
        dn.JointTrajectory,
        lambda: {name: getattr(points(), name) for name in ("names", "time", "q", "qd", "qdd")},
        {"names": ("a mapping of mappings", "numbers as texts", "a mapping", "bytes")},
    ),
    "slowed": (lambda **own: points().slowed(**own), lambda: {"factor": 2.0}, {}),
    "at": (lambda **own: points().at(**own), lambda: {"time": [0.5]}, {"time": NUMBERS + BATCHES}),
    "count": (lambda **own: points().count(**own), lambda: {"rate": 100.0}, {}),
    "capability": (
        dn.capability,
        lambda: arm(qd=np.zeros(7), qdd=np.zeros(7), axes="xyz", reference="body", limits={}, friction=True, gravity=np.zeros(3)),
        {},
    ),
    "effective_mass": (dn.effective_mass, lambda: arm(direction=[1.0, 0.0, 0.0], reference="body"), {}),
    "manipulability": (dn.manipulability, lambda: arm(axes="xyz", reference="body"), {}),
    "rollout": (
        lambda **own: forward().rollout(**own),
        lambda: {"q0": np.zeros(2), "qd0": np.zeros(2), "controls": STILL, "dt": 0.01, "integrator": "rk4"},
        {},
    ),
    "simulate": (
        dn.simulate,
        lambda: {
            "robot": cart(), "q0": np.zeros(2), "qd0": np.zeros(2), "duration": 0.01, "torque": np.zeros(2),
            "lag_steps": 2, "friction": True, "backend": "numpy", "dt": 0.01,
        },
        {"torque": ("a function",)},
    ),
    "inverse_trajectory": (
        dn.inverse_trajectory,
        lambda: {
            "robot": cart(), "time": TIME, "q": CURVE, "qd": CURVE, "qdd": CURVE, "stds": (1.0, 1.0, 1.0),
            "integrated": 1e-3, "backend": "numpy",
        },
        {},
    ),
    "smooth": (
        dn.smooth,
        lambda: {
            "robot": cart(), "time": TIME, "readings": {"q": CURVE}, "options": dn.SmootherOptions(), "lag_steps": 2,
            "q0": np.zeros(2), "backend": "numpy",
        },
        {},
    ),
    "JointFilter": (
        dn.JointFilter,
        lambda: {
            "joints": cart(), "position_std": 1e-3, "jerk_density": 1.0, "first_std": (1.0, 1.0), "longest_gap": 0.1,
            "backend": "numpy",
        },
        {},
    ),
    "a step of a JointFilter": (moving("filter"), lambda: {"time": 0.01, "position": np.zeros(2)}, {"time": NUMBERS[:1]}),
    "ObserverOptions": (
        dn.ObserverOptions,
        lambda: {
            "velocity_std": 1e-3, "torque_std": 0.1, "model_std": 0.1, "bandwidth": 30.0, "components": ("force.x",),
            "velocity_correlation_time": 0.01,
        },
        {},
    ),
    "build_observer": (
        dn.build_observer,
        lambda: {
            "robot": cart(), "options": dn.ObserverOptions(velocity_std=1e-3, torque_std=0.1), "backend": "numpy",
        },
        {},
    ),
    "a step of an observer": (
        moving("observer"),
        lambda: {
            "time": 0.01, "q": np.zeros(2), "qd": np.zeros(2), "tau": np.zeros(2), "velocity_variance": np.ones(2),
            "gravity": np.zeros(3),
        },
        {"time": NUMBERS[:1]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_error_names_the_argument(name):
    call, arguments, allowed = CALLS[name]
    call(**arguments())
    for argument in arguments():
        for kind in WRONG.keys() - set(allowed.get(argument, ())):
            with pytest.raises((ValueError, KeyError, TypeError)) as error:
                call(**(arguments() | {argument: WRONG[kind]}))
            first = argument.partition("_")[0]
            assert re.search(rf"\b{first}", str(error.value)), f"{argument} is {kind}: {error.value}"


@pytest.mark.parametrize("framework", ["jax", "torch", "casadi"])
@pytest.mark.parametrize("order", [-1, 3, 1.0, "1", None])
def test_orders_of_derivatives(framework, order):
    pytest.importorskip(framework, reason=f"pip install {framework}")
    function = dn.build(cart(), "mass_matrix", backend="numpy")
    with pytest.raises(ValueError, match="order"):
        getattr(function, framework)(order)


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_complex_arguments_of_frameworks(framework):
    """They have no imaginary part to lose, also inside a traced function."""
    module = pytest.importorskip(framework, reason=f"pip install {framework}")
    function = getattr(dn.build(cart(), "inverse_dynamics", backend="numpy"), framework)()
    for q in (np.full(2, 0.1 + 0.2j), np.zeros(2, dtype=np.complex64)):
        given = {"q": q, "qd": np.zeros(2), "qdd": np.zeros(2)}
        with pytest.raises(dn.InputError, match="q is complex"):
            function(**given) if framework == "jax" else function(
                **{k: module.as_tensor(v) for k, v in given.items()}
            )
