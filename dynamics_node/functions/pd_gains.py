"""Gains of PD loops that rollouts close in every step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.codegen import LoopGains, LoopPlaces, stable_damping
from dynamics_node.errors import InputError
from dynamics_node.functions.checks import numbers
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.text import listed


@explains_wrong_calls
@dataclass(frozen=True, eq=False)
class PDGains:
    """Gains of the PD loops of a rollout: tau = kp (target - q) - kd qd + feedforward, within effort limits.

    Loops are at the joints `robot.joint_names`: those with one coordinate, without a floating base. An array
    has an entry for each of them, and a number is for all.

    Parameters
    ----------
    kp : array_like (joints,)
        N m/rad or N/m.
    kd : array_like (joints,)
        N m s/rad or N s/m. A step uses at least dt kp / 2, which keeps it stable at every inertia.
    effort : array_like (joints,), optional
        Largest torque or force of a loop with its feedforward, N m or N; by default `robot.effort_limits`.

    Raises
    ------
    InputError
        For a value that is negative or no number.

    See Also
    --------
    RobotFunction.rollout : with `pd`.

    Examples
    --------
    >>> gains = dn.PDGains(kp=100.0, kd=[20, 20, 20, 20, 5, 5, 5])
    >>> start, still = robot.neutral(), np.zeros(7)
    >>> target = np.tile(start + 0.1, (200, 1))  # 200 steps
    >>> held = dn.evaluate(robot, "gravity_torque", start + 0.1)
    >>> forward = dn.build(robot, "forward_dynamics", backend="numpy")
    >>> path = forward.rollout(start, still, target, 0.01, pd=gains, feedforward=np.tile(held, (200, 1)))
    >>> bool(np.abs(path.q[-1] - target[-1]).max() < 0.01)
    True
    """

    kp: ArrayLike
    kd: ArrayLike
    effort: ArrayLike | None = None

    def __post_init__(self):
        for name in ("kp", "kd", *(["effort"] if self.effort is not None else [])):
            value = numbers(name, getattr(self, name))
            fits = (value >= 0) if name == "effort" else (value >= 0) & np.isfinite(value)
            if value.ndim > 1 or not fits.all():
                raise InputError(f"{name} must be positive numbers or zeros, not {getattr(self, name)}")
            object.__setattr__(self, name, value)


def loops_of(robot) -> LoopPlaces:
    """Loops of all joints with one coordinate."""
    joints = [joint for joint in robot.independent_joints if joint.type.is_scalar]
    q, v = np.arange(robot.nq), np.arange(robot.nv)
    return LoopPlaces(tuple(int(q[j.q][0]) for j in joints), tuple(int(v[j.v][0]) for j in joints))


def gains_of(robot, pd: PDGains, dt) -> LoopGains:
    """The LoopGains of a robot. Raises InputError."""
    if not isinstance(pd, PDGains):
        raise TypeError(f"pd must be PDGains, not {type(pd).__name__}")
    names = robot.joint_names
    if not names:
        raise InputError(f"pd: robot {robot.name!r} has no joint with one coordinate")
    effort = robot.effort_limits[list(loops_of(robot).v)] if pd.effort is None else pd.effort
    arrays = []
    for name, value in (("kp", pd.kp), ("kd", pd.kd), ("effort", effort)):
        array = np.asarray(value)
        if array.ndim and len(array) != len(names):
            raise InputError(f"{name} must have {len(names)} entries, not {len(array)}: {listed(names, 12)}")
        arrays.append(np.broadcast_to(array, len(names)))
    kp, kd, most = arrays
    return LoopGains(kp, stable_damping(kp, kd, dt), most)
