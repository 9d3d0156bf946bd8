"""Backend opencl on PoCL: the same bits as the C build of the same text, the results of backend c, and all that a
Function does."""

import os
import pickle
import signal
import sys

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the robots: pip install pin")
pytest.importorskip("pyopencl", reason="pip install pyopencl pocl-binary-distribution")

import test_functions
from robots import ROBOTS, random_states
from test_functions import arrays, quotient
from text_in_c import built
from text_in_opencl import ran
from tolerances import error

import dynamics_node as dn
from dynamics_node.backends import CompileError, DeviceError, make
from dynamics_node.backends.c import kernel as one_state
from dynamics_node.backends.opencl import OpenClRunner, devices, launch
from dynamics_node.backends.opencl.devices import NAMED, Opened, opened
from dynamics_node.backends.opencl.launch import Launch
from dynamics_node.backends.results import returned
from dynamics_node.backends.text import Variant, kernel
from dynamics_node.loops.first_positions import closed_samples
from dynamics_node.program import trace
from dynamics_node.programs import limbs, recursive_programs
from dynamics_node.robots import five_bar

POCL = "Portable Computing Language"
try:
    opened(POCL)
except DeviceError as why:
    pytest.skip(f"{why}: pip install pocl-binary-distribution", allow_module_level=True)

PROBLEMS = {"inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics}
MANY = 200


@pytest.fixture(autouse=True)
def on_pocl(monkeypatch):
    """PoCL, also where there are other devices; Programs are compiled in one way."""
    monkeypatch.setenv(NAMED, POCL)
    monkeypatch.setattr(one_state, "QUICK", 0)
    monkeypatch.setattr(limbs, "MANY", 0)


# --- bits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("robot", "problem", "way", "variant"),
    [
        ("panda7", "forward", "crba + solve", Variant("float", "rows")),
        ("panda7", "forward", "crba + solve", Variant("double", "columns")),
        ("panda7", "inverse", "rnea", Variant("double", "rows", shared_memory=0)),
        ("solo12", "inverse", "rnea", Variant("float", "columns", 64)),
        ("solo12", "inverse", "rnea", Variant("double", "rows", 32)),
        ("five_bar", "forward", "c-aba", Variant("float", "rows")),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value[:2]),
)
def test_the_same_bits_as_the_c_build(robot, problem, way, variant):
    robot = dn.parse_robot(five_bar()) if robot == "five_bar" else ROBOTS[robot].model()
    program = recursive_programs(robot, PROBLEMS[problem](robot))[way]
    made = kernel(program, variant, ("gravity",), robot.quaternion_places)
    random = np.random.default_rng(0)
    for count in (1, 31, 128, 129, 1000):
        inputs = {n: random.uniform(-1, 1, (count, *shape)) for n, shape in program.inputs.items()}
        inputs["gravity"] = robot.gravity
        inputs["q"] = (
            random_states(robot, count)[0]
            if isinstance(robot, dn.Model)
            else closed_samples(robot, 10, random)[random.integers(10, size=count)]
        )
        inputs = {name: array.astype(variant.dtype) for name, array in inputs.items()}
        found = ran(opened(POCL), made, count, inputs, returned(program))
        for name, right in built(made)(count, inputs, returned(program)).items():
            assert np.isfinite(right).any()
            np.testing.assert_array_equal(found[name], right)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_runner_gives_the_bits_of_its_text_in_any_chunks(precision):
    robot = ROBOTS["panda7"].model()
    program = recursive_programs(robot, dn.forward_dynamics(robot))["aba"]
    q, qd, tau, _ = (a.astype(precision) for a in random_states(robot, 1000))
    inputs = dict(q=q, qd=qd, tau=tau, gravity=robot.gravity.astype(precision))
    beside = make(program, "c")
    whole = OpenClRunner(program, beside, device=POCL)
    parts = OpenClRunner(program, beside, device=POCL, memory=300 * 28 * q.itemsize)
    (right,), good = whole.run(1000, [*inputs.values()], precision)
    (found,), same = parts.run(1000, [*inputs.values()], precision)
    (launch,) = parts._launches.values()
    assert launch._most_states() == 300 and good and same
    np.testing.assert_array_equal(found, right)
    (bits,) = built(launch.kernel)(1000, inputs, returned(program)).values()
    np.testing.assert_array_equal(found, bits)


def test_pieces_are_copied_beside_each_other(monkeypatch):
    """Over two queues in turn, two at a time."""
    monkeypatch.setattr(launch, "LEAST_STATES", 64)
    cl, (x, m) = devices.pyopencl(), arrays(1000)
    right = dn.function(quotient(), "c")(x, m)
    run, wait, queues, ahead = Launch._piece, cl.wait_for_events, [], [0]

    def piece(self, queue, *arguments):
        queues.append(queue)
        ahead.append(ahead[-1] + 1)
        return run(self, queue, *arguments)

    def waited(events):
        ahead.append(ahead[-1] - 1)
        return wait(events)

    monkeypatch.setattr(Launch, "_piece", piece)
    monkeypatch.setattr(cl, "wait_for_events", waited)
    for found, expected in zip(dn.function(quotient(), "opencl")(x, m), right, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert len(queues) == launch.PIECES and queues[0] is not queues[1] and queues[2] is queues[0]
    assert max(ahead) == 2 and ahead[-1] == 0


def test_after_a_failure_nothing_writes_to_arrays(monkeypatch):
    """The piece that is under way is waited for."""
    monkeypatch.setattr(launch, "LEAST_STATES", 64)
    cl, (x, m), finished = devices.pyopencl(), arrays(1000), []
    on, run = opened(POCL), Launch._piece

    class Queue:
        def __init__(self, name):
            self.name = name

        def finish(self):
            finished.append(self.name)

    def piece(self, queue, *arguments):
        if queue.name == "second":
            raise cl.MemoryError("clEnqueueWriteBuffer failed: OUT_OF_RESOURCES")
        return run(self, on.queue, *arguments)

    monkeypatch.setattr(Launch, "_piece", piece)
    started = Launch(
        on._replace(queue=Queue("first"), beside=Queue("second")),
        kernel(quotient(), Variant("double", "rows", 32)),
    )
    outputs = {name: np.empty((1000, *shape)) for name, shape in returned(quotient()).items()}
    with pytest.raises(DeviceError, match="OUT_OF_RESOURCES"):
        started(1000, {"x": x, "m": m}, outputs)
    assert finished == ["first", "second"]
    on.queue.finish()


# --- what a Function does ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", test_functions.COUNTS)
def test_any_number_of_states(count):
    test_functions.test_any_number_of_states("opencl", count)


def test_any_shape_of_the_batch():
    test_functions.test_any_shape_of_the_batch("opencl")


@pytest.mark.parametrize("count", [5, 100])
def test_bad_states_are_nan_and_the_others_right(count):
    test_functions.test_bad_states_are_nan_and_the_others_right("opencl", count)


linkage = test_functions.linkage


def test_one_wrench_for_all_states(linkage):
    test_functions.test_one_wrench_for_all_states(linkage, "opencl")


@pytest.mark.parametrize("name", ["mass_matrix", "bias"])
def test_quantities_follow_a_payload(linkage, name):
    test_functions.test_quantities_follow_a_payload(linkage, name, "opencl")


def test_a_function_is_pickled_with_all_it_has():
    function, (x, m) = dn.function(quotient((100.0,)), "opencl"), arrays(MANY)
    right = function(x, m)
    copy = pickle.loads(pickle.dumps(function))
    assert all(np.array_equal(a, b) for a, b in zip(copy(x, m), right, strict=True))
    assert copy.runner.backend == "opencl" and copy.runner.device.startswith(POCL)


@pytest.mark.parametrize(
    ("kind", "precision"), [("inverse", "float64"), ("forward", "float32"), ("hybrid", "float64")]
)
def test_dynamics_of_a_tree(kind, precision):
    arm = ROBOTS["panda7"].model()
    q, qd, u, f_ext = random_states(arm, MANY)
    forward = (arm.joint_names[::2],) if kind == "hybrid" else ()
    problem = getattr(dn, f"{kind}_dynamics")(arm, *forward)
    compare(arm, problem, precision, (q, qd, u, u) if kind == "hybrid" else (q, qd, u), f_ext)


@pytest.mark.parametrize(("kind", "precision"), [("inverse", "float32"), ("forward", "float64")])
def test_dynamics_of_a_linkage(linkage, kind, precision):
    mechanism, state, push = linkage
    compare(mechanism, PROBLEMS[kind](mechanism), precision, state, push)


def compare(robot, problem, precision, state, wrenches):
    """Batches are the device's, with wrenches too; a few states and one are those of C."""
    found, right = (dn.build(robot, problem, backend=b, precision=precision) for b in ("opencl", "c"))
    exact = right if precision == "float64" else dn.build(robot, problem, backend="c")
    assert found.choice.backend == "opencl" and found.runner.device.startswith(POCL)
    for push in (None, wrenches):
        for some in (slice(None), slice(3), 0):
            given = *(a[some] for a in state), None if push is None else push[some]
            results = (f(*given) for f in (found, right, exact))
            for a, b, c in zip(*(r if isinstance(r, tuple) else (r,) for r in results), strict=True):
                assert error(a, c).max() <= (1e-9 if precision == "float64" else 1e-3)
                assert a.dtype == precision and (some == slice(None) or np.array_equal(a, b))


def test_far_angles_are_answered_by_c(linkage):
    arm = ROBOTS["panda7"].model()
    q, qd, tau, _ = random_states(arm, MANY)
    for precision, far in (("float64", 1e6), ("float32", 1e4)):
        solver, right = (
            dn.build(arm, dn.forward_dynamics(arm), backend=b, precision=precision) for b in ("opencl", "c")
        )
        state = [a.astype(precision) for a in (q, qd, tau)]
        near = solver(*state)
        state[0][7, 3] = far
        found = solver(*state)
        (bare,) = solver.runner._by_device(MANY, [*state, arm.gravity], np.dtype(precision))
        assert np.isnan(bare[7]).all() and np.isfinite(np.delete(bare, 7, 0)).all()
        assert np.array_equal(np.delete(found, 7, 0), np.delete(near, 7, 0))
        assert error(found[7], right(*(a[7] for a in state))) <= (1e-12 if precision == "float64" else 1e-3)


def test_what_is_the_same_in_all_states_is_looked_at():
    """Gravity that is not finite, a quaternion that is none."""
    base = ROBOTS["solo12"].model()
    solver = dn.build(base, dn.inverse_dynamics(base), backend="opencl")
    q, qd, qdd, _ = random_states(base, MANY)
    right = dn.build(base, dn.inverse_dynamics(base), backend="c")(q[0], qd, qdd)
    assert error(solver(q[0], qd, qdd), right).max() <= 1e-12
    with pytest.raises(dn.InputError, match="gravity"):
        solver(q, qd, qdd, gravity=[0.0, np.nan, 0.0])
    wrong = q[0].copy()
    wrong[3:7] *= 1.001
    with pytest.raises(dn.InputError, match="norm 1.001"):
        solver(wrong, qd, qdd)
    assert np.isnan(solver(wrong, qd, qdd, errors="nan")).all()


# --- what is missing -----------------------------------------------------------------------------------------


def test_a_device_is_chosen_by_name(monkeypatch):
    function = dn.function(quotient(), "opencl")
    assert function.runner.device.startswith(POCL)
    monkeypatch.setenv(NAMED, "no such device")
    with pytest.raises(DeviceError, match=f"'no such device' in its name; there are .*{POCL}"):
        dn.function(quotient(), "opencl")


def test_a_gpu_is_preferred_and_a_simulator_is_not():
    kinds = opened(POCL).cl.device_type

    class Device:
        def __init__(self, kind):
            self.type = kind

    everything = Device(kinds.GPU | kinds.CPU | kinds.ACCELERATOR | kinds.DEFAULT)
    gpu, cpu = Device(kinds.GPU), Device(kinds.CPU | kinds.DEFAULT)
    ranked = sorted((everything, cpu, gpu), key=lambda device: devices._rank(opened(POCL).cl, device))
    assert ranked == [gpu, cpu, everything]


def test_without_pyopencl_the_message_says_what_to_install(monkeypatch):
    devices._opened.cache_clear()
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(ImportError, match="pip install pyopencl"):
        dn.function(quotient(), "opencl")


def test_without_a_platform_the_message_says_what_to_install(monkeypatch):
    cl = devices.pyopencl()

    def none():
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    devices._opened.cache_clear()
    monkeypatch.setattr(cl, "get_platforms", none)
    with pytest.raises(DeviceError, match="PLATFORM_NOT_FOUND.*pocl-opencl-icd"):
        dn.function(quotient(), "opencl")
    monkeypatch.setattr(cl, "get_platforms", list)
    with pytest.raises(DeviceError, match="no platform has a device"):
        dn.function(quotient(), "opencl")


def test_a_device_without_float64(monkeypatch):
    """It says so for float64; for float32 C computes what needs more digits."""
    monkeypatch.setattr(Opened, "doubles", property(lambda on: False))
    with pytest.raises(DeviceError, match="has no float64: ask for precision='float32'"):
        dn.function(quotient(), "opencl")
    function, (x, m) = dn.function(quotient(), "opencl", precision="float32"), arrays(MANY)
    x, m = x.astype(np.float32), m.astype(np.float32)
    m[3, 0, 0] = 0
    found = function(x, m, errors="nan")
    assert np.isnan(found[1]).any(axis=1).nonzero()[0].tolist() == [3]
    with pytest.raises(dn.SolutionError):
        function(x, m)


def test_a_device_that_fails_is_told_once_and_the_cpu_goes_on(monkeypatch, caplog):
    """Out of memory, a kernel that does not compile."""
    cl, (x, m) = devices.pyopencl(), arrays(MANY)
    right = dn.function(quotient(), "c")(x, m)
    function = dn.function(quotient(), "opencl")

    def refused(*_, **__):
        raise cl.MemoryError("clCreateBuffer failed: MEM_OBJECT_ALLOCATION_FAILURE")

    with monkeypatch.context() as broken:
        broken.setattr(cl, "Buffer", refused)
        for _ in range(2):
            assert all(np.array_equal(a, b) for a, b in zip(function(x, m), right, strict=True))
    assert [r.message for r in caplog.records if "the CPU goes on" in r.message] == [
        f"{opened(POCL).name} failed: clCreateBuffer failed: MEM_OBJECT_ALLOCATION_FAILURE; the CPU goes on"
    ]
    assert all(np.allclose(a, b, rtol=1e-14) for a, b in zip(function(x, m), right, strict=True))


def test_a_forked_process_goes_on_with_the_cpu():
    """It would wait for threads that its parent has."""
    function, (x, m) = dn.function(quotient(), "opencl"), arrays(MANY)
    function(x, m)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        found = function(x, m)
        right = dn.function(quotient(), "c")(x, m)
        os._exit(not all(np.array_equal(a, b) for a, b in zip(found, right, strict=True)))
    assert os.waitpid(child, 0)[1] == 0


def test_a_kernel_that_does_not_compile_tells_why():
    program = trace(lambda x: {"y": x * 2.0}, {"x": (1,)})
    broken = kernel(program)._replace(text="this is no kernel")
    with pytest.raises(CompileError, match=r"Portable.* did not compile a kernel: .*error"):
        Launch(opened(POCL), broken)
