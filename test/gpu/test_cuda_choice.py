"""The choice of kernels without a device, and where the device takes batches by itself."""

import pickle

import numpy as np
import pytest
from fake_cuda import FakeNvrtc
from gpu_programs import on_cpu, parameters, states, swinging
from robots import ROBOTS, random_states

import dynamics_node as dn
from dynamics_node.algorithms import aba, recursive_programs
from dynamics_node.codegen import CompileError, make
from dynamics_node.codegen.cuda import choice, lanes
from dynamics_node.codegen.cuda import runner as crossover
from dynamics_node.codegen.cuda.choice import Orders, choose, orders_of, processor_of, resident_warps
from dynamics_node.codegen.cuda.nvrtc import Resources
from dynamics_node.codegen.printer import Variant, kernel
from dynamics_node.robot.inertial_parameters import with_parameters

DOUBLE = np.dtype(np.float64)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def taking(registers, spilled=0, shared=0):
    return Resources(registers, spilled, spilled, shared, spilled)


@pytest.mark.parametrize(
    ("arch", "block", "taken", "resident"),
    [  # of NVIDIA's occupancy calculator
        (90, 128, taking(64), 32),
        (90, 128, taking(32), 64),
        (90, 128, taking(72), 28),
        (90, 128, taking(168), 12),
        (90, 64, taking(255), 8),
        (90, 128, taking(255), 8),
        (90, 128, taking(64, shared=48 * 1024), 16),
        (120, 128, taking(32), 48),
        (86, 128, taking(32), 48),
        (80, 32, taking(64), 32),
        (80, 64, taking(32), 64),
        (90, 128, taking(32, shared=48 * 1024), 16),
        (75, 128, taking(32), 32),
        (90, 64, taking(16), 64),
    ],
)
def test_warps_of_a_multiprocessor(arch, block, taken, resident):
    assert resident_warps(processor_of(arch), taken.registers, block, taken.shared) == resident


def test_architectures_that_nobody_knew_are_like_those_before():
    of = processor_of
    assert of(103) == of(100) and of(121) == of(120) and of(60) == of(75) and of(120) != of(100)


class Imagined(FakeNvrtc):
    """Tells what a test says of a variant of a text."""

    def __init__(self, fake, told):
        super().__init__(fake)
        self.told = told

    def cubin(self, text, arch, options=()):
        cubin = super().cubin(text, arch, options)
        return cubin._replace(kernels=dict.fromkeys(cubin.kernels, self.told(text)))


def _chosen(nvrtc, orders=None):
    return choose(Orders(orders or {"trace": swinging()}, kernel), Variant(), nvrtc, 90)


def test_without_spills_and_with_many_warps_nothing_else_is_tried(fake):
    nvrtc = Imagined(fake, lambda text: taking(64))
    chosen = _chosen(nvrtc)
    assert chosen.kernel.variant == Variant() and len(nvrtc.compiled) == 1
    assert chosen.kernel.text == "" and chosen.order == "trace"


@pytest.mark.parametrize(("after", "spills"), [(0, True), (4000, False)])
def test_spills_go_to_shared_memory_where_that_helps(fake, after, spills):
    nvrtc = Imagined(fake, lambda text: taking(255, after if "SPILL_TO_SHARED 1" in text else 900))
    variant = _chosen(nvrtc).kernel.variant
    assert (variant.spill_to_shared, variant.block) == ((True, 64) if spills else (False, 128))


@pytest.mark.parametrize(("after", "bounded"), [(0, True), (4, False)])
def test_few_warps_ask_for_fewer_registers_where_that_helps(fake, after, bounded):
    def told(text):
        return taking(168, after) if "LEAST_BLOCKS 3" in text else taking(224)

    assert _chosen(Imagined(fake, told)).kernel.variant.least_blocks == 3 * bounded


def test_the_better_order_is_taken(fake):
    other = swinging()
    texts = []

    def told(text):
        texts.append(text)
        return taking(224 if len(texts) == 1 else 64)

    class OneAfterTheOther(choice.ThreadPoolExecutor):
        def __init__(self, workers):
            super().__init__(1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "ThreadPoolExecutor", OneAfterTheOther)
        chosen = _chosen(Imagined(fake, told), {"trace": swinging(), "limbs": other})
    assert chosen.order == "limbs"


def test_what_was_chosen_is_noted(fake):
    def told(text):
        return taking(255, 0 if "SPILL_TO_SHARED 1" in text else 900)

    first = _chosen(Imagined(fake, told))
    again = Imagined(fake, told)
    assert _chosen(again) == first and len(again.compiled) == 1
    elsewhere = Imagined(fake, told)
    elsewhere.version = (12, 9)  # has no such spills
    assert _chosen(elsewhere).kernel.variant == Variant() and len(elsewhere.compiled) == 2


def test_a_kernel_without_spills_comes_first(fake):
    """However few warps it leaves."""
    spilling = _chosen(Imagined(fake, lambda text: taking(255, 0 if "SPILL_TO_SHARED 1" in text else 4)))
    assert spilling.kernel.variant.spill_to_shared


def test_spills_that_fall_out_of_caches_cost_what_memory_takes(fake):
    """8 warps at 255 registers: 256 threads on a multiprocessor."""

    def trial(spilled):
        made = kernel(swinging(), Variant())
        cubin = FakeNvrtc(fake, taking(255, spilled)).cubin(made.text, 90)
        return choice.Trial(choice.Chosen(made, "trace", cubin), processor_of(90))

    few, some, many = trial(400), trial(600), trial(6000)
    assert few.warps == 8 and (few.moved, some.moved, many.moved) == (0, 1200, 12000)
    assert few.cycles < some.cycles == 1200 * 32 / choice.BYTES_A_CYCLE < many.cycles
    assert choice.best([many, few, some]) is few and choice.best([many, some]) is some
    assert choice.best([few, trial(0)]).spilled == 0


def test_orders_that_keep_more_alive_are_not_tried(monkeypatch):
    alive = iter([100, 60, 77])
    monkeypatch.setattr(choice, "most_alive", lambda program: next(alive))
    assert list(orders_of(swinging(), swinging(), {})) == ["limbs", "depth_first"]
    monkeypatch.setattr(choice, "most_alive", lambda program: 7)
    assert list(orders_of(swinging(), None, {})) == ["trace", "depth_first"]


def test_rivals_with_many_more_operations_are_not_tried():
    robot = ROBOTS["solo12"].model()
    ways = recursive_programs(robot, dn.forward_dynamics(robot))
    recursion, through_matrix = ways["aba"], ways["crba + solve"]
    assert 1.0 < len(through_matrix.ops) / len(recursion.ops) < 1.25
    found = orders_of(recursion, None, {"matrix": (through_matrix, None)})
    assert [name for name in found if "matrix" in name] == ["matrix, trace", "matrix, depth_first"]
    assert found["matrix, trace"] is through_matrix
    (short,) = recursive_programs(robot, dn.inverse_dynamics(robot)).values()
    assert not any("matrix" in name for name in orders_of(short, None, {"matrix": (through_matrix, None)}))


def test_forward_dynamics_goes_the_other_way_where_that_takes_fewer_cycles(fake, monkeypatch):
    """Or by ABA: whatever a build on the CPU takes; with pushes and other inertias, too."""
    robot = ROBOTS["double_pendulum"]._replace(floating_base=True).model()
    tried = []

    def cycles(code, processor, warps):
        tried.append(code)
        return 1.0 / len(tried)  # the last one that is tried is the best

    monkeypatch.setattr(choice, "cycles_of_a_warp", cycles)
    solver = dn.build(robot, dn.forward_dynamics(robot), backend="cuda", runtime_parameters=("inertia",))
    (other,) = {"aba", "crba + solve"} - {solver.description}
    q, qd, tau, push = random_states(robot, 70)
    found = solver(q, qd, tau)
    (chosen,) = solver.runner._chosen.values()
    assert chosen.order == f"{other}, depth_first"
    changed = with_parameters(robot, 1.1 * robot.inertias, robot.armature)
    pairs = [(found, aba(robot, q, qd, tau)[0])]
    pairs.append((solver.with_inertias(changed)(q, qd, tau), aba(changed, q, qd, tau)[0]))
    pairs.append((solver(q, qd, tau, push), aba(robot, q, qd, tau, f_ext=push)[0]))
    for one, expected in pairs:
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-9 * abs(expected).max())
    assert len(fake.launches) == 3
    again = pickle.loads(pickle.dumps(solver))
    np.testing.assert_array_equal(again(q, qd, tau), found)


def test_what_is_too_long_is_told(fake, monkeypatch):
    monkeypatch.setattr(choice, "MOST_OPERATIONS", 3)
    with pytest.raises(CompileError, match=r"\d+ operations.*too many"):
        _chosen(FakeNvrtc(fake))


# --- auto ---------------------------------------------------------------------------------------------------


def test_the_first_size_from_which_the_device_is_faster():
    there, here = {1: 5.0, 2: 5.0, 4: 5.0}, {1: 4.0, 2: 6.0, 4: 9.0}
    assert crossover.first_faster(there, here) == 2
    assert crossover.first_faster(here, there) == crossover.NEVER
    assert crossover.first_faster(there, here | {4: 1.0}) == crossover.NEVER


@pytest.mark.parametrize("faster", [True, False])
def test_auto_takes_the_device_where_it_was_measured_to_be_faster(fake, monkeypatch, faster):
    monkeypatch.setattr(crossover, "SIZES", (4096, 8192))
    monkeypatch.setattr(crossover, "first_faster", lambda there, here: 8192 if faster else crossover.NEVER)
    runner = make(swinging(), "auto", parameters())
    assert runner.backend == "c" and fake.calls == 0  # not even whether there is a device
    runner.call_batch(1000, states(1000), DOUBLE)
    assert fake.calls == 0
    for count in (5000, 9000):
        found = runner.call_batch(count, states(count), DOUBLE)
        for a, b in zip(found, on_cpu().call_batch(count, states(count), DOUBLE), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        measured = sum(number for _, number, _ in fake.launches) - 4 * (4096 + 8192)
        assert measured == (count if faster and count == 9000 else 0)


def test_what_was_measured_is_noted(fake, monkeypatch):
    monkeypatch.setattr(crossover, "SIZES", (4096,))
    runner = make(swinging(), "auto", parameters())
    runner.call_batch(5000, states(5000), DOUBLE)
    launched = len(fake.launches)
    assert launched >= 4
    monkeypatch.setattr(crossover, "measured", None)  # nobody measures again
    again = make(swinging(), "auto", parameters())
    assert again.call_batch(4096, states(4096), DOUBLE) is not None


def test_auto_stays_on_the_cpu_after_the_device_is_lost(fake, monkeypatch, caplog):
    monkeypatch.setattr(crossover, "SIZES", (4096,))
    runner = make(swinging(), "auto", parameters())
    fake.fail(20, lasts=True)
    for _ in range(2):
        found = runner.call_batch(5000, states(5000), DOUBLE)
        np.testing.assert_allclose(found[0], on_cpu().call_batch(5000, states(5000), DOUBLE)[0], rtol=1e-12)
    assert runner.backend == "c" and "is lost, and the CPU goes on" in caplog.text
    monkeypatch.setattr(lanes, "run", None)
    runner.call_batch(5000, states(5000), DOUBLE)


def test_states_of_a_trial_have_results(fake):
    """Else it would measure what is done about states without one."""
    robot = ROBOTS["double_pendulum"]._replace(floating_base=True).model()
    runner = dn.build(robot, dn.forward_dynamics(robot), backend="cuda").runner
    batch = runner.example(200, DOUBLE)
    found = runner.compute(batch, runner.chosen(DOUBLE, "rows", batch.same.keys()))
    assert np.isfinite(found[0]).all() and set(batch.same) == {"gravity"}
