"""The cost of Programs in operations, and the cheapest of several."""

from dynamics_node.symbolic import Program

STEP = 4  # what one more step of the longest chain costs, in operations (measured: 3 to 5)


def cost(program: Program):
    """What a Program takes, in operations: all of them, and the wait for the longest chain."""
    return len(program.ops) + STEP * program.depth()


def cheapest(programs) -> tuple[str, Program]:
    """(name, Program) of the one that costs least, of {name: Program}; one alone may be a LoopProgram."""
    if len(programs) == 1:
        return next(iter(programs.items()))
    return min(programs.items(), key=lambda pair: cost(pair[1]))
