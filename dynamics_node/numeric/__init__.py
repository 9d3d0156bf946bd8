"""The dynamics at call time, by NumPy or GTSAM on arrays: nothing is made for one robot beforehand.

An algorithm has one signature: algorithm(**arrays) -> {name: array}, the names being those that its Problem
or quantity reads and returns; arrays (..., *shape) over a batch, already checked. It may raise LinAlgError
when one of the states has no solution. algorithm.with_model(model) is the same for other inertias. A
NumericRunner makes a Runner of it, so that a Function may stand on it as on a Program.
"""

from dynamics_node.numeric.elimination import Elimination, elimination
from dynamics_node.numeric.gtsam import GtsamElimination, gtsam_elimination
from dynamics_node.numeric.judgement import Judgement, Suspect, chi_square_limit, judge
from dynamics_node.numeric.measured import MeasuredLeastSquares
from dynamics_node.numeric.quantities import NumericQuantity
from dynamics_node.numeric.recursions import Recursion
from dynamics_node.numeric.robots import (
    dynamics_runner,
    elimination_algorithm,
    measured_runner,
    quantity_runner,
    recursion_runner,
)
from dynamics_node.numeric.runner import NumericRunner
from dynamics_node.numeric.solvability import Help, Solvability, solvability
from dynamics_node.numeric.watched import Watched

__all__ = [
    "Elimination",
    "GtsamElimination",
    "Help",
    "Judgement",
    "MeasuredLeastSquares",
    "NumericQuantity",
    "NumericRunner",
    "Recursion",
    "Solvability",
    "Suspect",
    "Watched",
    "chi_square_limit",
    "dynamics_runner",
    "elimination",
    "elimination_algorithm",
    "gtsam_elimination",
    "judge",
    "measured_runner",
    "quantity_runner",
    "recursion_runner",
    "solvability",
]
