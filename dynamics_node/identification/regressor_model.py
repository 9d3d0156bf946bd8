"""The torques as a linear function of named parameters."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import inertial_parameters, inertias_of_parameters
from dynamics_node.algorithms.joint_friction import CREEP, SMOOTHING
from dynamics_node.algorithms.regressors import NAMES, PER_BODY
from dynamics_node.display import titled
from dynamics_node.errors import InputError
from dynamics_node.functions import Backend, build
from dynamics_node.robot import Joint, Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import pseudo_inertia, transform_origin

TERMS = ("inertia", "rotor", "viscous", "coulomb", "creep", "offset", "spring")
USUAL = ("inertia", "viscous", "coulomb", "offset")
_BLOCKS = ("rotor", "viscous", "offset", "spring")  # outputs of the quantity joint_regressor


@explains_wrong_calls
@dataclass(frozen=True, eq=False, repr=False)
class RegressorModel:
    """Torques of a robot as a linear function of named parameters: tau = matrix(q, qd, qdd) @ parameters.

    Parameters
    ----------
    robot : Robot
        The robot, with or without closed loops.
    terms : tuple of str
        Kinds of parameters, in the order of columns. 'inertia' has ten inertial parameters per body: LINK.m,
        LINK.mx, ..., LINK.Izz. The others have one column per joint with one coordinate, including dependent
        joints of loops: JOINT.rotor, JOINT.viscous, JOINT.coulomb, JOINT.creep, JOINT.offset, JOINT.spring.
        Without the term 'rotor', rotor inertias are those of the robot.
    backend : str
        As in `build`, for the regressors.
    measured : tuple of str, optional
        Names of the coordinates whose torques are used, default all; the rows of the others are zero.

    Raises
    ------
    ValueError
        For an unknown term or coordinate.

    Examples
    --------
    >>> linear = dn.RegressorModel(robot, ("inertia", "viscous"), backend="numpy")
    >>> linear.names[0], linear.names[-1], len(linear.names)
    ('panda_link1.m', 'panda_joint7.viscous', 77)
    >>> q, rest = robot.neutral(), np.zeros(7)
    >>> W = linear.matrix(q, rest, rest)
    >>> tau = dn.evaluate(robot, "inverse_dynamics", q, rest, rest, backend="numpy")
    >>> W.shape, np.allclose(W @ linear.described, tau)
    ((7, 77), True)
    """

    robot: Robot
    terms: tuple[str, ...] = USUAL
    backend: Backend = "auto"
    measured: tuple[str, ...] | None = None

    def __post_init__(self):
        if unknown := set(self.terms) - set(TERMS):
            raise InputError(f"unknown terms {sorted(unknown)}; there are {', '.join(TERMS)}")
        if unknown := set(self.measured or ()) - set(self.robot.v_names):
            raise InputError(
                f"unknown coordinate {min(unknown)!r}; there are {', '.join(self.robot.v_names)}"
            )

    def __repr__(self):
        return titled(
            f"RegressorModel of {self.robot.name!r}: {len(self.names)} parameters",
            terms=self.terms,
            joints=[joint.name for joint in self.joints],
            measured=self.measured,
            backend=self.backend,
        )

    @cached_property
    def counts(self) -> np.ndarray:
        """Mask (nv,) of the torques that are used."""
        names = self.robot.v_names
        return np.array([self.measured is None or name in self.measured for name in names])

    @cached_property
    def joints(self) -> tuple[Joint, ...]:
        """Joints with one coordinate, and explicit joints that follow several; each has a column in every
        joint term."""
        tree = self.robot.tree
        return (*(joint for joint in tree.independent_joints if joint.type.is_scalar), *tree.shared_joints)

    @cached_property
    def axles(self) -> list[int]:
        """Indices of these joints in Robot.axle_map."""
        independent = [joint.v.start for joint in self.joints if joint.masters is None]
        return [*independent, *range(self.robot.tree.nv, len(self.robot.tree.axle_map))]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        inertial = [f"{body.name}.{name}" for body in self.robot.bodies for name in NAMES]
        by_joint = {term: [f"{joint.name}.{term}" for joint in self.joints] for term in TERMS}
        return tuple(
            name for term in self.terms for name in (inertial if term == "inertia" else by_joint[term])
        )

    def places(self, term: str) -> slice:
        """Columns of a term.

        Parameters
        ----------
        term : str
            A kind of parameters.

        Returns
        -------
        slice
            Its columns; empty for a term that is not among `terms`.
        """
        start = 0
        for kind in self.terms:
            size = PER_BODY * self.robot.nbodies if kind == "inertia" else len(self.joints)
            if kind == term:
                return slice(start, start + size)
            start += size
        return slice(start, start)

    @cached_property
    def described(self) -> np.ndarray:
        """Parameters (p,) of the description."""
        tree = self.robot.tree
        by_axle = {"rotor": tree.armature, "viscous": tree.damping, "coulomb": tree.friction}
        by_axle |= {"creep": tree.creep, "offset": tree.torque_offsets, "spring": tree.springs}
        values = {term: array[self.axles] for term, array in by_axle.items()}
        return np.concatenate([(values | {"inertia": self.described_inertias})[term] for term in self.terms])

    @cached_property
    def described_inertias(self) -> np.ndarray:
        """Described inertial parameters (10 nbodies,), even if they are not a term."""
        return inertial_parameters(self.robot.tree.inertias).ravel()

    def inertial(
        self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, gravity: ArrayLike | None = None
    ) -> np.ndarray:
        """Regressor of the inertial parameters, even if they are not a term.

        Parameters
        ----------
        q : array_like (..., nq)
            Positions, closed, rad or m.
        qd, qdd : array_like (..., nv)
            Rates and accelerations.
        gravity : array_like (3,), optional
            In place of the robot's, m/s^2.

        Returns
        -------
        ndarray (..., nv, 10 nbodies)
        """
        columns = self._inertial(q, qd, qdd, **({} if gravity is None else {"gravity": gravity}))
        return columns if self.measured is None else np.where(self.counts[:, None], columns, 0.0)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Typical magnitudes (p,): at least 1 kg, 0.1 kg m, 0.01 kg m^2, 1 N m, 1 N m s/rad. For a body they
        are its described mass, and that mass times the first and second power of its radius of gyration about
        its frame."""
        return self.sizes_of(self.described_inertias)

    def sizes_of(self, inertias: np.ndarray, radius: float = 0.0) -> np.ndarray:
        """Typical magnitudes, as `sizes`, for other bodies.

        Parameters
        ----------
        inertias : ndarray (10 nbodies,)
            Inertial parameters.
        radius : float or ndarray (nbodies,)
            Lower bounds of the radii of gyration, m.

        Returns
        -------
        ndarray (p,)
        """
        J = pseudo_inertia(inertias_of_parameters(inertias.reshape(-1, 10)))
        mass = J[:, 3, 3]
        moment = np.trace(J[:, :3, :3], axis1=1, axis2=2)
        moment = np.maximum(moment, np.maximum(mass, 0.0) * radius**2)
        of_body = np.stack([mass, *3 * [np.sqrt(moment * np.maximum(mass, 0.0))], *6 * [moment]], axis=-1)
        least = np.array([1.0, *3 * [0.1], *6 * [0.01]])
        sizes = {"inertia": np.maximum(of_body, least).ravel(), "rotor": np.full(len(self.joints), 0.01)}
        return np.concatenate([sizes.get(term, np.ones(len(self.joints))) for term in self.terms])

    @cached_property
    def reaches(self) -> np.ndarray:
        """Distance (nbodies,) in m from the frame of a body to its farthest child joint."""
        tree = self.robot.tree
        reaches = np.zeros(tree.nbodies)
        for body in tree.bodies:
            if body.parent >= 0:
                reach = np.linalg.norm(transform_origin(body.X_tree))
                reaches[body.parent] = max(reaches[body.parent], reach)
        return reaches

    def matrix(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> np.ndarray:
        """Regressor of all parameters.

        Parameters
        ----------
        q : array_like (..., nq)
            Positions, closed, rad or m.
        qd, qdd : array_like (..., nv)
            Rates and accelerations.

        Returns
        -------
        ndarray (..., nv, p)
            A row per torque, a column per parameter.
        """
        blocks = self.joint_blocks(q, qd, qdd)
        if "inertia" in self.terms:
            blocks["inertia"] = self.inertial(q, qd, qdd)
        return np.concatenate([blocks[term] for term in self.terms], axis=-1)

    def known(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> np.ndarray:
        """Torques that no parameter changes: those of rotor inertias, unless these are a term.

        Parameters
        ----------
        q : array_like (..., nq)
            Positions, closed, rad or m.
        qd, qdd : array_like (..., nv)
            Rates and accelerations.

        Returns
        -------
        ndarray (..., nv)
            Torques, N m or N.
        """
        tree = self.robot.tree
        if "rotor" in self.terms or not tree.armature.any():
            return np.zeros(np.shape(qdd))
        at = self.axles
        return self.joint_blocks(q, qd, qdd)["rotor"] @ tree.armature[at]

    @cached_property
    def _inertial(self):
        return build(self.robot, "joint_torque_regressor", backend=self.backend)

    @cached_property
    def _of_joints(self):
        return build(self.robot, "joint_regressor", backend=self.backend)

    def joint_blocks(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> dict[str, np.ndarray]:
        """Regressors of all joint terms, even of those that are not among `terms`.

        Coulomb friction is smoothed as in `smooth_friction`, creep more widely.

        Parameters
        ----------
        q : array_like (..., nq)
            Positions, closed, rad or m.
        qd, qdd : array_like (..., nv)
            Rates and accelerations.

        Returns
        -------
        dict
            {term: (..., nv, joints)}.
        """
        at = self.axles
        arrays = dict(zip(_BLOCKS, self._of_joints(q, qd, qdd), strict=True))
        blocks = {name: block[..., at] for name, block in arrays.items()}
        if self.measured is not None:
            blocks = {name: np.where(self.counts[:, None], block, 0.0) for name, block in blocks.items()}
        offset, viscous = blocks["offset"], blocks["viscous"]
        rates = np.divide(viscous, offset, out=np.zeros_like(viscous), where=offset != 0)
        widths = {"coulomb": SMOOTHING, "creep": CREEP}
        return blocks | {term: offset * np.tanh(rates / width) for term, width in widths.items()}
