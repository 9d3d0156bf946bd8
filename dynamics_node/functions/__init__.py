"""The public interface: compiled functions of named arrays, estimators, and their builders."""

from dynamics_node.functions.build import build, build_for_service, build_loop_solver, changeable
from dynamics_node.functions.choices import BACKENDS, SOLVERS, Backend, resolve
from dynamics_node.functions.configuration import (
    difference,
    difference_derivatives,
    integrate,
    integrate_derivatives,
    interpolate,
    random_configuration,
)
from dynamics_node.functions.contact_forces import ContactForces, ContactSolver, build_contact_solver
from dynamics_node.functions.contact_wrenches import build_contact_wrenches
from dynamics_node.functions.estimator import (
    Estimate,
    Estimator,
    ExternalWrenchEstimate,
    UnobservableError,
)
from dynamics_node.functions.evaluate import cached_function, evaluate
from dynamics_node.functions.exporting import export_functions
from dynamics_node.functions.function import Function
from dynamics_node.functions.loop_solver import LoopSolver
from dynamics_node.functions.pd_gains import PDGains
from dynamics_node.functions.program_function import compile
from dynamics_node.functions.robot_function import RobotFunction
from dynamics_node.functions.support_region import support_region
