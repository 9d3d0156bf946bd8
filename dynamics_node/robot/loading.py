"""A file, or its text -> Description -> Robot: a tree, the constraints of its loops, and their clusters."""

import contextlib
import hashlib
import io
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.errors import ModelError, ModelWarning
from dynamics_node.optional import required
from dynamics_node.robot.cad_loops import with_cad_loops
from dynamics_node.robot.constraints import FunctionConstraint
from dynamics_node.robot.description import Description
from dynamics_node.robot.from_description import loop_joints, tree_from_description
from dynamics_node.robot.loops.clusters import clusters
from dynamics_node.robot.loops_file import parse_loops_file, read_loops_file, with_loops
from dynamics_node.robot.mjcf import read_mjcf
from dynamics_node.robot.overrides import overridden, read_overrides, read_parameters_file
from dynamics_node.robot.robot import Robot
from dynamics_node.robot.safe_xml import elements
from dynamics_node.robot.selection import WHOLE, Selection
from dynamics_node.robot.urdf import read_urdf
from dynamics_node.robot.validate import validate
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.text import one_line


@explains_wrong_calls
def parse_robot(
    text: str | bytes,
    *,
    loops: str | bytes | None = None,
    parameters: str | None = None,
    constraints: Sequence[Callable[[Robot], FunctionConstraint]] = (),
    strict: bool = False,
    floating_base: bool = False,
    joints: Iterable[str] | None = None,
    positions: Mapping[str, float] | None = None,
    root: str | None = None,
    tips: Iterable[str] | None = None,
    gravity: ArrayLike | None = None,
    armature: Mapping[str, float] | None = None,
) -> Robot:
    """Read a Robot from the text of a URDF or URDF+ file.

    Parameters
    ----------
    text : str or bytes
        The description; see docs/reference/files.md for its elements.
    loops : str or bytes, optional
        Text of a file with more loops.
    parameters : str, optional
        Text of a file of inertias and friction, which replace those of the description.
    constraints, strict, floating_base, joints, positions, root, tips, gravity, armature
        As in `load_robot`.

    Returns
    -------
    Robot
        Its `warnings` list ignored and implausible parts of the description.

    Raises
    ------
    ModelError
        For an invalid description, as in `load_robot`.

    Warns
    -----
    ModelWarning
        If the Robot has `warnings`.

    Examples
    --------
    >>> pendulum = dn.parse_robot('''
    ...     <robot name="pendulum">
    ...       <link name="world"/>
    ...       <joint name="hinge" type="continuous">
    ...         <parent link="world"/> <child link="rod"/> <axis xyz="0 1 0"/>
    ...       </joint>
    ...       <link name="rod">
    ...         <inertial> <origin xyz="0 0 -0.5"/> <mass value="2"/>
    ...           <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/> </inertial>
    ...       </link>
    ...     </robot>''')
    >>> dn.evaluate(pendulum, "gravity_torque", [np.pi / 2]).round(2)  # 2 kg * 9.81 m/s^2 * 0.5 m
    array([9.81])
    """
    if isinstance(text, PathLike) or str(text).rstrip().endswith((".urdf", ".xacro", ".xml")):
        raise ModelError("parse_robot reads the text of a file: use load_robot for its path")
    selection = Selection(floating_base, joints, positions, root, tips, gravity, armature)
    file = None if loops is None else parse_loops_file(loops)
    return _loaded(read_description(text), file, parameters, constraints, strict, selection)


@explains_wrong_calls
def load_robot(
    path: str | Path,
    *,
    xacro_arguments: Mapping[str, str | float] | None = None,
    trusted_folder: str | Path | None = None,
    loops_file: str | Path | None = None,
    parameters_file: str | Path | None = None,
    constraints: Sequence[Callable[[Robot], FunctionConstraint]] = (),
    strict: bool = False,
    floating_base: bool = False,
    joints: Iterable[str] | None = None,
    positions: Mapping[str, float] | None = None,
    root: str | None = None,
    tips: Iterable[str] | None = None,
    gravity: ArrayLike | None = None,
    armature: Mapping[str, float] | None = None,
) -> Robot:
    """Read a Robot from a file in URDF, URDF+, xacro or MJCF.

    Parameters
    ----------
    path : str or Path
        The description; see docs/reference/files.md for its elements. A file that ends in .xacro is expanded
        first. MJCF is read by MuJoCo.
    xacro_arguments : mapping of str to str, number or bool, optional
        Arguments of a xacro file, in place of their defaults.
    trusted_folder : str or Path, optional
        The folder from which MJCF may include files and read meshes, by default that of the description.
    loops_file : str or Path, optional
        A file with more loops.
    parameters_file : str or Path, optional
        A file of inertias and friction, which replace those of the description.
    constraints : sequence of callables
        Functions (tree) -> FunctionConstraint, for constraints that no file can describe.
    strict : bool
        Whether implausible inertias raise ModelError; otherwise they are warnings.
    floating_base : bool
        Whether a floating joint moves the root link. A root without mass on which all links float stands for
        the world and stays.
    joints : iterable of str, optional
        The joints that move, with those that mimic them. The others stay at `positions`.
    positions : mapping of str to float, optional
        Positions of joints that do not move, rad or m; 0 where absent.
    root : str, optional
        The new root: joints that are not below this link stay at `positions`, and only links below it are
        part of the robot.
    tips : iterable of str, optional
        Last links: the joints on the ways to these move, with those that mimics, gears and loops couple to
        them. The other joints stay at `positions`, and links keep their mass.
    gravity : array_like (3,), optional
        Acceleration of free fall in root axes, m/s^2. By default (0, 0, -9.81), turned into the axes of a
        fixed `root`.
    armature : mapping of str to float, optional
        Rotor inertias of joints, kg m^2 or kg, which replace those of the description.

    Returns
    -------
    Robot
        Its `warnings` list ignored and implausible parts of the description.

    Raises
    ------
    ModelError
        For an invalid description; the message names the joint, link, loop or coupling. Loops without
        mobility, of changing rank or without an assembled position are invalid, too, and so is a singular
        choice of independent joints.
    ImportError
        For xacro or MJCF without the package that reads it.
    OSError
        For a file that cannot be read.
    TypeError
        For a `floating_base` that is no bool, or an argument of xacro that is no text, number or bool.

    Warns
    -----
    ModelWarning
        If the Robot has `warnings`.

    References
    ----------
    Chignoli, Adrian, Kim and Wensing, "Recursive Rigid-Body Dynamics Algorithms for Systems with Kinematic
    Loops": URDF+, loops and couplings.

    Examples
    --------
    >>> dn.example_robot("panda", tips=["panda_link2"])  # the joints beyond are fixed at 0
    Robot 'panda': 2 bodies, nq 2, nv 2
      root      panda_link0, fixed
      joints    panda_joint1, panda_joint2
      mass      16.82 kg, moving
      gravity   [ 0. , 0. , -9.81]
    """
    if isinstance(path, str) and path.lstrip().startswith("<"):
        raise ModelError("load_robot reads a file: use parse_robot for the text of one")
    loops = None
    if loops_file is not None:
        loops = parse_loops_file(read_loops_file(loops_file), f"loops file {str(loops_file)!r}")
    parameters = None if parameters_file is None else read_parameters_file(parameters_file)
    selection = Selection(floating_base, joints, positions, root, tips, gravity, armature)
    description = read_file(path, xacro_arguments, trusted_folder)
    return _loaded(description, loops, parameters, constraints, strict, selection)


LISTED = 3  # warnings of a robot in a ModelWarning


def _loaded(description, loops, parameters, constraints, strict, selection):
    """The Robot, after a ModelWarning with its first warnings, if it has any."""
    if parameters is not None:
        description = overridden(description, read_overrides(parameters))
    if loops is not None:
        description = with_loops(description, loops)
    robot = robot_from_description(description, selection, constraints, strict)
    if loops is not None:
        _require_independent(robot, loops.motors)
    if robot.warnings:
        more = len(robot.warnings) - LISTED
        rest = f"; and {more} more, see `warnings` of the robot" if more > 0 else ""
        text = f"{robot.name}: {'; '.join(robot.warnings[:LISTED])}{rest}"
        warnings.warn(text, ModelWarning, stacklevel=4)
    return robot


# --- the Robot of a Description -----------------------------------------------------------------------------


def robot_from_description(
    description: Description, selection: Selection = WHOLE, constraints=(), strict=False
) -> Robot:
    """The Robot of a Description. constraints, strict and errors as in `load_robot`."""
    description = with_cad_loops(description)
    tree = tree_from_description(description, selection, validate(description, strict))
    loops, open_loops = loop_joints(tree, description)
    tree = replace(tree, warnings=(*tree.warnings, *open_loops))
    ties = [*loops, *(make(tree) for make in constraints)]
    if not ties:
        return tree
    flags = {joint.name: joint.independent for joint in description.joints}
    return replace(tree, clusters=tuple(clusters(tree, ties, flags)))


def _require_independent(robot, motors):
    """Raise ModelError if a motor is at an implicit joint, where no torque acts."""
    for v, name in enumerate(robot.tree.v_names):
        if name in motors and v not in robot.independent:
            (cluster,) = (cluster for cluster in robot.clusters if v in cluster.dependent)
            loops = ", ".join(repr(constraint.name) for constraint in cluster.constraints)
            raise ModelError(
                f"motor {name!r} of the file of loops is not independent: it follows from others in {loops}"
            )


# --- the Description in a file ------------------------------------------------------------------------------

READERS: dict[str, Callable[[Element], Description]] = {"robot": read_urdf}
MJCF = "mujoco"
PAGE = "see docs/how-to/bring_your_robot.md"
_STARTS = "a URDF starts with <robot>, MJCF with <mujoco>"
_REMEDIES = {
    "sdf": "SDF is not read: convert it to MJCF with sdf2mjcf of the package sdformat-mjcf",
    "model": "this is not a robot, but perhaps a package.xml or a model of SDF",
}


def read_description(text: str | bytes) -> Description:
    """The Description, not yet validated. Raises ModelError for over-sized, malformed or hostile XML, and,
    naming it, for an element that cannot be read."""
    return _read(_root(text), text)


def read_file(
    path: str | Path,
    xacro_arguments: Mapping[str, str | float] | None = None,
    trusted_folder: str | Path | None = None,
) -> Description:
    """The Description of a file in URDF, xacro or MJCF, not yet validated. Raises as `read_description` and
    `read_mjcf`, naming the file, and ImportError without what the format needs."""
    path = Path(path).expanduser()
    text: str | bytes = path.read_bytes()
    try:
        if path.suffix == ".xacro":
            text = expanded(path, xacro_arguments or {})
        elif xacro_arguments:
            raise ModelError("arguments of xacro are for files that end in .xacro")
        root = _root(text)
        if root.tag == MJCF:
            return replace(read_mjcf(path, trusted_folder), digest=_digest(text))
        return _read(root, text)
    except ModelError as error:
        raise named_error(error, path) from None


def named_error(error: ModelError, path: object) -> ModelError:
    """The error with the name of the file, if it does not have it."""
    return error if str(path) in str(error) else ModelError(f"{path}: {error}")


def _root(text):
    """The root element. Raises ModelError."""
    try:
        return elements(text)
    except ModelError:
        if ("<" if isinstance(text, str) else b"<") in text.lstrip()[:4]:  # after a byte order mark
            raise
        start = "a URDF starts with <robot>, MJCF with <mujoco>"
        raise ModelError(
            f"robot description is malformed XML: it starts with no tag; {start}, {PAGE}"
        ) from None


def _read(root, text):
    if root.tag == MJCF:
        raise ModelError(
            f"MJCF is read from a file, since it includes others: use dn.load_robot(path), {PAGE}"
        )
    if root.tag not in READERS:
        remedy = _REMEDIES.get(root.tag, _STARTS)
        raise ModelError(f"robot description starts with <{one_line(root.tag, 40)}>: {remedy}, {PAGE}")
    return replace(READERS[root.tag](root), digest=_digest(text))


def _digest(text):
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def expanded(path: str | Path, arguments: Mapping[str, str | float]) -> str:
    """The text of a xacro file with its macros and expressions expanded. Raises ModelError, ImportError, and
    TypeError for arguments that xacro cannot read."""
    if not isinstance(arguments, Mapping):
        raise TypeError(f"xacro_arguments must be a mapping {{name: value}}, not {type(arguments).__name__}")
    mappings = {name: _literal(name, value) for name, value in arguments.items()}
    xacro = required("xacro", f"the expansion of {path}")
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # it prints what its errors say
            return xacro.process_file(str(path), mappings=mappings).toxml()
    except Exception as error:  # expressions of the file raise anything
        reason = one_line(" ".join(str(error).split()) or type(error).__name__, 300)
        raise ModelError(f"{path}: xacro cannot expand it: {reason}, {PAGE}") from None


def _literal(name, value) -> str:
    """An argument as xacro writes it."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float | PathLike):
        return str(value)
    kind = type(value).__name__
    raise TypeError(f"xacro_arguments[{name!r}] must be a text, a number or a boolean, not {kind}")
