"""Ways to compile a Program for one state, against the one that `build` chooses on this processor.

Other flags, the operations limb by limb, and limbs side by side. Least thread CPU time of alternating rounds.
A row whose way is clearly faster is one that `Kernel` should try.
"""

import time

import harness
import numpy as np
from dynamics import KINDS, STATES, OneWay, problem
from robots import random_states, robot

import dynamics_node as dn
from dynamics_node.algorithms import isomorphic_inputs, reordered
from dynamics_node.codegen.c.compiler import CLEARLY, FOR_LIMBS, SCHEDULED
from dynamics_node.symbolic import vectorize

ROUNDS = 400
FLAGS = {
    "scheduled": SCHEDULED,
    "without scheduling": (),
    "products apart": ("-ffp-contract=off",),
    "scheduled, products apart": (*SCHEDULED, "-ffp-contract=off"),
}


def ways(model, program):
    """{name: Kernel} of all ways that there are."""
    kernels = {name: OneWay(program, flags) for name, flags in FLAGS.items()}
    if (other := reordered(model, program)) is not None:
        kernels["limb after limb"] = OneWay(other, SCHEDULED)
    limbs = isomorphic_inputs(model, program)
    if limbs and (lanes := vectorize(program, limbs)) is not None:
        text = f"{lanes.length / program.length:.2f} of the text"
        kernels[f"side by side, {text}"] = OneWay(lanes, FOR_LIMBS)
    return kernels


def rows(name, kind):
    model = robot(name)
    chosen = dn.build(model, problem(model, kind), backend="c").runner.kernel
    kernels = {"chosen": chosen, **ways(model, chosen.program)}
    x = np.hstack((*random_states(model, STATES), np.tile(model.gravity, (STATES, 1))))
    y = np.empty((STATES, model.nv))
    times = dict.fromkeys(kernels, float("inf"))
    for _ in range(ROUNDS):
        for way, kernel in kernels.items():
            begin = time.thread_time_ns()
            kernel.run(x, y)
            times[way] = min(times[way], (time.thread_time_ns() - begin) / STATES)
    ours = times.pop("chosen")
    for way, value in times.items():
        yield harness.Row(f"{name} {kind}, {way}", value, "ns", "higher", "chosen", ours, target=CLEARLY)


def main():
    options = harness.arguments("ways").parse_args()
    names = ("panda", "ur5", "solo12", "talos")
    found = [row for name in names for kind, _ in KINDS for row in rows(name, kind)]
    harness.finish("ways", found, harness.versions("numpy"), options.save)


if __name__ == "__main__":
    main()
