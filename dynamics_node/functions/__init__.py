"""What users hold: compiled functions of named arrays, estimators, and their builders."""

from dynamics_node.functions.build import build, build_closing, build_for_service, changeable, evaluate
from dynamics_node.functions.checks import InputError, SolutionError
from dynamics_node.functions.choices import BACKENDS, SOLVERS, ChoiceError, resolve
from dynamics_node.functions.estimator import Estimate, Estimator, UnobservableError, build_estimator
from dynamics_node.functions.function import Function, ProgramFunction, function
from dynamics_node.functions.loop_solver import Closing
from dynamics_node.functions.solvers import QuantityFunction, RobotFunction

__all__ = [
    "BACKENDS",
    "SOLVERS",
    "ChoiceError",
    "Closing",
    "Estimate",
    "Estimator",
    "Function",
    "InputError",
    "ProgramFunction",
    "QuantityFunction",
    "RobotFunction",
    "SolutionError",
    "UnobservableError",
    "build",
    "build_closing",
    "build_estimator",
    "build_for_service",
    "changeable",
    "evaluate",
    "function",
    "resolve",
]
