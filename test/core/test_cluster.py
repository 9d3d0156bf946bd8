"""Functions, tables and recordings on a cluster by dask: two processes return what one machine returns."""

import os
import pickle
import signal

import numpy as np
import pytest
from robots import ROBOTS, random_states
from tolerances import error

import dynamics_node as dn

dask = pytest.importorskip("dask", reason="clusters: pip install 'dask[array]' distributed")
da = pytest.importorskip("dask.array", reason="clusters: pip install 'dask[array]' distributed")
distributed = pytest.importorskip("distributed", reason="clusters: pip install 'dask[array]' distributed")

AGREEMENT = 1e-13  # chunks may use vector code, rows scalar code


@pytest.fixture(scope="session")
def client():
    """Of a cluster of two processes."""
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=100)  # on busy cores they start one by one
        yield client


@pytest.fixture(scope="module")
def panda():
    return ROBOTS["panda7"].model()


# --- functions on dask arrays -------------------------------------------------------------------------------

CALLS = {
    "inverse": lambda model: dn.build(model, dn.inverse_dynamics(model)),
    "forward": lambda model: dn.build(model, dn.forward_dynamics(model)),
    "hybrid": lambda model: dn.build(model, dn.hybrid_dynamics(model, ["FL_KFE"]), backend="numpy"),
    "derivatives": lambda model: dn.build(model, dn.inverse_dynamics(model)).derivatives("numpy"),
    "frame": lambda model: dn.build(model, "frame_pose", link="FL_FOOT", backend="numpy"),
    "energy": lambda model: dn.build(model, "kinetic_energy", backend="numpy"),
    "float32": lambda model: dn.build(model, "mass_matrix", precision="float32"),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_on_dask_arrays(name):
    """All results of all chunks, whatever the chunks, are those of a call."""
    model = ROBOTS["solo12"].model()
    function = CALLS[name](model)
    q, qd, u, _ = random_states(model, 60, seed=62)
    arrays = (q, qd, u, u)[: len(function.runner.inputs) - len(function.defaults)]
    expected = function(*arrays)
    chunks = [(25, 5), (10, -1), (60, -1), 7]
    lazy = function.dask(*(da.from_array(a, chunks=c) for a, c in zip(arrays, chunks, strict=False)))
    assert type(lazy) is (da.Array if isinstance(expected, np.ndarray) else type(expected))
    several = (lambda results: (results,)) if isinstance(expected, np.ndarray) else tuple
    for result, array in zip(several(lazy), several(expected), strict=True):
        assert (result.shape, result.dtype) == (array.shape, array.dtype)
        assert result.numblocks[0] > 2 and set(result.numblocks[1:]) <= {1}
        tolerance = 1e-5 if name == "float32" else AGREEMENT
        np.testing.assert_allclose(result.compute(scheduler="sync"), array, rtol=tolerance, atol=tolerance)


def test_arrays_of_a_batch_broadcast(panda):
    function = dn.build(panda, "inverse_dynamics", f_ext=True, backend="numpy")
    q, qd, u, f_ext = random_states(panda, 24, seed=64)
    gravity = np.array([0.0, 1.0, -9.0])
    q = q.reshape(6, 4, 7)
    lazy = function.dask(da.from_array(q, chunks=(4, 3, 7)), qd[0], qdd=u[:4], gravity=gravity)
    assert lazy.shape == (6, 4, 7) and lazy.chunks[:2] == ((4, 2), (3, 1))
    expected = function(q, qd[0], u[:4], gravity=gravity)
    assert error(lazy.compute(scheduler="sync"), expected).max() <= AGREEMENT
    assert function.dask(q[0, 0], qd[0], u[0]).compute(scheduler="sync").shape == (7,)
    some = da.from_array(q.reshape(-1, 7), chunks=5)
    unknown = some[some[:, 0] > 0]  # of unknown length
    assert (
        error(
            function.dask(unknown, qd[0], u[0]).compute(scheduler="sync"),
            function(q[q[..., 0] > 0], qd[0], u[0]),
        ).max()
        <= AGREEMENT
    )


def test_states_without_result_are_nan_or_raise_in_their_chunk(panda):
    function = dn.build(panda, "gravity_torque", backend="numpy")
    q = np.zeros((10, 7))
    q[6, 2] = np.inf
    chunks = da.from_array(q, chunks=(4, 7))
    tau = function.dask(chunks, errors="nan").compute(scheduler="sync")
    assert np.flatnonzero(np.isnan(tau).any(axis=1)).tolist() == [6]
    with pytest.raises(dn.InputError, match="panda_joint3"):
        function.dask(chunks).compute(scheduler="sync")


def test_invalid_arguments_raise_before_anything_is_computed(panda):
    function = dn.build(panda, "inverse_dynamics", backend="numpy")
    q = da.zeros((10, 7), chunks=(5, 7))
    for arrays, named, raised, words in (
        ((q, q, q[:, :6]), {}, dn.InputError, r"qdd must .*\(\.\.\., 7\)"),
        ((q, q[:3], q), {}, dn.InputError, r"broadcast: q \(10,\), qd \(3,\)"),
        ((q, None, q), {}, dn.InputError, "qd"),
        ((q, q), {}, TypeError, "2 arguments"),
        ((q, q, q), {"tau": q}, TypeError, "tau"),
        ((q, q, q), {"errors": "skip"}, dn.InputError, "skip"),
    ):
        with pytest.raises(raised, match=words):
            function.dask(*arrays, **named)


def test_tasks_share_the_function(client, panda):
    """What the scheduler sends has the function once, not with every task."""
    function = dn.build(panda, "mass_matrix")
    q = random_states(panda, 4000, seed=65)[0]
    total = function.dask(da.from_array(q, chunks=(100, 7)), errors="nan").sum(axis=0)
    assert error(client.compute(total).result(timeout=100), function(q).sum(axis=0)).max() <= AGREEMENT
    (optimized,) = dask.optimize(total)
    tasks = [len(distributed.protocol.pickle.dumps(task)) for task in dict(optimized.dask).values()]
    assert len(tasks) > 40 and sum(tasks) < q.nbytes + len(pickle.dumps(function)) + 3000 * len(tasks)


def test_errors_of_a_cluster_keep_their_type_and_text(client):
    program = dn.trace(lambda x: {"y": 1.0 / x[0]}, {"x": (1,)})
    inverse = dn.compile(program, backend="numpy", name="inverse")
    lazy = inverse.dask(da.from_array(np.arange(4.0)[:, None], chunks=(2, 1)))
    with pytest.raises(dn.SolutionError, match="no finite solution"):
        client.compute(lazy).result(timeout=100)


def test_killed_worker_of_a_cluster_is_replaced(client, panda):
    """After one of two workers is killed, the other repeats its part."""
    q, qd, u, _ = random_states(panda, 40_000, seed=63)
    function = dn.build(panda, dn.inverse_dynamics(panda))
    lazy = function.dask(da.from_array(q, chunks=(500, -1)), da.from_array(qd, chunks=(500, -1)), u)
    workers = client.run(os.getpid)
    assert len(set(workers.values())) == 2
    result = client.compute(lazy)
    os.kill(next(iter(workers.values())), signal.SIGKILL)
    assert error(result.result(timeout=100), function(q, qd, u)).max() <= AGREEMENT
