"""Closed loops and geared robots: cluster recursions beside projection and multipliers, and beside Pinocchio.

All of ours are Programs of the same compiler, timed as kernels in a loop over states. Pinocchio is called
from Python on positions that were closed beforehand, and so are we, checks included. With the reference
robots at hand (--robots FOLDER with mini_cheetah.urdf, ...) they are measured too.
"""

import os
from pathlib import Path

import harness
import numpy as np
from dynamics import microseconds

import dynamics_node as dn
from dynamics_node.algorithms import bias, crba
from dynamics_node.backends.c import Kernel
from dynamics_node.loops.closure import closure
from dynamics_node.loops.constraints import velocity_program
from dynamics_node.loops.programs import in_economical_frames, mechanism_programs
from dynamics_node.program import interpret, trace
from dynamics_node.robots import belt_chain, five_bar, four_bar, four_bars, geared_chain
from dynamics_node.spatial import solve_definite

STATES = 64
ROBOTS = ("mini_cheetah", "mit_humanoid", "jvrc1_humanoid")
LENGTHS = (2, 4, 8, 12, 16, 24)


def states(mechanism, count=STATES, reach=0.1):
    """Closed positions, and rates."""
    random = np.random.default_rng(3)
    start = mechanism.neutral()
    movable = [joint.q.start for joint in mechanism.tree.independent_joints if joint.kind != "floating"]
    start[movable] += 0.1
    q = dn.close_loops(mechanism, start) + np.zeros((count, 1))
    own = [joint.q.start for joint in mechanism.independent_joints if joint.kind != "floating"]
    q[:, own] += random.uniform(-reach, reach, (count, len(own)))
    return dn.close_loops(mechanism, q), *random.uniform(-1, 1, (2, count, mechanism.nv))


def kernel_time(program, mechanism):
    """us per state in a loop over states."""
    kernel, inputs = Kernel(program), states(mechanism)
    x = np.hstack([*inputs, np.tile(mechanism.gravity, (STATES, 1))])
    y = np.empty((STATES, sum(n.size for n in program.outputs.values())))
    return microseconds(lambda _: kernel.run(x, y), 20) / STATES


def lagrange_program(mechanism):
    """[M K^T; K 0] over all joints of the tree, solved block by block: the range-space method."""
    economical, _ = in_economical_frames(mechanism)
    tree = economical.tree
    constraints = [c for cluster in economical.clusters for c in cluster.constraints]
    rows = [row for cluster in _counted(economical, constraints) for row in cluster]
    derived = velocity_program(tree, constraints)

    def function(q, qd, known, gravity):
        G, _, condition = closure(economical, q, qd)
        rates = G @ qd
        found = interpret(derived, q=q, qd=rates)
        K, k = found["K"][rows], found["k"][rows]
        effort = np.zeros(tree.nv, dtype=object)
        effort[economical.independent] = known
        h = bias(tree, q, rates, gravity=gravity)
        solved = solve_definite(crba(tree, q), np.concatenate([K.T, (effort - h)[:, None]], axis=1))
        MK, free = solved[:, :-1], solved[:, -1]
        multipliers = solve_definite(K @ MK, (k - K @ free)[:, None])[:, 0]
        return {"asked": (free + MK @ multipliers)[economical.independent], "health": [condition, 0.0]}

    nq, nv = mechanism.nq, mechanism.nv
    return trace(function, {"q": (nq,), "qd": (nv,), "known": (nv,), "gravity": (3,)})


def _counted(mechanism, constraints):
    """Rows that count of every cluster, numbered over all constraints."""
    start = 0
    for cluster in mechanism.clusters:
        if cluster.constraints:
            program = velocity_program(mechanism.tree, cluster.constraints)
            yield [start + row for row in cluster.rows]
            start += program.outputs["k"].size


def alternatives(name, mechanism):
    """Forward dynamics by clusters beside projection and multipliers."""
    programs = mechanism_programs(mechanism, dn.forward_dynamics(mechanism))
    times = {key: kernel_time(program, mechanism) for key, program in programs.items()}
    best = min(times.values())
    inverse = mechanism_programs(mechanism, dn.inverse_dynamics(mechanism))["c-rnea"]
    note = f"{len(inverse.ops)} operations"
    yield harness.Row(f"{name}, c-rnea", kernel_time(inverse, mechanism), "us", "lower", reason=note)
    note = f"{len(programs['c-aba'].ops)} operations"
    yield harness.Row(
        f"{name}, c-aba", times["c-aba"], "us", "lower", "projection", times["projection"], reason=note
    )
    lagrange = lagrange_program(mechanism)
    theirs, note = kernel_time(lagrange, mechanism), f"{len(lagrange.ops)} operations"
    yield harness.Row(
        f"{name}, best of both", best, "us", "lower", "Lagrange", theirs, target=1.0, reason=note
    )


def pinocchio_loops(text, pins):
    """us of constraintDynamics from Python; pins: (joint, x, joint, x) that coincide."""
    import pinocchio as pin

    model = pin.buildModelFromXML(text)
    contacts, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for first, x, second, y in pins:
        places = [pin.SE3(np.eye(3), np.array([at, 0.0, 0.0])) for at in (x, y)]
        ends = [model.getJointId(joint) for joint in (first, second)]
        contact = pin.RigidConstraintModel(
            pin.ContactType.CONTACT_3D, model, ends[0], places[0], ends[1], places[1], pin.LOCAL
        )
        contacts.append(contact)
        datas.append(contact.createData())
    data = model.createData()
    pin.initConstraintDynamics(model, data, contacts, datas)
    settings = pin.ProximalSettings(1e-10, 1e-10, 10)
    mechanism = dn.parse_mechanism(text)
    q, yd, tau = states(mechanism)
    order = [model.joints[model.getJointId(n)].idx_v for n in mechanism.tree.v_names]
    place, rates, effort = np.zeros((3, STATES, model.nv))
    place[:, order] = q
    effort[:, [order[v] for v in mechanism.independent]] = tau
    for k in range(STATES):
        rates[k, order] = _spread(mechanism, q[k], yd[k])
    call = pin.constraintDynamics
    return microseconds(
        lambda k: call(model, data, place[k], rates[k], effort[k], contacts, datas, settings), STATES
    )


def _spread(mechanism, q, yd):
    program = trace(
        lambda q, qd: {"rates": closure(mechanism, q, qd)[0] @ qd},
        {"q": (mechanism.nq,), "qd": (mechanism.nv,)},
    )
    return interpret(program, q=q, qd=yd)["rates"]


def call_time(mechanism):
    """us of the public call of forward dynamics."""
    solver = dn.build(mechanism, dn.forward_dynamics(mechanism), backend="c")
    q, yd, tau = (list(a) for a in states(mechanism))
    out = np.empty(mechanism.nv)
    return microseconds(lambda k: solver(q[k], yd[k], tau[k], out=out), STATES)


def against_pinocchio():
    import pinocchio as pin

    for count in (1, 4, 16):
        text = four_bars(count)
        pins = [(f"coupler_j{k}", 0.8, f"rocker_j{k}", 0.6) for k in range(count)]
        theirs = pinocchio_loops(text, pins)
        yield harness.Row(
            f"{count} four-bar(s), forward, call", call_time(dn.parse_mechanism(text)), "us", "lower",
            "pin.constraintDynamics", theirs, target=0.4,
        )  # fmt: skip
    for n in (6, 12):
        text = geared_chain(n)
        mechanism = dn.parse_mechanism(text)
        model = pin.buildModelFromXML(with_mimic(text), mimic=True)
        data = model.createData()
        q, v, tau = np.random.default_rng(0).uniform(-0.5, 0.5, (3, STATES, model.nv))

        def theirs(k, model=model, data=data, q=q, v=v, tau=tau):
            M = pin.crba(model, data, q[k])
            h = pin.nonLinearEffects(model, data, q[k], v[k])
            return np.linalg.solve(np.triu(M) + np.triu(M, 1).T, tau[k] - h)

        peer = ("pin.crba, mimic", microseconds(theirs, STATES))
        name = f"geared chain of {n}, forward, call"
        yield harness.Row(name, call_time(mechanism), "us", "lower", *peer, target=0.3)


def with_mimic(text, ratio=6.0):
    """A geared chain with <mimic> in place of <coupling>."""
    import re

    text = re.sub("<coupling.*?</coupling>", "", text)
    return re.sub(
        r'(<joint name="m(\d+)" type="revolute") independent="false"(.*?)</joint>',
        rf'\1\3<mimic joint="j\2" multiplier="{ratio}"/></joint>', text,
    )  # fmt: skip


def growth():
    """Time of c-aba over the length of chains."""
    for name, make, per in (("geared chain", geared_chain, 1), ("belt chain", belt_chain, 2)):
        times = []
        for n in LENGTHS:
            mechanism = dn.parse_mechanism(make(n // per))
            program = mechanism_programs(mechanism, dn.forward_dynamics(mechanism))["c-aba"]
            times.append(kernel_time(program, mechanism))
        n, t = np.array(LENGTHS[1:]), np.array(times[1:])  # the shortest have no inner links
        slope, offset = np.polyfit(n, t, 1)
        worst = np.abs(offset + slope * n - t).max() / t.max()
        listed = ", ".join(f"{n}: {t:.2f}" for n, t in zip(LENGTHS, times, strict=True))
        note = f"{offset:.2f} us + {slope:.3f} us n; us: {listed}"
        row = f"{name}, c-aba: misses a line by, of the longest"
        yield harness.Row(row, worst, "", "lower", target=0.15, reason=note)


def main():
    parser = harness.arguments("clusters")
    parser.add_argument("--robots", type=Path, help="folder with the URDF+ files of the reference robots")
    options = parser.parse_args()
    os.sched_setaffinity(0, {0})
    own = {
        "four-bar": four_bar(),
        "five-bar": five_bar(),
        "GT of 12": geared_chain(12),
        "PBT of 12": belt_chain(6),
    }
    mechanisms = {name: dn.parse_mechanism(text) for name, text in own.items()}
    if options.robots:
        mechanisms |= {
            name: dn.load_mechanism(options.robots / f"{name}.urdf", floating_base=True) for name in ROBOTS
        }
    found = [row for item in mechanisms.items() for row in alternatives(*item)]
    found += [*against_pinocchio(), *growth()]
    harness.finish("clusters", found, harness.versions("pin", "numpy"), options.save)


if __name__ == "__main__":
    main()
