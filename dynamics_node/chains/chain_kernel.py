"""The fused kernel of long chains (chain.c): its text, its arguments, and its run on a GPU by CuPy."""

from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from dynamics_node.chains.chain_arrays import RobotArrays, require_definite_inertias
from dynamics_node.codegen.cuda import at_work, compiled
from dynamics_node.codegen.printer import Variant, head
from dynamics_node.errors import ModelError

REAL = {"double": np.float64, "float": np.float32}
LONGEST = {"double": 256, "float": 512}  # largest number of links: one thread and its registers for each
WARP = 32


class ChainKernel(NamedTuple):
    """text: in CUDA; width: threads of a block, one for each chain; name of the kernel."""

    text: str
    width: int
    precision: str
    name: str = "chains"


def chain_kernel(n: int, precision="double") -> ChainKernel:
    """The kernel for chains of n links, with 'float' or 'double'."""
    width = -(-n // WARP) * WARP
    variant = Variant(precision, block=width, exact_reciprocal=True)
    own = files("dynamics_node").joinpath("chains", "chain.c").read_text()
    return ChainKernel("\n".join([*head(variant), own]), width, precision)


def refuse_kernel(robot: RobotArrays, precision="double"):
    """Raise ModelError for a robot that cfa's arrays support and the kernel does not."""
    model, reason = robot.model, None
    require_definite_inertias(model)
    if robot.floating or list(robot.parents) != list(range(-1, model.nbodies - 1)):
        reason = "is no chain on a fixed base"
    elif model.armature.any():
        reason = "has rotor inertias"
    elif model.nbodies > LONGEST[precision]:
        reason = f"has {model.nbodies} links, and a block has threads for {LONGEST[precision]}"
    if reason:
        raise ModelError(
            f"robot {model.name!r} {reason}: the kernel of long chains does not support it; "
            "use backend 'numpy'"
        )


def laid_out(robot: RobotArrays, dtype, q, qd, tau, gravity, f_ext=None):
    """(n, gravities, wrenches) and (table, gravity, q, qd, tau, f_ext) of a launch, contiguous, of dtype:
    links in order, in the axes of the table."""
    table, axes = chain_table(robot)
    order = robot.constants.v_at
    wrenches = np.zeros(6)
    if f_ext is not None:
        halves = f_ext.reshape(*f_ext.shape[:-1], 2, 3) @ axes
        wrenches = np.broadcast_to(halves.reshape(f_ext.shape), (*q.shape, 6))
    arrays = (table, gravity, q[:, order], qd[:, order], tau[:, order], wrenches)
    sizes = (robot.model.nbodies, int(gravity.ndim > 1), int(f_ext is not None))
    return sizes, [np.ascontiguousarray(array, dtype) for array in arrays]


def has_kernel(robot: RobotArrays, precision="double") -> bool:
    """Whether the kernel supports a robot."""
    try:
        refuse_kernel(robot, precision)
    except ModelError:
        return False
    return True


@lru_cache(maxsize=64)
def chain_table(robot: RobotArrays):
    """(44, n) constants of the links, in axes whose z is the joint's, and those axes (n, 3, 3) in the
    bodies'."""
    own, axes = robot.constants, _axes(robot)
    before = np.concatenate([np.eye(3)[None], axes[:-1]])
    back = np.swapaxes(before, -1, -2)
    R = back @ (own.P + own.C) @ axes
    t = (back @ own.t0[:, :, None])[..., 0]
    turned = np.zeros((len(axes), 6, 6))
    turned[:, :3, :3] = turned[:, 3:, 3:] = axes
    J = np.swapaxes(turned, -1, -2) @ own.J @ turned
    J_inverse = np.linalg.inv(J)
    lower = np.tril_indices(6)
    half = np.tril_indices(3)
    first_moment = np.stack([J[:, 2, 4], J[:, 0, 5], J[:, 1, 3]], axis=-1)
    table = np.concatenate(
        [
            R.reshape(-1, 9), t, J[:, 5:, 5], first_moment, J[:, half[0], half[1]],
            J_inverse[:, lower[0], lower[1]], own.S[:, 3:].any(axis=1)[:, None],
        ],
        axis=1,
    )  # fmt: skip
    return np.ascontiguousarray(table.T), axes


def _axes(robot):
    """(n, 3, 3): right-handed axes with the joint's axis as z."""
    own = robot.constants
    z = own.S[:, :3] + own.S[:, 3:]
    x = np.eye(3)[np.abs(z).argmin(axis=1)]
    x = np.cross(x, z)
    x /= np.linalg.norm(x, axis=1)[:, None]
    return np.stack([x, np.cross(z, x), z], axis=-1)


class CudaChains:
    """qdd = chains(q, qd, tau, gravity, f_ext): forward dynamics of many states of a chain by CFA, with
    odd-even elimination and `corrections`. precision: 'double' or 'float'. Picklable.

    Raises DeviceError without CuPy or a device, and ModelError for unsupported robots.
    """

    def __init__(self, robot: RobotArrays, precision="double", corrections=1):
        refuse_kernel(robot, precision)
        self.robot, self.corrections, self.dtype = robot, corrections, np.dtype(REAL[precision])
        self.kernel = chain_kernel(robot.model.nbodies, precision)
        with at_work():
            compiled(self.kernel.text, self.kernel.name)

    def __call__(self, q, qd, tau, gravity, f_ext=None):
        """qdd (count, n) of q, qd, tau (count, n), gravity (3,) or (count, 3), f_ext (n, 6) or (count, n, 6):
        NaN if an angle exceeds the range of the kernel's sine. Raises DeviceError, MemoryError."""
        sizes, arrays = laid_out(self.robot, self.dtype, q, qd, tau, gravity, f_ext)
        qdd = np.empty(q.shape, self.dtype)
        with at_work() as cupy:
            result = cupy.empty(q.shape, self.dtype)
            given = (*map(np.int32, (*sizes, self.corrections)), *map(cupy.asarray, arrays), result)
            if len(q):
                compiled(self.kernel.text, self.kernel.name)((len(q),), (self.kernel.width,), given)
            qdd[:, self.robot.constants.v_at] = result.get()
        return qdd
