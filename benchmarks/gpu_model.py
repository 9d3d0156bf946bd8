"""How many states a second a kernel can reach at most, from its instructions: bounds by pipes and by memory.

All instructions are taken to be executed once. Clocks are taken as the highest.
"""

from collections import Counter

from dynamics_node.codegen.cuda.choice import WARP


def cycles_by_pipe(code, processor):
    """Cycles that each pipe of a quarter takes for one warp; `issue`: those of the scheduler."""
    found = Counter({"issue": len(code)})
    for instruction in code:
        if instruction.pipe:
            found[instruction.pipe] += processor.cycles[instruction.pipe] * instruction.parts
    return dict(found)


def pipe_bound(code, card):
    """States a second if the busiest pipe never waits; and its name."""
    cycles = cycles_by_pipe(code, card.processor)
    busiest = max(cycles, key=cycles.get)
    return card.issues * WARP / cycles[busiest], busiest


def memory_bound(bytes_of_state, card):
    """States a second that memory carries at the rate of the data sheet."""
    return card.bandwidth / bytes_of_state
