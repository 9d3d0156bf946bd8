"""Forward dynamics for parallel machines (Yang, Wu, Pan: Forward dynamics on GPUs): JSIIA, ABIA and CFA on
scans and block tri-diagonal solves. The array module is passed in: numpy, or cupy on a device; leading axes
are states, float64 or float32.
"""

from dynamics_node.parallel.abia import Abia
from dynamics_node.parallel.cfa import Cfa
from dynamics_node.parallel.inverse import Motions
from dynamics_node.parallel.jsiia import Jsiia
from dynamics_node.parallel.robot import RobotArrays, refuse_weightless, refuse_width
from dynamics_node.parallel.solve import SOLVERS, forward_dynamics, inverse_dynamics
from dynamics_node.parallel.tridiagonal import WAYS

__all__ = [
    "SOLVERS",
    "WAYS",
    "Abia",
    "Cfa",
    "Jsiia",
    "Motions",
    "RobotArrays",
    "forward_dynamics",
    "inverse_dynamics",
    "refuse_weightless",
    "refuse_width",
]
