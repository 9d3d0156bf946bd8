"""Fixed tendons of a compiled MuJoCo model: linear functions of joint positions, length = sum of coef q.

With an armature, damping, friction or a spring, a tendon is like a motor that turns with its joints. An
actuator at a tendon is one, too, with the weights gear coef. A linear equality of tendons couples joints.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dynamics_node.robot.description import ActuatorDescription, LinearCoupling
from dynamics_node.text import listed

TENDON = "tendon"  # the kind of these actuators


class Tendons(NamedTuple):
    """actuators, couplings: of a Description; warnings: of what is left out."""

    actuators: tuple[ActuatorDescription, ...]
    couplings: tuple[LinearCoupling, ...]
    warnings: tuple[str, ...]


def tendons_of(mujoco, model, joints) -> Tendons:
    """The fixed tendons of a model. joints: names by number, of hinges and slides; other names differ."""
    weights = {k: _weights(mujoco, model, joints, k) for k in range(model.ntendon)}
    names = {k: model.tendon(k).name or f"tendon_{k}" for k in weights}
    fixed = [k for k in weights if weights[k]]
    couplings, warnings = _equalities(mujoco, model, weights)
    spatial = [names[k] for k in weights if not weights[k]]
    limited = [names[k] for k in fixed if model.tendon_limited[k] or model.tendon_actfrclimited[k]]
    slack = [names[k] for k in fixed if model.tendon_stiffness[k] and np.ptp(model.tendon_lengthspring[k])]
    for what, found in (
        ("spatial tendons", spatial),
        ("limits of tendons", limited),
        ("springs of tendons that are slack over a range", slack),
    ):
        if found:
            warnings.append(f"{what} are not read: {listed(found, 4)}")
    passive = [_passive(model, names[k], weights[k], k) for k in fixed if _acts(model, k)]
    return Tendons(_named(mujoco, model, joints, weights, names, passive), couplings, tuple(warnings))


def gear_of_tendon(mujoco, model, actuator, joint) -> float:
    """The gear between a joint and an actuator at a fixed tendon of this joint alone; infinite if it has
    others, too: then its force limits no torque. 0 if the actuator does not move the joint."""
    if int(model.actuator_trntype[actuator]) != int(mujoco.mjtTrn.mjTRN_TENDON):
        return 0.0
    parts = _parts(mujoco, model, int(model.actuator_trnid[actuator, 0]))
    moved = {own for own, coef in parts if coef}
    if joint not in moved:
        return 0.0
    alone = float(model.actuator_gear[actuator, 0]) * sum(coef for _, coef in parts)
    return alone if len(moved) == 1 else np.inf


def _parts(mujoco, model, tendon):
    """(joint, coef) of a fixed tendon; empty for a spatial one."""
    first = model.tendon_adr[tendon]
    wraps = range(first, first + model.tendon_num[tendon])
    if any(int(model.wrap_type[k]) != int(mujoco.mjtWrap.mjWRAP_JOINT) for k in wraps):
        return []
    return [(int(model.wrap_objid[k]), float(model.wrap_prm[k])) for k in wraps]


def _weights(mujoco, model, joints, tendon):
    weights: dict[str, float] = {}
    for joint, coef in _parts(mujoco, model, tendon):
        weights[joints[joint]] = weights.get(joints[joint], 0.0) + coef
    return {joint: weight for joint, weight in weights.items() if weight}


def _acts(model, k):
    arrays = model.tendon_damping, model.tendon_frictionloss, model.tendon_stiffness, model.tendon_armature
    return any(array[k] for array in arrays)


def _passive(model, name, weights, k):
    """What a tendon does by itself."""
    stiffness, rest = float(model.tendon_stiffness[k]), model.tendon_lengthspring[k]
    stiffness = 0.0 if np.ptp(rest) else stiffness
    return ActuatorDescription(
        name=name,
        transmission=name,
        kind=TENDON,
        weights=weights,
        armature=float(model.tendon_armature[k]),
        damping=float(model.tendon_damping[k]),
        friction=float(model.tendon_frictionloss[k]),
        spring=stiffness,
        torque_offset=-stiffness * float(rest[0]),
    )


def _named(mujoco, model, joints, weights, names, passive):
    """The tendons that act, and the actuators at tendons; each with a name of its own."""
    found = list(passive)
    for a in range(model.nu):
        tendon = int(model.actuator_trnid[a, 0])
        if int(model.actuator_trntype[a]) == int(mujoco.mjtTrn.mjTRN_TENDON) and weights[tendon]:
            gear = float(model.actuator_gear[a, 0])
            scaled = {joint: gear * weight for joint, weight in weights[tendon].items() if gear}
            name = model.actuator(a).name or f"actuator_{a}"
            found.append(
                ActuatorDescription(name=name, transmission=names[tendon], kind=TENDON, weights=scaled)
            )
    taken = set(joints)
    named = []
    for own in found:
        name = own.name
        while name in taken:
            name += "_tendon"
        taken.add(name)
        named.append(replace(own, name=name))
    return tuple(own for own in named if own.weights)


def _equalities(mujoco, model, weights):
    """LinearCouplings: length1 - rest1 = c0 + c1 (length2 - rest2), and warnings."""
    couplings, warnings = [], []
    for k in range(model.neq):
        if int(model.eq_type[k]) != int(mujoco.mjtEq.mjEQ_TENDON) or not model.eq_active0[k]:
            continue
        name = model.equality(k).name or f"equality_{k}"
        first, second = int(model.eq_obj1id[k]), int(model.eq_obj2id[k])
        offset, slope, *more = model.eq_data[k, :5].tolist()
        if not weights[first] or (second >= 0 and (any(more) or not weights[second])):
            warnings.append(f"equality {name!r} is not a linear one of fixed tendons: it is left out")
            continue
        total, offset = dict(weights[first]), offset + float(model.tendon_length0[first])
        if second >= 0:
            offset -= slope * float(model.tendon_length0[second])
            for joint, weight in weights[second].items():
                total[joint] = total.get(joint, 0.0) - slope * weight
        couplings.append(LinearCoupling(name, total, offset))
    return tuple(couplings), warnings
