"""Known and unknown quantities: the same equations with other unknowns."""

from collections.abc import Iterable
from dataclasses import dataclass

from dynamics_node.errors import InputError
from dynamics_node.robot.contacts import Contact, ContactRows, valid_contacts
from dynamics_node.robot.robot import Robot
from dynamics_node.robot.sensor_problem import SensorProblem, sensor_problem
from dynamics_node.robot.state_arrays import Shapes, state_shapes
from dynamics_node.robot.wrong_calls import explains_wrong_calls

KINDS = ("inverse", "forward", "hybrid")
KNOWN = {"inverse": ("qdd",), "forward": ("tau",), "hybrid": ("qdd", "tau")}
UNKNOWN = {"inverse": ("tau",), "forward": ("qdd",), "hybrid": ("qdd", "tau")}


@dataclass(frozen=True)
class Problem:
    """A choice of known and unknown quantities at joints and contacts: the same equations, other unknowns.

    `inverse_dynamics`, `forward_dynamics` and `hybrid_dynamics` make it, and `build` solves it.

    Attributes
    ----------
    kind : {'inverse', 'forward', 'hybrid'}
        The kind, which determines the arguments and results of its Function.
    forward : tuple of bool (nv,)
        For every velocity coordinate, whether its torque is known and its acceleration unknown. Otherwise
        the acceleration is known and the torque unknown.
    contacts : tuple of Contact
        Contacts. Which are active is an argument: there the acceleration is known and the force unknown,
        elsewhere the force is zero.

    References
    ----------
    Xie and Dellaert, "A Unified Method for Solving Inverse, Forward, and Hybrid Manipulator Dynamics using
    Factor Graphs".

    Examples
    --------
    >>> problem = dn.hybrid_dynamics(robot, ["panda_joint7"])
    >>> problem
    Problem('hybrid', 1 of 7 coordinates forward)
    >>> list(problem.reads(robot)), list(problem.returns(robot))
    (['q', 'qd', 'qdd', 'tau', 'gravity'], ['qdd', 'tau'])
    """

    kind: str
    forward: tuple[bool, ...]
    contacts: tuple[Contact, ...] = ()

    def __repr__(self):
        contacts = f", {len(self.contacts)} contacts" if self.contacts else ""
        forward = f"{sum(self.forward)} of {len(self.forward)} coordinates forward"
        return f"Problem({self.kind!r}, {forward}{contacts})"

    @property
    def rows(self) -> ContactRows:
        """Names and places of the rows of the contacts in `contact_forces` and `contact_accelerations`."""
        return ContactRows(self.contacts)

    def reads(self, robot: Robot, wrenches: bool = False) -> Shapes:
        """Return the shapes of the arguments at a state.

        Parameters
        ----------
        robot : Robot
            The robot.
        wrenches : bool
            Whether external wrenches are an argument.

        Returns
        -------
        dict of str to tuple
            Shapes of q, qd, the known ones of qdd and tau, and gravity. With contacts, those of `active` and
            `contact_accelerations`; with `wrenches`, that of f_ext. Unknown entries of qdd and tau of a
            hybrid problem have no effect.
        """
        shapes = state_shapes(robot, ("q", "qd", *KNOWN[self.kind]))
        if self.contacts:
            shapes |= {"active": (len(self.contacts),), "contact_accelerations": (len(self.rows.names),)}
        return shapes | state_shapes(robot, ("f_ext", "gravity") if wrenches else ("gravity",))

    def returns(self, robot: Robot) -> Shapes:
        """Return the shapes of the results at a state.

        Parameters
        ----------
        robot : Robot
            The robot.

        Returns
        -------
        dict of str to tuple
            Shape of qdd or tau; with contacts, that of `contact_forces`. A hybrid problem has both qdd and
            tau, complete with their known entries.
        """
        forces = {"contact_forces": (len(self.rows.names),)} if self.contacts else {}
        return state_shapes(robot, UNKNOWN[self.kind]) | forces


def with_wrenches(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of arguments with f_ext, which like gravity is optional: before it at the end."""
    return (*names[:-1], "f_ext", names[-1])


@explains_wrong_calls
def inverse_dynamics(robot: Robot, contacts: Iterable[Contact] = ()) -> Problem:
    """Return the problem with known accelerations and unknown torques.

    Parameters
    ----------
    robot : Robot
        The robot.
    contacts : iterable of Contact, optional
        Contacts whose forces are unknown where they are active. The shortest forces are chosen that leave no
        torque at a floating base; torques there are what they cannot give.

    Returns
    -------
    Problem
        Its Function computes tau (..., nv) from q, qd and qdd. With contacts it also reads active, and
        returns contact_forces.

    Raises
    ------
    ContactError
        For a contact at an unknown link or at one that is fixed; the message names it.

    References
    ----------
    Xie and Dellaert, "A Unified Method for Solving Inverse, Forward, and Hybrid Manipulator Dynamics using
    Factor Graphs", sec. IV.

    Examples
    --------
    >>> inverse = dn.build(robot, dn.inverse_dynamics(robot), backend="numpy")
    >>> tau = inverse(np.zeros(7), np.zeros(7), np.zeros(7))
    >>> tau[[1, 3, 5]].round(2)  # against gravity
    array([-4.04, -3.27,  2.3 ])
    """
    return Problem("inverse", (False,) * robot.nv, valid_contacts(robot, contacts))


@explains_wrong_calls
def forward_dynamics(robot: Robot, contacts: Iterable[Contact] = ()) -> Problem:
    """Return the problem with known torques and unknown accelerations.

    Parameters
    ----------
    robot : Robot
        The robot.
    contacts : iterable of Contact, optional
        Contacts whose accelerations are known where they are active, zero by default.

    Returns
    -------
    Problem
        Its Function computes qdd (..., nv) from q, qd and tau. With contacts it also reads active, and
        returns contact_forces.

    Raises
    ------
    ContactError
        For a contact at an unknown link or at one that is fixed; the message names it.

    References
    ----------
    Xie and Dellaert, "A Unified Method for Solving Inverse, Forward, and Hybrid Manipulator Dynamics using
    Factor Graphs", sec. V.

    Examples
    --------
    >>> forward = dn.build(robot, dn.forward_dynamics(robot), backend="numpy")
    >>> qdd = forward(np.zeros(7), np.zeros(7), np.zeros(7))
    >>> qdd[[1, 3]].round(1)  # the arm falls
    array([16.6, 34.2])
    """
    return Problem("forward", (True,) * robot.nv, valid_contacts(robot, contacts))


@explains_wrong_calls
def hybrid_dynamics(robot: Robot, forward_joints: Iterable[str], contacts: Iterable[Contact] = ()) -> Problem:
    """Return the problem with known torques at some joints, and known accelerations at the others.

    Parameters
    ----------
    robot : Robot
        The robot.
    forward_joints : iterable of str
        Independent joints with known torque and unknown acceleration.
    contacts : iterable of Contact, optional
        Contacts as in `forward_dynamics`. With a floating base as the only forward joint, these are the
        inverse dynamics of a robot on its feet.

    Returns
    -------
    Problem
        Its Function computes complete qdd and tau (..., nv) from q, qd, qdd and tau. With contacts it also
        reads active, and returns contact_forces.

    Raises
    ------
    ValueError
        For a joint that is unknown or mimics another; the message names it.
    ContactError
        For a contact at an unknown link or at one that is fixed; the message names it.

    References
    ----------
    Featherstone, "Rigid Body Dynamics Algorithms", sec. 9.2. Xie and Dellaert, "A Unified Method for Solving
    Inverse, Forward, and Hybrid Manipulator Dynamics using Factor Graphs", sec. VI.

    Examples
    --------
    >>> problem = dn.hybrid_dynamics(robot, ["panda_joint7"])  # a joint without a motor
    >>> hybrid = dn.build(robot, problem, backend="numpy")
    >>> zero, accelerations = np.zeros(7), np.eye(7)[0]  # the first joint accelerates
    >>> qdd, tau = hybrid(zero, zero, accelerations, zero)
    >>> qdd.round(2) + 0.0  # the last one follows
    array([1.  , 0.  , 0.  , 0.  , 0.  , 0.  , 1.03])
    """
    forward = [False] * robot.nv
    known = {joint.name: joint for joint in robot.independent_joints}
    for name in forward_joints:
        if name not in known:
            raise InputError(
                f"forward joint {name!r} is unknown or mimics another; known: {', '.join(known)}"
            )
        forward[known[name].v] = [True] * (known[name].v.stop - known[name].v.start)
    return Problem("hybrid", tuple(forward), valid_contacts(robot, contacts))


def named(
    kind: str, robot: Robot, forward_joints: Iterable[str] = (), contacts: Iterable[Contact] = ()
) -> Problem:
    """The problem of one of KINDS; only a hybrid one has `forward_joints`. Raises ValueError for an unknown
    kind, and as in `hybrid_dynamics`."""
    if kind not in KINDS:
        raise InputError(f"unknown problem {kind!r}; there are {', '.join(KINDS)}")
    if kind == "hybrid":
        return hybrid_dynamics(robot, forward_joints, contacts)
    return (inverse_dynamics if kind == "inverse" else forward_dynamics)(robot, contacts)


__all__ = [
    "KINDS",
    "Problem",
    "SensorProblem",
    "Shapes",
    "forward_dynamics",
    "hybrid_dynamics",
    "inverse_dynamics",
    "named",
    "sensor_problem",
    "state_shapes",
]
