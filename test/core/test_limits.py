"""Large and hostile descriptions: a limit of links, and linear memory and time."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from robots import ROBOTS, random_states
from urdf_text import INERTIAL, joint, link, robot

import dynamics_node as dn
from dynamics_node.algorithms.recursion import joint_forces, joint_motions
from dynamics_node.codegen.c import BatchKernel
from dynamics_node.codegen.c.batch_kernel import render_batch
from dynamics_node.codegen.c.render_straight import memory
from dynamics_node.robot.description import Description, JointDescription, Mimic
from dynamics_node.robot.explicit import Explicit, explicit_joints
from dynamics_node.robot.loading import read_description
from dynamics_node.robot.urdf import MAX_LINKS, MAX_LOOPS
from dynamics_node.symbolic import trace

pytestmark = pytest.mark.optimized


def chain(count, kind="continuous", backward=False, inertial=INERTIAL):
    links = [link(f"l{k}", inertial) for k in range(count + 1)]
    joints = [joint(f"j{k}", f"l{k}", f"l{k + 1}", kind) for k in range(count)]
    if backward:
        links.reverse()
        joints.reverse()
    return robot(*links, *joints)


def test_error_states_the_limit():
    assert MAX_LINKS >= 4097, "the longest chains of the benchmarks"
    with pytest.raises(dn.ModelError, match=f"{MAX_LINKS} links"):
        read_description("<robot name='r'>" + "<link name='a'/>" * (MAX_LINKS + 1) + "</robot>")
    with pytest.raises(dn.ModelError, match=f"{MAX_LINKS} joints"):
        read_description("<robot name='r'>" + "<joint name='a'/>" * (MAX_LINKS + 1) + "</robot>")
    many = "<loop name='a'><predecessor link='a'/><successor link='a'/></loop>" * (MAX_LOOPS + 1)
    with pytest.raises(dn.ModelError, match=f"{MAX_LOOPS} loops"):
        read_description(f"<robot name='r'><link name='a'/>{many}</robot>")


def test_links_in_any_order():
    """In reverse order, each link's path to the root is the whole chain."""
    model = dn.parse_robot(chain(1500, "fixed", backward=True))
    assert model.nbodies == 0 and len(model.frames) == 1501


def test_memory_of_long_robots_is_linear():
    """Dense maps would take 300 MB."""
    code = (
        "import resource, numpy as np, dynamics_node as dn\n"
        "from test_limits import chain\n"
        "model = dn.parse_robot(chain(2048))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "q = np.full(model.nv, 0.1)\n"
        "tau = dn.build(model, dn.inverse_dynamics(model), backend='numpy')(q, q, q)\n"
        "assert np.isfinite(tau).all()\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-2000:]
    assert int(process.stdout) < 100, "MB"


def test_chain_of_mimic_joints():
    """Each joint follows the one before: composed once, not once per follower."""
    count = 2000
    joints = tuple(
        JointDescription(f"j{k}", "continuous", "a", "b", mimic=Mimic(f"j{k - 1}", -1.0, 1.0) if k else None)
        for k in reversed(range(count))
    )
    explicit = explicit_joints(Description("r", (), joints))
    assert "j0" not in explicit and len(explicit) == count - 1
    for k in (1, 2, 3, 1998, 1999):
        assert explicit[f"j{k}"] == Explicit({"j0": (-1.0) ** k}, float(k % 2))


@pytest.mark.parametrize("name", ["panda", "panda_floating", "baxter"])
def test_joint_motions_and_forces(name):
    """For every body by itself, including mimic and floating joints; batches, too."""
    model = ROBOTS[name].model()
    rates = random_states(model, 3)[1]
    wrenches = np.random.default_rng(3).normal(size=(3, model.nbodies, 6))
    motions, forces = joint_motions(model, rates), joint_forces(model, wrenches)
    expected = np.zeros_like(rates)
    for i, body in enumerate(model.bodies):
        assert np.allclose(motions[:, i], rates[:, body.joint.v] @ body.joint.S.T, rtol=1e-14, atol=1e-15)
        expected[:, body.joint.v] += wrenches[:, i] @ body.joint.S
    assert np.allclose(forces, expected, rtol=1e-13, atol=1e-14)
    assert np.array_equal(joint_forces(model, wrenches[0]), forces[0])


# --- small stacks -------------------------------------------------------------------------------------------


def test_compiled_code_of_long_robots_runs_on_small_stacks():
    """1000 bodies with wrenches in threads of 128 KiB, equivalent to 4000 in the 512 KiB of macOS."""
    code = (
        "import threading, numpy as np, dynamics_node as dn\n"
        "from test_limits import chain\n"
        "from dynamics_node.codegen.c import kernel\n"
        "kernel.QUICK = 0\n"
        "model = dn.parse_robot(chain(1000))\n"
        "solve = dn.build(model, dn.inverse_dynamics(model), backend='c', f_ext=True)\n"
        "q, f_ext, results = np.full(model.nv, 0.1), np.ones((model.nbodies, 6)), []\n"
        "def run():\n"
        "    results.append([solve(q, q, q), solve(q, q, q, f_ext)])\n"
        "threading.stack_size(128 * 1024)\n"
        "for thread in [threading.Thread(target=run) for _ in range(2)]: thread.start(); thread.join()\n"
        "plain = dn.build(model, dn.inverse_dynamics(model), backend='numpy', f_ext=True)\n"
        "for tau, expected in zip(results[0], (plain(q, q, q), plain(q, q, q, f_ext))):\n"
        "    assert np.abs(tau - expected).max() <= 1e-10 * np.abs(expected).max()\n"
        "assert all(np.array_equal(a, b) for a, b in zip(results[0], results[1]))\n"
        "print('done')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (0, "done\n"), process.stderr[-2000:]


def test_vectors_of_many_numbers_need_no_large_stack():
    """1100 inputs and outputs of 8 states each are 140 KB."""
    program = trace(lambda x: {"y": x * x[::-1]}, {"x": (1100,)})
    assert "static _Thread_local vector in[" in render_batch(program)
    kernel, x = BatchKernel(program), np.random.default_rng(0).normal(size=(20, 1100))
    results = []
    before = threading.stack_size(128 * 1024)
    try:
        threads = [threading.Thread(target=lambda: results.append(kernel(len(x), x)[0][0])) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        threading.stack_size(before)
    assert len(results) == 2 and all(np.array_equal(y, x * x[:, ::-1]) for y in results)


def test_large_arrays_are_thread_local():
    assert memory("number", "w", 10) == "  number w[10] __attribute__((aligned(64)));"
    assert memory("number", "w", 10_000).startswith("  static _Thread_local number w[10000]")
    assert memory("vector", "w", 2_000).startswith("  static _Thread_local vector w[2000]")
