"""A file in MJCF -> Description, by MuJoCo: its compiler resolves defaults, frames and inertias.

A body becomes a link. Its joints become a chain of massless links, one after the other as MuJoCo applies
them; their anchors and axes are fixed in the body. Positions keep their meaning: `ref` moves the frame.
Only a file of the user is read, never text from the network: MJCF includes other files, see mjcf_files.py.
"""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dynamics_node.errors import ModelError
from dynamics_node.optional import required
from dynamics_node.robot.description import (
    Description,
    JointDescription,
    Limits,
    Link,
    LoopDescription,
    LoopEnd,
    Mimic,
)
from dynamics_node.robot.mjcf_files import contained_file, require_contained_files
from dynamics_node.robot.mjcf_tendons import gear_of_tendon, tendons_of
from dynamics_node.symbolic import exp3, quaternion_rotation
from dynamics_node.text import listed, one_line

WORLD = "world"


def read_mjcf(path: str | Path, trusted_folder: str | Path | None = None) -> Description:
    """The Description of a file in MJCF, not yet validated. It may name files of the trusted folder, by
    default of its own.

    Raises ModelError for a file that MuJoCo cannot compile, ImportError without MuJoCo, OSError for a file
    that cannot be read.
    """
    mujoco = required("mujoco", "the reader of MJCF")
    require_contained_files(path, trusted_folder)
    spec = _compilable(mujoco, path, trusted_folder)
    try:
        with warnings.catch_warnings(record=True) as remarks:
            warnings.simplefilter("always")
            model = spec.compile()
    except ValueError as error:
        reason = one_line(" ".join(str(error).split()), 300)
        raise ModelError(f"{path}: MuJoCo cannot compile it: {reason}") from None
    with np.errstate(all="ignore"):  # validate.py names numbers that are not finite
        description = _description(mujoco, spec, model)
    said = (f"MuJoCo: {one_line(remark.message, 300)}" for remark in remarks)
    return replace(description, warnings=(*description.warnings, *said))


def _compilable(mujoco, path, folder):
    """The MjSpec without the geometry that determines no inertia: its meshes need not be there."""
    try:
        spec = mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        reason = one_line(" ".join(str(error).split()), 300)
        raise ModelError(f"{path}: MuJoCo cannot read it: {reason}") from None
    spec.compiler.fusestatic = False
    by_geoms = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    for body in spec.bodies:
        if body.name == WORLD or (body.explicitinertial and not by_geoms):
            for geom in list(body.geoms):
                spec.delete(geom)
    _delete_unused(path, folder, spec)
    for part in (*spec.geoms, *spec.sites, *spec.tendons):
        part.material = ""
    unneeded = (spec.skins, spec.materials, spec.textures, spec.sensors, spec.pairs, spec.keys, spec.tuples)
    for part in [part for parts in unneeded for part in parts]:
        spec.delete(part)
    usual = mujoco.MjSpec()  # of simulations
    spec.memory, spec.njmax, spec.nconmax = usual.memory, usual.njmax, usual.nconmax
    return spec


def _delete_unused(path, folder, spec):
    """Delete meshes and height fields without a geom; the files of the others must be in the folder. Raises
    ModelError."""
    used = {name for geom in spec.geoms for name in (geom.meshname, geom.hfieldname)}
    for part in (*list(spec.meshes), *list(spec.hfields)):
        if part.name not in used:
            spec.delete(part)
        elif part.file:
            name = Path(part.file).name if spec.strippath else part.file
            contained_file(path, folder, "the file of geometry", Path(path).parent / spec.meshdir / name)


def _description(mujoco, spec, model):
    names = _Names(mujoco, model)
    joints = [joint for body in range(1, model.nbody) for joint in _joints_of(mujoco, model, names, body)]
    links = [Link(WORLD), *(_link(mujoco, model, names, body) for body in range(1, model.nbody))]
    known = {link.name for link in links}
    links += [Link(joint.child) for joint in joints if joint.child not in known]
    frames = _sites(model, names)
    loops, joints, left_out = _equalities(mujoco, model, names, joints)
    tendons = tendons_of(mujoco, model, names.joints)
    return Description(
        name=spec.modelname or "robot",
        links=(*links, *(Link(frame.child) for frame in frames)),
        joints=(*joints, *frames),
        loops=tuple(loops),
        linear_couplings=tendons.couplings,
        actuators=tendons.actuators,
        warnings=(*left_out, *tendons.warnings, *_unread(mujoco, model, names)),
        gravity=tuple(model.opt.gravity.tolist()) if _falls(mujoco, model) else (0.0, 0.0, 0.0),
    )


def _falls(mujoco, model):
    """Whether gravity is not switched off."""
    return not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY


class _Names:
    """Names of bodies, joints and sites by number; made ones for those without, each different."""

    def __init__(self, mujoco, model):
        self.bodies = [model.body(k).name or f"body_{k}" for k in range(model.nbody)]
        self.joints = [
            model.joint(k).name or f"{self.bodies[model.jnt_bodyid[k]]}_joint_{k}" for k in range(model.njnt)
        ]
        self.taken = set(self.bodies)
        self.sites = [
            self._free(model.site(k).name) if model.site(k).name else "" for k in range(model.nsite)
        ]

    def _free(self, name):
        """The name, or one made from it that no link has."""
        while name in self.taken:
            name += "_site"
        self.taken.add(name)
        return name


# --- links and joints ---------------------------------------------------------------------------------------


def _rotation(quaternion):
    """R (3, 3) of MuJoCo's w x y z."""
    w, x, y, z = quaternion
    return quaternion_rotation(np.array([x, y, z, w]))


def _link(mujoco, model, names, body):
    """MuJoCo takes nearly equal frames of a body and its inertia for the same one."""
    same, kinds = int(model.body_sameframe[body]), mujoco.mjtSameFrame
    turned = same not in (int(kinds.mjSAMEFRAME_BODY), int(kinds.mjSAMEFRAME_BODYROT))
    R = _rotation(model.body_iquat[body]) if turned else np.eye(3)
    inertia = (R * model.body_inertia[body]) @ R.T
    mass, com = float(model.body_mass[body]), np.array(model.body_ipos[body])
    com = np.zeros(3) if same == int(kinds.mjSAMEFRAME_BODY) else com
    return Link(names.bodies[body], mass, com, 0.5 * (inertia + inertia.T))


def _joints_of(mujoco, model, names, body):
    """The joints from the parent of a body to it: its own one after the other, or a fixed one."""
    name, parent = names.bodies[body], names.bodies[model.body_parentid[body]]
    rotation, origin = _rotation(model.body_quat[body]), np.array(model.body_pos[body])
    first = model.body_jntadr[body]
    numbers = range(first, first + model.body_jntnum[body])
    if any(int(model.jnt_type[k]) == int(mujoco.mjtJoint.mjJNT_FREE) for k in numbers):
        return [_moving(mujoco, model, names, first, parent, name, np.eye(3), np.zeros(3))]
    if not numbers:
        return [JointDescription(f"{name}_fixed", "fixed", parent, name, rotation, origin)]
    found, before, at = [], parent, np.zeros(3)
    for k in numbers:
        anchor = np.array(model.jnt_pos[k])
        place = origin + rotation @ anchor if k == first else anchor - at
        turn = rotation if k == first else np.eye(3)
        last = k == numbers[-1] and not anchor.any()
        child = name if last else f"{name}:{names.joints[k]}"
        found.append(_moving(mujoco, model, names, k, before, child, turn, place))
        before, at = child, anchor
    if before != name:
        found.append(JointDescription(f"{name}_fixed", "fixed", before, name, origin=-at))
    return found


def _moving(mujoco, model, names, k, parent, child, rotation, origin):
    """Joint k, in a frame in which its position is `ref` where the file places its body."""
    kind, axis = _KINDS[int(model.jnt_type[k])], np.array(model.jnt_axis[k])
    v = int(model.jnt_dofadr[k])
    ref = float(model.qpos0[model.jnt_qposadr[k]]) if kind in ("revolute", "prismatic") else 0.0
    if ref and kind == "revolute":
        rotation = rotation @ exp3(-ref * axis)
    elif ref:
        origin = origin - rotation @ axis * ref
    stiffness = float(model.jnt_stiffness[k]) if kind in ("revolute", "prismatic") else 0.0
    rest = float(model.qpos_spring[model.jnt_qposadr[k]]) if stiffness else 0.0
    limits = _limits(mujoco, model, k) if kind in ("revolute", "prismatic") else Limits()
    if kind == "revolute" and not model.jnt_limited[k]:
        kind = "continuous"
    free = kind == "floating"
    return JointDescription(
        name=names.joints[k],
        kind=kind,
        parent=parent,
        child=child,
        rotation=rotation,
        origin=origin,
        axis=axis,
        limits=limits,
        damping=0.0 if free else float(model.dof_damping[v]),
        friction=0.0 if free else float(model.dof_frictionloss[v]),
        armature=0.0 if free else float(model.dof_armature[v]),
        spring=stiffness,
        torque_offset=-stiffness * rest,
    )


_KINDS = {0: "floating", 1: "ball", 2: "prismatic", 3: "revolute"}  # of mjtJoint


def _limits(mujoco, model, k):
    """Range of positions, and the largest torque."""
    lower, upper = model.jnt_range[k] if model.jnt_limited[k] else (-np.inf, np.inf)
    return Limits(float(lower), float(upper), effort=float(np.abs(_torques(mujoco, model, k)).max()))


def _torques(mujoco, model, k):
    """The lowest and the highest torque (2,) at a joint, by actuators that move it alone; infinite without
    a bound."""
    own = model.jnt_actfrcrange[k] if model.jnt_actfrclimited[k] else np.array([-np.inf, np.inf])
    gears = {a: gear for a in range(model.nu) if (gear := _gear(mujoco, model, a, k))}
    if not all(map(np.isfinite, gears.values())) or not gears:
        return own
    return np.clip(sum(np.sort(gear * _forces(mujoco, model, a)) for a, gear in gears.items()), *own)


def _gear(mujoco, model, actuator, joint):
    """The gear of an actuator at this joint, see `gear_of_tendon` for those at tendons; 0 at others."""
    at_joint = [int(kind) for kind in (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)]
    if int(model.actuator_trntype[actuator]) not in at_joint:
        return gear_of_tendon(mujoco, model, actuator, joint)
    return float(model.actuator_gear[actuator, 0]) if model.actuator_trnid[actuator, 0] == joint else 0.0


def _forces(mujoco, model, a):
    """The lowest and the highest force (2,) of an actuator; infinite without a bound."""
    unlimited = np.array([-np.inf, np.inf])
    forces = model.actuator_forcerange[a] if model.actuator_forcelimited[a] else unlimited
    is_motor = (
        int(model.actuator_gaintype[a]) == int(mujoco.mjtGain.mjGAIN_FIXED)
        and int(model.actuator_biastype[a]) == int(mujoco.mjtBias.mjBIAS_NONE)
        and int(model.actuator_dyntype[a]) != int(mujoco.mjtDyn.mjDYN_INTEGRATOR)
    )
    if not (is_motor and model.actuator_ctrllimited[a]):
        return forces
    return np.clip(np.sort(model.actuator_gainprm[a, 0] * model.actuator_ctrlrange[a]), *forces)


def _sites(model, names):
    """Fixed frames at the sites that have a name."""
    return [
        JointDescription(
            f"{name}_fixed",
            "fixed",
            names.bodies[model.site_bodyid[k]],
            name,
            _rotation(model.site_quat[k]),
            np.array(model.site_pos[k]),
        )
        for k, name in enumerate(names.sites)
        if name
    ]


# --- equalities ---------------------------------------------------------------------------------------------


def _equalities(mujoco, model, names, joints):
    """Loops, the joints with those that follow others, and warnings of equalities that are not read."""
    connect, weld, of_joints = (
        int(kind) for kind in (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD, mujoco.mjtEq.mjEQ_JOINT)
    )
    loops, left_out = [], []
    followers: dict[str, Mimic] = {}
    for k in range(model.neq):
        name, kind = model.equality(k).name or f"equality_{k}", int(model.eq_type[k])
        if not model.eq_active0[k]:
            left_out.append(f"equality {name!r} is not active: it is left out")
        elif kind in (connect, weld):
            loops.append(_loop(mujoco, model, names, k, name, kind == connect))
        elif kind == int(mujoco.mjtEq.mjEQ_TENDON):
            continue  # see mjcf_tendons.py
        elif kind == of_joints and (follower := _follower(model, names, k, followers)):
            followers |= follower
        else:
            left_out.append(f"equality {name!r} is none of connect, weld and a linear one of two joints")
    joints = [replace(joint, mimic=followers.get(joint.name)) for joint in joints]
    return loops, joints, left_out


def _loop(mujoco, model, names, k, name, connects):
    first, second = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
    if int(model.eq_objtype[k]) == int(mujoco.mjtObj.mjOBJ_SITE):
        ends = [_site_end(model, names, site) for site in (first, second)]
    elif connects:
        points = model.eq_data[k, :3], model.eq_data[k, 3:6]
        ends = [
            LoopEnd(names.bodies[body], origin=np.array(point))
            for body, point in zip((first, second), points, strict=True)
        ]
    else:
        pose = _rotation(model.eq_data[k, 6:10]), np.array(model.eq_data[k, 3:6])
        ends = [LoopEnd(names.bodies[first], *pose), LoopEnd(names.bodies[second])]
    return LoopDescription(name, "ball" if connects else "fixed", *ends)


def _site_end(model, names, site):
    body, R = names.bodies[model.site_bodyid[site]], _rotation(model.site_quat[site])
    return LoopEnd(body, R, np.array(model.site_pos[site]))


def _follower(model, names, k, followers):
    """{joint: the Mimic} of an equality q1 - ref1 = c0 + c1 (q2 - ref2); empty if it is not of this form."""
    first, second = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
    offset, slope, *more = model.eq_data[k, :5].tolist()
    if second < 0 or any(more) or not slope or names.joints[first] in followers:
        return {}
    ref, ref_second = (float(model.qpos0[model.jnt_qposadr[joint]]) for joint in (first, second))
    return {names.joints[first]: Mimic(names.joints[second], slope, ref + offset - slope * ref_second)}


# --- what is not read ---------------------------------------------------------------------------------------


def _unread(mujoco, model, names):
    """Warnings of parts that act on the robot in MuJoCo, and are left out."""
    several, torques = model.jnt_type < 2, [_torques(mujoco, model, k) for k in range(model.njnt)]
    unequal = np.array([low != -high for low, high in torques], dtype=bool)
    dynamic = [model.actuator(k).name or str(k) for k in range(model.nu) if model.actuator_dyntype[k]]
    parts: dict[str, Any] = {
        "dynamics of actuators": dynamic,
        "gravity compensation of bodies": [model.body(k).name for k in np.flatnonzero(model.body_gravcomp)],
        "flexible bodies": [str(k) for k in range(model.nflex)],
        "springs of ball and free joints": [
            model.joint(k).name for k in np.flatnonzero(several & (model.jnt_stiffness != 0))
        ],
        "the smaller torques of unequal ranges": [
            names.joints[k] for k in np.flatnonzero(~several & unequal)
        ],
        "the medium": ["density or viscosity"] * bool(model.opt.density or model.opt.viscosity),
    }
    return [f"{what} are not read: {listed(named, 4)}" for what, named in parts.items() if named]
