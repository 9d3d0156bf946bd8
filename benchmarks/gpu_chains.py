"""Long chains of the bundle: the kernel of paper 5's constraint-force algorithm, states and what they are
to give."""

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "test" / "support"))

from parallel_robots import chain, states

from dynamics_node.algorithms import aba
from dynamics_node.chains import RobotArrays
from dynamics_node.chains.chain_kernel import chain_kernel, laid_out

LINKS = (8, 10, 16, 32, 64, 128, 200, 256)  # figure 2, and those of figure 3
STATES, SLIDING, TOLERANCE = 8, 0.3, 1e-10
_ARRAYS = ("table", "gravity", "q", "qd", "tau", "f_ext")


def entries(links=LINKS):
    """(entry of the index without cubins, arrays {name: array}, ChainKernel) of each chain, in float64; the
    joints of some are prismatic. qdd: accelerations by ABA."""
    for n in links:
        model = chain(n, SLIDING)
        robot, (q, qd, tau, _) = RobotArrays(model), states(model, STATES)
        _, arrays = laid_out(robot, np.dtype(np.float64), q, qd, tau, model.gravity)
        qdd = aba(model, q, qd, tau)[0][:, robot.constants.v_at]
        kernel = chain_kernel(n)
        entry = {"name": f"chain of {n}", "links": n, "width": kernel.width, "function": kernel.name}
        entry["tolerance"] = TOLERANCE
        yield entry, dict(zip(_ARRAYS, arrays, strict=True)) | {"qdd": qdd}, kernel
