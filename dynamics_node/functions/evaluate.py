"""`evaluate`: a quantity of a robot in one call."""

from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import QuantityOptions, results
from dynamics_node.functions.build import ContactDerivatives, build
from dynamics_node.functions.choices import BACKENDS, Backend, require_known
from dynamics_node.functions.function import Errors
from dynamics_node.names import ArrayQuantity, QuantityName
from dynamics_node.robot import Robot
from dynamics_node.robot.contacts import Contact

if TYPE_CHECKING:
    from typing_extensions import Unpack


class CallChoices(QuantityOptions, total=False):
    """Keywords of `evaluate`."""

    f_ext: ArrayLike | None
    gravity: ArrayLike | None
    errors: Errors
    backend: Backend


class ContactCall(CallChoices):
    """Keywords of `evaluate` with contacts."""

    contacts: Contact | Iterable[Contact]


@overload
def evaluate(
    robot: Robot, name: ArrayQuantity, *arrays: ArrayLike, **choices: "Unpack[CallChoices]"
) -> np.ndarray: ...
@overload
def evaluate(
    robot: Robot, name: Literal["hybrid_dynamics"], *arrays: ArrayLike, **choices: "Unpack[CallChoices]"
) -> results.HybridDynamics: ...
@overload
def evaluate(
    robot: Robot,
    name: Literal["inverse_dynamics_derivatives"],
    *arrays: ArrayLike,
    **choices: "Unpack[CallChoices]",
) -> results.InverseDynamicsDerivatives: ...
@overload
def evaluate(
    robot: Robot,
    name: Literal["forward_dynamics_derivatives"],
    *arrays: ArrayLike,
    **choices: "Unpack[CallChoices]",
) -> results.ForwardDynamicsDerivatives: ...
@overload
def evaluate(
    robot: Robot,
    name: Literal["hybrid_dynamics_derivatives"],
    *arrays: ArrayLike,
    **choices: "Unpack[CallChoices]",
) -> results.HybridDynamicsDerivatives: ...
@overload
def evaluate(
    robot: Robot,
    name: Literal["inverse_dynamics_second_derivatives"],
    *arrays: ArrayLike,
    **choices: "Unpack[CallChoices]",
) -> results.InverseDynamicsSecondDerivatives: ...
@overload
def evaluate(
    robot: Robot, name: Literal["generalized_momentum"], *arrays: ArrayLike, **choices: "Unpack[CallChoices]"
) -> results.GeneralizedMomentum: ...
@overload
def evaluate(
    robot: Robot, name: Literal["center_of_mass"], *arrays: ArrayLike, **choices: "Unpack[CallChoices]"
) -> results.CenterOfMass: ...
@overload
def evaluate(
    robot: Robot, name: Literal["center_of_mass_motion"], *arrays: ArrayLike, **choices: "Unpack[CallChoices]"
) -> results.CenterOfMassMotion: ...
@overload
def evaluate(
    robot: Robot, name: Literal["frame_pose"], *arrays: ArrayLike, **choices: "Unpack[CallChoices]"
) -> results.FramePose: ...
@overload
def evaluate(
    robot: Robot, name: Literal["frame_poses"], *arrays: ArrayLike, **choices: "Unpack[CallChoices]"
) -> results.FramePoses: ...
@overload
def evaluate(
    robot: Robot, name: Literal["frame_kinematics"], *arrays: ArrayLike, **choices: "Unpack[CallChoices]"
) -> results.FrameKinematics: ...
@overload
def evaluate(
    robot: Robot,
    name: Literal["operational_space_inertia"],
    *arrays: ArrayLike,
    **choices: "Unpack[CallChoices]",
) -> results.OperationalSpaceInertia: ...
@overload
def evaluate(
    robot: Robot,
    name: Literal["operational_space_inertia_inverse"],
    *arrays: ArrayLike,
    **choices: "Unpack[CallChoices]",
) -> results.OperationalSpaceInertiaInverse: ...
@overload
def evaluate(
    robot: Robot, name: Literal["momentum_regressor"], *arrays: ArrayLike, **choices: "Unpack[CallChoices]"
) -> results.MomentumRegressor: ...
@overload
def evaluate(
    robot: Robot, name: Literal["energy_regressor"], *arrays: ArrayLike, **choices: "Unpack[CallChoices]"
) -> results.EnergyRegressor: ...
@overload
def evaluate(
    robot: Robot, name: Literal["joint_regressor"], *arrays: ArrayLike, **choices: "Unpack[CallChoices]"
) -> results.JointRegressor: ...
@overload
def evaluate(
    robot: Robot, name: Literal["inverse_dynamics"], *arrays: ArrayLike, **choices: "Unpack[ContactCall]"
) -> results.ContactInverseDynamics: ...
@overload
def evaluate(
    robot: Robot, name: Literal["forward_dynamics"], *arrays: ArrayLike, **choices: "Unpack[ContactCall]"
) -> results.ContactForwardDynamics: ...
@overload
def evaluate(
    robot: Robot, name: Literal["hybrid_dynamics"], *arrays: ArrayLike, **choices: "Unpack[ContactCall]"
) -> results.ContactHybridDynamics: ...
@overload
def evaluate(
    robot: Robot, name: Literal["delassus_matrix"], *arrays: ArrayLike, **choices: "Unpack[ContactCall]"
) -> results.DelassusMatrix: ...
@overload
def evaluate(
    robot: Robot, name: Literal["delassus_inverse"], *arrays: ArrayLike, **choices: "Unpack[ContactCall]"
) -> results.DelassusInverse: ...
@overload
def evaluate(
    robot: Robot, name: Literal["impact_dynamics"], *arrays: ArrayLike, **choices: "Unpack[ContactCall]"
) -> results.ImpactDynamics: ...
@overload
def evaluate(
    robot: Robot, name: ContactDerivatives, *arrays: ArrayLike, **choices: "Unpack[ContactCall]"
) -> Any: ...
def evaluate(
    robot: Robot,
    name: QuantityName,
    *arrays: ArrayLike,
    f_ext: ArrayLike | None = None,
    gravity: ArrayLike | None = None,
    errors: Errors = "raise",
    backend: Backend = "auto",
    contacts: Contact | Iterable[Contact] | None = None,
    **options: "Unpack[QuantityOptions]",
) -> Any:
    """Evaluate a quantity of a robot in one call, by the Function of `build`.

    The first call of a combination of robot, name, backend and options builds the Function. This takes 0.1 to
    5 s if its code is not on disk yet. The last 64 are cached, with their robots: later calls only compute,
    and take about 1 us more than the Function itself.

    Parameters
    ----------
    robot : Robot
        The robot, with or without closed loops.
    name : str
        A quantity of docs/reference/quantities.md: "inverse_dynamics", "mass_matrix", ...
    *arrays : array_like
        The arguments of the quantity, in order: q (..., nq), closed; qd, qdd, tau (..., nv); over one batch.
        Units are SI: rad, m, their rates, N m and N.
    f_ext : array_like (..., nbodies, 6), optional
        Wrenches of the environment ON the bodies, in their axes at their origins, moment first, N m and N.
    gravity : array_like (..., 3), optional
        In place of the robot's, m/s^2.
    errors : str
        'raise', or 'nan': NaN for states without a result.
    backend : str
        As in `build`. 'numpy' compiles nothing: NumPy interprets the Program, 0.1 to 1 ms a call for an arm,
        after a first call that takes 0.01 to 1 s.
    contacts : Contact or iterable of Contact, optional
        As in `build`.
    **options
        Options of quantities, as in `build`.

    Returns
    -------
    ndarray or NamedTuple
        The result of the Function of `build`.

    Raises
    ------
    InputError
        For an invalid argument, naming argument and coordinate.
    SolutionError
        If there is no finite result.
    KeyError, ModelError, ValueError, TypeError
        As in `build`.

    Examples
    --------
    >>> q = robot.neutral()
    >>> dn.evaluate(robot, "mass_matrix", q, backend="numpy").shape
    (7, 7)
    >>> dn.evaluate(robot, "center_of_mass", q, backend="numpy")  # several results: a NamedTuple
    CenterOfMass
      position  [0.0256, 0.0063, 0.627 ]
      jacobian  array (3, 7)
    """
    require_known("backend", backend, BACKENDS)
    key = tuple((option, _frozen(value)) for option, value in options.items()) if options else ()
    if contacts is not None:
        key = (*key, ("contacts", _frozen(contacts)))
    function = cached_function(robot, name, backend, f_ext is not None, key)
    if f_ext is None and gravity is None:
        return function(*arrays, errors=errors)
    named = {key: value for key, value in (("f_ext", f_ext), ("gravity", gravity)) if value is not None}
    return function(*arrays, **named, errors=errors)


def _frozen(option):
    """An option as a key of the cache."""
    return option if isinstance(option, Hashable) else tuple(option)


@lru_cache(maxsize=64)
def cached_function(robot, name, backend, f_ext=False, options=()):
    """The Function of `build`. backend: a known one; options: pairs, hashable."""
    return build(robot, name, backend=backend, f_ext=f_ext, **dict(options))
