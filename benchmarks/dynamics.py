"""Compiled dynamics against Pinocchio from Python, its C++ core, CasADi's generated C and MuJoCo.

Medians of thread CPU time over many batches of calls, random states, one pinned core, all in one run. Also
the operation counts of our Programs against textbook counts, and build times.
"""

import os
import tempfile
import time
from xml.etree import ElementTree

import harness
import numpy as np
import peers
from robots import random_chain, random_states, robot, robot_file

import dynamics_node as dn
from dynamics_node.algorithms import cheapest, dynamics_programs
from dynamics_node.codegen.c import Kernel
from dynamics_node.codegen.c.compiler import compile_library

ROBOTS = ("panda", "solo12", "talos")
STATES, BATCHES, ROUNDS = 256, 40, 8
KINDS = (("inverse", "rnea"), ("forward", "aba"))
CORE_TARGET = {
    ("panda", "inverse"): 0.10,
    ("panda", "forward"): 0.085,
    ("talos", "forward"): 0.12,
}
CASADI_TARGET = {"Intel": 0.65}  # by prefix of the processor's name; default 0.5
ORDER_TARGET = {("talos", "inverse"): 0.65}
PYTHON_TARGET = {("panda", "inverse"): 0.4, ("panda", "forward"): 0.33}
TIP = "panda_link7"


def microseconds(call, count=STATES):
    """Median us of call(k), k = 0 .. count - 1."""
    times = []
    for _ in range(BATCHES):
        begin = time.thread_time_ns()
        for k in range(count):
            call(k)
        times.append((time.thread_time_ns() - begin) / count / 1e3)
    return float(np.median(times[3:]))


def pinocchio_model(name):
    import pinocchio as pin

    if name != "panda":
        return pin.buildModelFromUrdf(str(robot_file(name)), pin.JointModelFreeFlyer())
    model = pin.buildModelFromUrdf(str(robot_file(name)))
    locked = [model.getJointId(joint) for joint in list(model.names)[8:]]
    return pin.buildReducedModel(model, locked, pin.neutral(model))


def problem(model, kind):
    return dn.inverse_dynamics(model) if kind == "inverse" else dn.forward_dynamics(model)


def kernel_time(name, kind):
    """us per state of the compiled Program in a loop over states, in C."""
    model = robot(name)
    kernel = dn.build(model, problem(model, kind), backend="c").runner.kernel
    x = np.hstack((*random_states(model, STATES), np.tile(model.gravity, (STATES, 1))))
    y = np.empty((STATES, model.nv))
    return microseconds(lambda _: kernel.run(x, y), 60) / STATES


def kernels(name):
    """Rows of the compiled Program against C++ and generated C."""
    theirs = pinocchio_model(name)
    core, reason = attempt(lambda: peers.pinocchio_core(theirs))
    generated, no_casadi = (
        attempt(lambda: peers.casadi_functions(theirs, name)) if name == "panda" else (None, "")
    )
    for kind, algorithm in KINDS:
        ours = kernel_time(name, kind)
        yield harness.Row(
            f"{name} {kind}, kernel", ours, "us", "lower", f"C++ {algorithm}", core and core[algorithm],
            target=CORE_TARGET.get((name, kind)), reason=reason,
        )  # fmt: skip
        if name == "panda":
            value = generated and casadi_time(generated[algorithm], theirs.nv)
            yield harness.Row(
                f"{name} {kind}, kernel", ours, "us", "lower", f"CasADi C of {algorithm}", value,
                target=casadi_target(), reason=no_casadi,
            )  # fmt: skip


class OneWay(Kernel):
    """A Program compiled with these flags."""

    def __init__(self, program, flags=()):
        self._flags = flags
        super().__init__(program)

    def _compile(self):
        return compile_library(*self._option(self.program, self._flags))


def orders(name):
    """Rows of the chosen order of operations and flags against the order of the trace, in alternating rounds;
    the least median counts."""
    model = robot(name)
    x = np.hstack((*random_states(model, STATES), np.tile(model.gravity, (STATES, 1))))
    y = np.empty((STATES, model.nv))
    for kind, _ in KINDS:
        chosen = dn.build(model, problem(model, kind), backend="c").runner.kernel
        kernels = (chosen, OneWay(chosen.program))
        turns = [
            [microseconds(lambda _, kernel=kernel: kernel.run(x, y), 1) / STATES for kernel in kernels]
            for _ in range(ROUNDS)
        ]
        ours, traced = np.min(turns, axis=0)
        yield harness.Row(
            f"{name} {kind}, one state", ours, "us", "lower", "in the trace's order", traced,
            target=ORDER_TARGET.get((name, kind)),
        )  # fmt: skip


def casadi_target():
    cpu = harness.machine()["cpu"]
    return next((target for name, target in CASADI_TARGET.items() if cpu.startswith(name)), 0.5)


def attempt(make):
    """(result, '') or (None, reason of its absence)."""
    try:
        return make(), ""
    except peers.Absent as error:
        return None, str(error)


def casadi_time(call, nv):
    q, qd, u = np.random.default_rng(0).uniform(-1, 1, (3, STATES, nv))
    out = np.empty((STATES, nv))
    return microseconds(lambda _: call(q, qd, u, out), 60) / STATES


def calls(name):
    """Rows of public calls, with checks, against Pinocchio from Python and MuJoCo."""
    import pinocchio as pin

    model, theirs = robot(name), pinocchio_model(name)
    data = theirs.createData()
    q, qd, u = (list(a) for a in random_states(model, STATES))
    pq = [pin.randomConfiguration(theirs, -np.ones(theirs.nq), np.ones(theirs.nq)) for _ in range(STATES)]
    conventions = (pin.Convention.LOCAL, pin.Convention.WORLD)
    times = {
        "rnea": microseconds(lambda k: pin.rnea(theirs, data, pq[k], qd[k], u[k])),
        "aba": min(
            microseconds(lambda k, c=c: pin.aba(theirs, data, pq[k], qd[k], u[k], c)) for c in conventions
        ),
    }
    out = np.empty(model.nv)
    for kind, algorithm in KINDS:
        solver = dn.build(model, problem(model, kind), backend="c")
        yield harness.Row(
            f"{name} {kind}, f(..., out=out)",
            microseconds(lambda k, f=solver: f(q[k], qd[k], u[k], out=out)),
            "us", "lower", f"pin.{algorithm}", times[algorithm], target=PYTHON_TARGET.get((name, kind)),
        )  # fmt: skip
        yield harness.Row(
            f"{name} {kind}, f(...)", microseconds(lambda k, f=solver: f(q[k], qd[k], u[k])),
            "us", "lower", f"pin.{algorithm}", times[algorithm],
        )  # fmt: skip
    if name == "panda":
        yield mujoco_row(times)


def mujoco_row(times):
    """A row of MuJoCo's inverse dynamics of the same URDF against Pinocchio's."""
    try:
        import mujoco
    except ImportError:
        return harness.Row("panda mj_inverse", None, "us", "lower", reason="needs MuJoCo: ./dev setup bench")
    tree = ElementTree.parse(robot_file("panda"))
    for link in tree.iter("link"):
        for kind in ("visual", "collision"):
            for shape in link.findall(kind):
                link.remove(shape)
    for joint in tree.iter("joint"):
        if joint.get("name", "").startswith("panda_finger"):
            joint.set("type", "fixed")
    try:
        model = mujoco.MjModel.from_xml_string(ElementTree.tostring(tree.getroot(), "unicode"))
    except ValueError as error:
        return harness.Row("panda mj_inverse", None, "us", "lower", reason=str(error).splitlines()[0])
    data = mujoco.MjData(model)

    def call(k):
        mujoco.mj_inverse(model, data)

    return harness.Row("panda mj_inverse", microseconds(call), "us", "lower", "pin.rnea", times["rnea"])


def quantities():
    """Rows of the mass matrix and operational-space inertia of the Panda, from Python."""
    import pinocchio as pin

    model, theirs = robot("panda"), pinocchio_model("panda")
    q = list(random_states(model, STATES)[0])
    data = theirs.createData()
    conventions = (pin.Convention.LOCAL, pin.Convention.WORLD)
    value = min(microseconds(lambda k, c=c: pin.crba(theirs, data, q[k], c)) for c in conventions)
    function, M = dn.build(model, "mass_matrix"), np.empty((7, 7))
    ours = microseconds(lambda k: function(q[k], out=M))
    yield harness.Row("panda mass matrix", ours, "us", "lower", "pin.crba", value, target=0.6)
    function = dn.build(model, "operational_space_inertia_inverse", links=[TIP], reference="body")
    out = (np.empty((6, 6)), np.empty((6, 7)))
    ours = microseconds(lambda k: function(q[k], out=out))
    route, value = best_osim_route(theirs, q)
    yield harness.Row("panda OSIM of one link, and J", ours, "us", "lower", route, value, target=0.3)


def best_osim_route(model, q):
    """(name, us) of Pinocchio's fastest computation of Lambda^-1 of the last joint."""
    import pinocchio as pin

    data, tip = model.createData(), model.njoints - 1
    kind = (pin.ContactType.CONTACT_6D, model, tip, pin.SE3.Identity(), pin.ReferenceFrame.LOCAL)
    constraints, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    constraints.append(pin.RigidConstraintModel(*kind))
    datas.append(constraints[0].createData())

    def by_inverse(k):
        J = pin.computeJointJacobian(model, data, q[k], tip)
        return J @ pin.computeMinverse(model, data, q[k]) @ J.T

    def by_delassus(k):
        return pin.computeDelassusMatrix(model, data, q[k], constraints, datas)

    routes = {"Minv and J in numpy": by_inverse, "computeDelassusMatrix": by_delassus}
    times = {name: microseconds(call) for name, call in routes.items()}
    return min(times.items(), key=lambda pair: pair[1])


def operations(model, kind):
    """Operations of the Program that `build` chooses: mul + add + div, without sin and cos."""
    _, program = cheapest(dynamics_programs(model, problem(model, kind)))
    count = program.op_count()
    return count["mul"] + count["add"] + count["div"]


def operation_rows():
    """Rows of operation counts against those of the literature for n revolute joints; gravity is an input."""
    panda = robot("panda")
    for kind, target in (("inverse", 680), ("forward", 1500)):
        yield harness.Row(
            f"panda {kind}, operations", operations(panda, kind), "flop", "lower", target=target
        )
    for n in (2, 3, 5, 7, 10, 15, 20, 50, 100):
        chain = random_chain(n)
        for kind, textbook in (("inverse", 174 * n - 134), ("forward", 429 * n - 507)):
            yield harness.Row(
                f"chain of {n}, {kind}, operations", operations(chain, kind), "flop", "lower",
                "textbook", textbook, target=1.0,
            )  # fmt: skip


def building(name):
    """Rows of the seconds to load, to build with an empty cache, and to build again."""
    import subprocess
    import sys

    code = (
        "import sys, time, dynamics_node as dn; sys.path.insert(0, 'benchmarks'); from robots import robot\n"
        f"t0 = time.perf_counter(); model = robot({name!r}); t1 = time.perf_counter()\n"
        "dn.build(model, 'forward_dynamics', backend='c'); t2 = time.perf_counter()\n"
        "dn.build(model, 'forward_dynamics', backend='c'); t3 = time.perf_counter()\n"
        "print(t1 - t0, t2 - t1, t3 - t2)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
    parse, cold, warm = map(float, done.stdout.split())
    yield harness.Row(f"{name}, URDF to Robot", parse, "s", "lower")
    targets = {"talos": 20.0, "panda": 1.0}
    yield harness.Row(f"{name} forward, build, empty cache", cold, "s", "lower", target=targets.get(name))
    yield harness.Row(f"{name} forward, build, warm cache", warm, "s", "lower", target=0.3)


def main():
    options = harness.arguments("dynamics").parse_args()
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    rows = [row for name in ROBOTS for part in (kernels, calls, building) for row in part(name)]
    rows += [*orders("talos"), *orders("solo12"), *quantities(), *operation_rows()]
    versions = harness.versions("pin", "casadi", "mujoco", "numpy")
    harness.finish("dynamics", rows, versions, options.save)


if __name__ == "__main__":
    main()
