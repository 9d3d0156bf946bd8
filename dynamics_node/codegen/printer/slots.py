"""Where sweeps keep what they need for a short time only: bodies share slots, so that caches hold them."""

import numpy as np

from dynamics_node.symbolic import Program, Rolled
from dynamics_node.symbolic.loop_program import PARENT


def last_children(parents: np.ndarray) -> np.ndarray:
    """(n,) Of every body the last one that hangs on it, itself where there is none."""
    last = np.arange(len(parents))
    last[parents[parents >= 0]] = np.flatnonzero(parents >= 0)  # of several the last one is kept
    return last


def slots(parents: np.ndarray) -> np.ndarray:
    """(n,) A slot for every body, its own from its turn to that of its last child, in either direction."""
    last, found, free_from = last_children(parents), [], [0]
    for body in range(len(parents)):
        slot = next((k for k, free in enumerate(free_from) if free <= body), len(free_from))
        free_from[slot:] = [int(last[body]) + 1, *free_from[slot + 1 :]]
        found.append(slot)
    return np.array(found)


def passing(program: Rolled) -> set[str]:
    """Arrays that one sweep alone reads and writes."""
    used = [{name for step in sweep.steps for name in _arrays(step)} for sweep in program.sweeps]
    return {name for name in program.arrays if sum(name in names for names in used) <= 1}


def inputs_read(step: Program) -> set[str]:
    """Names of the inputs that a step needs."""
    owner = [name for name, (size,) in step.inputs.items() for _ in range(size)]
    results = [numbers.ravel() for numbers in step.outputs.values()]
    used = np.unique(np.concatenate([step.left, step.right, *results]))
    return {owner[n] for n in used.tolist() if 0 <= n < len(owner)}


def _arrays(step):
    return {name.removeprefix(PARENT) for name in (*inputs_read(step), *step.outputs)}
