"""Bias of a force/torque sensor, mass and center of mass of its tool, from poses: `identify_tool`.

Linear least squares in the bias, the mass m and the first moment m c: Atkeson, An, Hollerbach: Estimation of
inertial parameters of manipulator loads and links, IJRR 5(3), 1986.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import sensor_wrench, tool_regressor
from dynamics_node.algorithms.rates import spread_rates
from dynamics_node.display import titled
from dynamics_node.errors import InputError
from dynamics_node.functions.arguments import Arguments, robot_signature
from dynamics_node.functions.checks import numbers
from dynamics_node.identification.regression import fit_rows, named_in
from dynamics_node.robot import Robot
from dynamics_node.robot.inertial_parameters import with_tool
from dynamics_node.robot.subtree import mass_and_moment, only_subtree, subtree
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import congruence, inverse_motion_transform, matvec

NAMES = (
    *(f"bias of {what} {axis}" for what in ("torque", "force") for axis in "xyz"),
    "mass",
    *(f"center of mass {axis}" for axis in "xyz"),
)
FEWEST_POSES = 6  # least number of poses for a tool
MAX_CONDITION = 100.0
SHARE = 0.2  # fraction of an unexcited direction: parameters with smaller shares are not listed
FINEST_STD = 1e-9  # N or N m: least noise of a sensor
SIGNIFICANT = 3.0  # standard deviations: the mass must exceed them for its center to be determined


@dataclass(frozen=True, eq=False, repr=False)
class Tool:
    """A sensor's bias, and its tool: everything fixed to the child link of its joint.

    `identify_tool` returns it.

    Attributes
    ----------
    joint : str
        The joint of the sensor.
    sensor : dict
        Its pose in the child link: "xyz" in m and "rpy" in rad.
    bias : ndarray (6,)
        Offset of its readings, moment first, N m and N.
    mass : float
        Mass of the tool, kg.
    com : ndarray (3,)
        Center of mass of the tool, m, from the sensor's origin in its axes.
    covariance : ndarray (10, 10) or (6, 6)
        Covariance of bias, mass and com, or of the bias if only that is estimated.
    condition : float
        Condition number of the equations with columns of unit length.
    residuals : ndarray (k, 6)
        Residuals of the readings, N m and N.
    chi_square : float
        Their weighted sum of squares, NaN if std is not given.
    dof : int
        Degrees of freedom of chi_square.
    worst : int
        Index of the pose with the largest residual.

    Examples
    --------
    >>> q, rest = np.random.default_rng(0).uniform(-1, 1, (8, 7)), np.zeros(7)
    >>> held = dn.with_tool(robot, "panda_joint7", 0.8, [0.01, 0.02, 0.1])
    >>> readings = dn.evaluate(held, "sensor_wrench", q, rest, rest, joint="panda_joint7", backend="numpy")
    >>> noisy = readings + np.random.default_rng(1).normal(size=(8, 6), scale=[0.001] * 3 + [0.01] * 3)
    >>> tool = dn.identify_tool(robot, "panda_joint7", q, noisy, std=[0.001] * 3 + [0.01] * 3)
    >>> tool.com.round(2)
    array([0.01, 0.02, 0.1 ])
    >>> bool(tool.chi_square < 2 * tool.dof)  # the noise is as specified
    True
    """

    joint: str
    sensor: dict
    bias: np.ndarray
    mass: float
    com: np.ndarray
    covariance: np.ndarray
    condition: float
    residuals: np.ndarray
    chi_square: float
    dof: int
    worst: int

    def __repr__(self):
        std = self.std
        estimated = len(std) > len(self.bias)  # mass and center of mass, too
        return titled(
            f"Tool of {self.joint!r}",
            bias=self.bias,
            bias_std=std[:6],
            mass=f"{self.mass:.4g} kg",
            mass_std=std[6] if estimated else None,
            com=self.com,
            com_std=std[7:] if estimated else None,
            condition=self.condition,
            chi_square=f"{self.chi_square:.4g}, {self.dof} degrees of freedom",
            worst=f"pose {self.worst}, of {len(self.residuals)}",
        )

    @property
    def std(self) -> np.ndarray:
        """Standard deviations (10,) or (6,): square root of the diagonal of the covariance."""
        return np.sqrt(np.diag(self.covariance))

    def on(self, robot: Robot) -> Robot:
        """Return the Robot with this tool: see `with_tool`.

        Parameters
        ----------
        robot : Robot
            A robot with the joint.

        Returns
        -------
        Robot
        """
        return with_tool(robot, self.joint, self.mass, self.com, **self.sensor)


@explains_wrong_calls
def identify_tool(
    robot: Robot,
    joint: str,
    q: ArrayLike,
    readings: ArrayLike,
    qd: ArrayLike | None = None,
    qdd: ArrayLike | None = None,
    *,
    std: ArrayLike | None = None,
    prior: tuple[float, float] | None = None,
    tool: bool = True,
    max_condition: float = MAX_CONDITION,
    gravity: ArrayLike | None = None,
    xyz: Sequence[float] = (0.0, 0.0, 0.0),
    rpy: Sequence[float] = (0.0, 0.0, 0.0),
) -> Tool:
    """Identify the bias of a force/torque sensor and its tool from k poses at rest, or slow motions.

    Parameters
    ----------
    robot : Robot
        The robot, with or without closed loops.
    joint : str
        The joint of the sensor. The tool is everything fixed to its child link.
    q : array_like (k, nq)
        Positions, closed; at least 6 poses, or one for the bias alone.
    readings : array_like (k, 6)
        The wrenches that the parent of the joint exerts on its child, moment first, N m and N, in the axes of
        the sensor. The tool has no contact.
    qd, qdd : array_like (k, nv), optional
        Velocities and accelerations; zero by default.
    std : float or array_like (6,) or (6, 6), optional
        Standard deviations of a reading, N m and N, or its covariance; by default from the residuals.
    prior : tuple of two floats, optional
        Standard deviations, kg and kg m, of the described mass and first moment. Both are then used as
        measurements.
    tool : bool
        Whether to estimate the tool. Otherwise it is as described, and only the bias is estimated.
    max_condition : float
        Largest condition number of the equations.
    gravity : array_like (3,) or (k, 3), optional
        In place of the robot's, m/s^2.
    xyz, rpy : sequence of 3 floats
        Pose of the sensor in the child link, m and rad.

    Returns
    -------
    Tool

    Raises
    ------
    InputError
        For invalid states.
    KeyError
        For an unknown joint.
    ValueError
        For invalid readings, and if std is no covariance. Also if the poses do not excite all parameters, or
        if the mass of the tool is not significant.

    Examples
    --------
    >>> q, rest = np.random.default_rng(0).uniform(-1, 1, (8, 7)), np.zeros(7)
    >>> held = dn.with_tool(robot, "panda_joint7", 0.8, [0.01, 0.02, 0.1])
    >>> readings = dn.evaluate(held, "sensor_wrench", q, rest, rest, joint="panda_joint7", backend="numpy")
    >>> bias = [0.1, 0.2, 0.3, 1.0, 2.0, 3.0]
    >>> tool = dn.identify_tool(robot, "panda_joint7", q, readings + bias)
    >>> tool.bias.round(3)
    array([0.1, 0.2, 0.3, 1. , 2. , 3. ])
    >>> round(tool.mass, 3), tool.com.round(3)
    (0.8, array([0.01, 0.02, 0.1 ]))

    References
    ----------
    Atkeson, An and Hollerbach, Estimation of inertial parameters of manipulator loads and links, IJRR 5(3),
    1986.
    """
    sensor = {"xyz": xyz, "rpy": rpy}
    tree, q, qd, qdd, gravity = _states(robot, q, qd, qdd, gravity)
    readings = numbers("readings", readings)
    _check_readings(readings, len(q), FEWEST_POSES if tool else 1)
    alone = only_subtree(robot, joint).tree
    left = readings - sensor_wrench(alone, q, qd, qdd, gravity, joint=joint, **sensor)
    A = np.broadcast_to(np.eye(6), (len(q), 6, 6))
    if tool:
        Y = tool_regressor(tree, q, qd, qdd, gravity, joint=joint, **sensor)
        A = np.concatenate([A, Y], axis=-1)
    W = _whitening(_residual_std(A, left) if std is None else std)
    rows, rhs = _stacked(W @ A, matvec(W, left), prior if tool else None)
    x, covariance, spectrum = fit_rows(rows, rhs)
    _require_excited(spectrum, max_condition)
    residuals = left - A @ x
    mass, com, change = _tool(tree, joint, sensor, x[6:], covariance)
    chi_square = float(((rhs - rows @ x) ** 2).sum()) if std is not None else np.nan
    worst = int((matvec(W, residuals) ** 2).sum(axis=1).argmax())
    return Tool(
        joint, sensor, x[:6], mass, com, change @ covariance @ change.T,
        spectrum.condition(), residuals, chi_square, len(rhs) - len(x), worst,
    )  # fmt: skip


def _states(
    robot, q, qd, qdd, gravity
) -> tuple[Robot, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """The tree, and its q, qd, qdd over the poses; gravity as given."""
    zero = np.zeros(robot.nv)
    given = {"q": q, "qd": zero if qd is None else qd, "qdd": zero if qdd is None else qdd}
    given |= {} if gravity is None else {"gravity": gravity}
    arguments = Arguments(robot_signature(robot), {name: np.atleast_2d(a) for name, a in given.items()})
    arguments.require_valid()
    q, qd, qdd, *rest = arguments.spread().values()
    qd, qdd = spread_rates(robot, q, qd, qdd)
    return robot.tree, q, qd, qdd, rest[0] if rest else None


def _check_readings(readings, poses, fewest):
    if readings.shape != (poses, 6):
        raise InputError(f"readings must have shape ({poses}, 6), one of every pose, not {readings.shape}")
    if not np.isfinite(readings).all():
        raise InputError(f"reading {np.argwhere(~np.isfinite(readings))[0][0]} is not finite")
    if poses < fewest:
        raise InputError(f"{poses} poses; at least {fewest} are required")


def _residual_std(A, left):
    """Standard deviations (6,), one for torques and one for forces, from residuals with equal weights. At
    rest each has its own bias, and the torques determine the first moment, the forces the mass."""
    columns, poses = A.shape[-1], len(A)
    flat = A.reshape(-1, columns)
    left = (left.ravel() - flat @ np.linalg.lstsq(flat, left.ravel(), rcond=None)[0]).reshape(-1, 6)
    free = [3 * poses - 3, 3 * poses - 3] if columns == 6 else [3 * poses - 6, 3 * poses - 4]
    squares = [(part**2).sum() for part in (left[:, :3], left[:, 3:])]
    std = [np.sqrt(square / max(freedom, 1)) for square, freedom in zip(squares, free, strict=True)]
    return np.repeat(np.maximum(std, FINEST_STD), 3)


def _whitening(std):
    """W (6, 6) with W^T W the inverse of a reading's covariance."""
    covariance = numbers("std", std)
    if covariance.ndim < 2:
        if not (covariance > 0).all() or covariance.shape not in ((), (6,)):
            raise InputError(f"std must be one positive number or 6, not {covariance}")
        covariance = np.diag(np.broadcast_to(covariance, 6) ** 2)
    if covariance.shape != (6, 6) or not np.allclose(covariance, covariance.T, rtol=1e-9, atol=0):
        raise InputError("std is no covariance: (6, 6), symmetric")
    try:
        return np.linalg.inv(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        raise InputError("std is no covariance: it is not positive definite") from None


def _stacked(A, b, prior):
    """Rows and right-hand side of all poses and of the prior."""
    rows, rhs = A.reshape(-1, A.shape[-1]), b.ravel()
    if prior is None:
        return rows, rhs
    mass, moment = prior
    if not (mass > 0 and moment > 0):
        raise InputError(f"prior must be two positive standard deviations, not {prior}")
    prior_rows = np.diag([0.0] * 6 + [1 / mass] + [1 / moment] * 3)[6:]
    return np.concatenate([rows, prior_rows]), np.concatenate([rhs, np.zeros(4)])


def _require_excited(spectrum, most):
    """Raise ValueError with the parameters that are not excited."""
    if (condition := spectrum.condition()) > most:
        weak = spectrum.directions[
            :, ~spectrum.determined() | (spectrum.values * most**2 < spectrum.values[-1])
        ]
        named = named_in(weak, NAMES[: len(weak)], SHARE)
        raise InputError(
            f"the poses do not excite {', '.join(named)} (condition {condition:.3g}, at "
            f"most {most:g}): tilt the sensor farther and about other axes"
        )


def _tool(tree, joint, sensor, added, covariance):
    """Mass and center of mass of the whole tool, and the Jacobian (10, 10) of bias and both with respect to
    the solution. added: () or mass and first moment in addition to the described ones."""
    tool = subtree(tree, joint)
    described, moment = mass_and_moment(
        congruence(inverse_motion_transform(tool.sensor(**sensor)), tool.inertia)
    )
    if not added.size:
        return described, moment / described if described > 0 else np.zeros(3), np.eye(6)
    mass, moment = described + added[0], moment + added[1:]
    std = np.sqrt(covariance[6, 6])
    if not mass > SIGNIFICANT * std:
        raise InputError(
            f"the tool mass is {mass:.3g} kg, standard deviation {std:.2g}: too small to determine its "
            "center of mass; tool=False estimates only the bias"
        )
    com, change = moment / mass, np.eye(10)
    change[7:, 6], change[7:, 7:] = -com / mass, np.eye(3) / mass
    return float(mass), com, change
