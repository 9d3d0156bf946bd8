"""Backend cuda of robots: what users call, with arrays of NumPy and with arrays on the device."""

import pickle

import numpy as np
import pytest
from robots import ROBOTS

import dynamics_node as dn
from dynamics_node.codegen.cuda import DeviceArray
from dynamics_node.robot.state_arrays import sample_positions

COUNT = 200


@pytest.fixture(scope="module")
def arm():
    return ROBOTS["double_pendulum"].model()


@pytest.fixture(scope="module")
def floating():
    return ROBOTS["double_pendulum"]._replace(floating_base=True).model()


def states(model, seed=0):
    random = np.random.default_rng(seed)
    q = sample_positions(model, COUNT, random)
    return (q, *(random.uniform(-1, 1, (COUNT, model.nv)) for _ in range(2)))


def there(*arrays):
    return [DeviceArray.of(array) for array in arrays]


def close(found, expected, tolerance=1e-9):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def both(model, make, **options):
    """The same by cuda and by c."""
    return [make(model, backend=backend, **options) for backend in ("cuda", "c")]


def forward(model, **options):
    return dn.build(model, dn.forward_dynamics(model), **options)


def test_a_batch_runs_there_and_one_state_here(fake, arm):
    gpu, cpu = both(arm, forward)
    given = states(arm)
    assert gpu.choice.backend == "cuda"
    close(gpu(*given), cpu(*given))
    assert len(fake.launches) == 1
    close(gpu(*(array[0] for array in given)), cpu(*(array[0] for array in given)))
    close(gpu(*(array[:9] for array in given)), cpu(*(array[:9] for array in given)))
    assert len(fake.launches) == 1


def test_axes_and_places_for_results_are_as_ever(fake, arm):
    gpu, cpu = both(arm, forward)
    q, qd, tau = (array.reshape(20, 10, -1) for array in states(arm))
    out = np.empty(qd.shape)
    assert gpu(q, qd, tau, out=out) is out
    close(out, cpu(q, qd, tau))
    close(gpu(q, qd[0], tau), cpu(q, qd[0], tau))


def test_float32(fake, arm):
    gpu, cpu = both(arm, forward, precision="float32")
    given = [array.astype(np.float32) for array in states(arm)]
    assert gpu(*given).dtype == np.float32
    close(gpu(*given), cpu(*given), 1e-3)


def test_errors_are_told_as_ever(fake, arm):
    gpu, cpu = both(arm, forward)
    q, qd, tau = states(arm)
    qd[7, 1] = np.nan
    with pytest.raises(dn.InputError, match=r"qd\[1\].*finite"):
        gpu(q, qd, tau)
    found = gpu(q, qd, tau, errors="nan")
    close(found, cpu(q, qd, tau, errors="nan"))
    assert np.flatnonzero(np.isnan(found).any(axis=1)).tolist() == [7]


def test_a_floating_base(fake, floating):
    gpu, cpu = both(floating, forward)
    q, qd, tau = states(floating)
    close(gpu(q, qd, tau), cpu(q, qd, tau))
    x = gpu(*there(q, qd, tau))
    close(x.numpy(), cpu(q, qd, tau))
    q[3, 3:7] *= 1.1
    with pytest.raises(dn.InputError, match="norm 1.1"):
        gpu(q, qd, tau)
    with pytest.raises(dn.SolutionError, match="state 3 "):
        gpu(*there(q, qd, tau))


def test_wrenches_and_payloads(fake, arm):
    gpu, cpu = both(arm, forward, runtime_parameters=("inertia",))
    q, qd, tau = states(arm)
    pushes = np.random.default_rng(1).uniform(-1, 1, (COUNT, arm.nbodies, 6))
    close(gpu(q, qd, tau, pushes), cpu(q, qd, tau, pushes))
    close(gpu(*there(q, qd, tau, pushes)).numpy(), cpu(q, qd, tau, pushes))
    heavier = dn.with_payload(arm, arm.bodies[-1].name, 2.0, (0.1, 0.0, 0.2), 0.01 * np.eye(3))
    gpu(q, qd, tau)
    compiled = len(fake.texts)
    close(gpu.with_inertias(heavier)(q, qd, tau), cpu.with_inertias(heavier)(q, qd, tau))
    close(gpu.with_inertias(heavier)(*there(q, qd, tau)).numpy(), cpu.with_inertias(heavier)(q, qd, tau))
    assert len(fake.texts) == compiled


def test_gravity_of_a_call(fake, arm):
    gpu, cpu = both(arm, forward)
    given, g = states(arm), np.array([0.0, 1.0, -3.0])
    close(gpu(*given, gravity=g), cpu(*given, gravity=g))
    close(gpu(*there(*given), gravity=g).numpy(), cpu(*given, gravity=g))


def test_quantities_and_derivatives(fake, arm):
    q, qd, qdd = states(arm)
    masses = [dn.build(arm, "mass_matrix", backend=backend) for backend in ("cuda", "c")]
    close(masses[0](q), masses[1](q))
    found = masses[0](DeviceArray.of(q))
    assert found.shape == (COUNT, 2, 2)
    close(found.numpy(), masses[1](q))
    derivatives = [
        dn.build(arm, "inverse_dynamics_derivatives", backend=backend) for backend in ("cuda", "c")
    ]
    for a, b in zip(derivatives[0](*there(q, qd, qdd)), derivatives[1](q, qd, qdd), strict=True):
        close(a.numpy(), b)


def test_hybrid_dynamics(fake, arm):
    problem = dn.hybrid_dynamics(arm, [arm.v_names[0]])
    gpu, cpu = (dn.build(arm, problem, backend=backend) for backend in ("cuda", "c"))
    q, qd, other = states(arm)
    for a, b in zip(gpu(*there(q, qd, other, qd)), cpu(q, qd, other, qd), strict=True):
        close(a.numpy(), b)


# --- arrays on the device -----------------------------------------------------------------------------------


def test_what_comes_in_decides_what_goes_out(fake, arm):
    gpu, cpu = both(arm, forward)
    given = states(arm)
    found = gpu(*there(*given))
    assert isinstance(found, DeviceArray) and found.dtype == np.float64
    close(found.numpy(), cpu(*given))
    single = gpu(*there(*(array.astype(np.float32) for array in given)))
    assert single.dtype == np.float32
    close(single.numpy(), cpu(*given), 1e-3)
    out = DeviceArray.of(np.zeros((COUNT, arm.nv)))
    assert gpu(*there(*given), out=out) is out
    close(out.numpy(), cpu(*given))


def test_errors_of_states_on_the_device(fake, arm):
    gpu, cpu = both(arm, forward)
    q, qd, tau = states(arm)
    qd[[7, 90], 1] = np.nan
    with pytest.raises(dn.SolutionError, match=r"state 7 .*errors='nan'"):
        gpu(*there(q, qd, tau))
    close(gpu(*there(q, qd, tau), errors="nan").numpy(), cpu(q, qd, tau, errors="nan"))
    with pytest.raises(ValueError, match="errors "):
        gpu(*there(q, qd, tau), errors="ignore")


def test_arrays_of_both_sides_are_an_error(fake, arm):
    gpu, cpu = both(arm, forward)
    q, qd, tau = states(arm)
    with pytest.raises(dn.InputError, match=r"qd .*device"):
        gpu(DeviceArray.of(q), qd, tau)
    with pytest.raises(dn.InputError, match="qd.*backend='cuda'"):
        cpu(q, DeviceArray.of(qd), tau)
    with pytest.raises(dn.InputError, match=r"qd .*\(200, 2\).*\(100, 2\)"):
        gpu(*there(q, qd[:100], tau))


def test_a_lost_device_is_told_where_only_it_could_go_on(fake, arm):
    gpu, cpu = both(arm, forward)
    given = states(arm)
    arrays = there(*given)
    fake.fail(0, lasts=True)
    close(gpu(*given), cpu(*given))
    assert gpu.runner.backend == "c, for cuda is lost"
    with pytest.raises(RuntimeError, match="lost"):
        gpu(*arrays)
    del arrays


def test_pickled_functions(fake, arm):
    gpu, cpu = both(arm, forward)
    given = states(arm)
    gpu(*given)
    again = pickle.loads(pickle.dumps(gpu))
    close(again(*given), cpu(*given))
    close(again(*there(*given)).numpy(), cpu(*given))


def test_any_program(fake, arm):
    program = forward(arm, backend="c").program
    found = dn.compile(program, backend="cuda", defaults={"gravity": arm.gravity})
    given = states(arm)
    close(found(*given), forward(arm, backend="c")(*given))
    close(found(*there(*given)).numpy(), forward(arm, backend="c")(*given))
