"""Eleven scenes of rollouts with contacts beside MuJoCo with stiff contacts.

Ours has steps of 1 ms and 0.25 ms, MuJoCo of 0.25 ms: time constant of contacts and limits 1 ms, impedance
0.9999, elliptic cones, impratio 100. Printed are the largest distances of positions over the whole scene, in
m and rad: ours from MuJoCo, ours of 1 ms from ours of 0.25 ms, and MuJoCo's from MuJoCo's with a time
constant of 2 ms. The last two tell how much the steps and the springs of the models matter.
"""

from typing import NamedTuple

import harness
import mujoco
import numpy as np
from contact_problems import BOX, FEET, LEGS, corners, soles
from mujoco_oracle import POINT, Tree
from robots import robot

import dynamics_node as dn
from dynamics_node.robot.transforms import transform_origin, transform_rotation

DT, FINE = 1e-3, 2.5e-4
SOLREF, SOLIMP = 1e-3, (0.9999, 0.9999, 1e-3, 0.5, 2)
CUBE = BOX.replace('ixx=".02" iyy=".03" izz=".04"', 'ixx=".0133" iyy=".0133" izz=".0133"')
FLAT = np.r_[0, 0, 0.1, 0, 0, 0, 1.0]
FLOOR = (dn.Plane(friction=0.6),)


class Scene(NamedTuple):
    """torques: (nv,), or a function of q and qd."""

    name: str
    model: dn.Robot
    contacts: list
    q: np.ndarray
    qd: np.ndarray
    seconds: float
    torques: np.ndarray
    ground: tuple = FLOOR
    limits: bool = False


def scenes():
    cube, eight, rest = dn.parse_robot(CUBE), list(corners()), np.zeros(6)
    yield Scene("box dropped from 0.2 m", cube, eight, FLAT + np.r_[0, 0, 0.2, [0] * 4], rest, 0.5, rest)
    yield Scene("box slides at 2 m/s", cube, eight, FLAT, np.r_[0, 0, 0, 2, 0, 0], 0.5, rest)
    spun = np.r_[1.0, 3.0, 0.5, 1.0, 0, 0]
    yield Scene("box tumbles", cube, eight, FLAT + np.r_[0, 0, 0.3, [0] * 4], spun, 0.5, rest)
    yield Scene("box is pushed with 15 N", cube, eight, FLAT, rest, 0.5, np.r_[0, 0, 0, 15.0, 0, 0])
    ball = dn.parse_robot(CUBE.replace(".0133", ".008"))
    yield Scene(
        "ball slides, then rolls",
        ball,
        [dn.Contact("box", radius=0.1)],
        FLAT,
        np.r_[0, 0, 0, 2, 0, 0],
        0.5,
        rest,
    )
    yield from of_panda()
    yield from of_solo()
    yield from of_talos()


def of_panda():
    panda = robot("panda")
    q = np.array([0.0, 0.2, 0.0, -2.2, 0.0, 2.4, 0.8])
    hand = dn.evaluate(panda, "frame_poses", q, links=["panda_hand"]).positions[0]
    wall = (dn.Plane(normal=(-1, 0, 0), offset=-hand[0] - 0.01, friction=0.6),)
    torques = dn.evaluate(panda, "gravity_torque", q)
    jacobian = dn.evaluate(panda, "frame_jacobian", q, link="panda_hand")
    torques = torques + jacobian[3:].T @ [20.0, 0, 0]
    zero = np.zeros(7)
    yield Scene(
        "arm presses a wall with 20 N", panda, [dn.Contact("panda_hand")], q, zero, 0.4, torques, wall
    )
    yield Scene("arm falls against its limits", panda, [], q, zero, 0.6, zero, (), True)


def of_solo():
    solo = robot("solo12")
    q = np.r_[0, 0, 0, 0, 0, 0, 1, LEGS]
    q[2] = -dn.evaluate(solo, "frame_poses", q, links=[c.link for c in FEET]).positions[:, 2].min()
    zero = np.zeros(18)
    torques = dn.build(solo, dn.inverse_dynamics(solo, FEET))(q, zero, zero, np.ones(4))[0]
    yield Scene("Solo12 stands", solo, FEET, q, zero, 0.1, np.r_[np.zeros(6), torques[6:]])
    knees = [dn.Contact(link.replace("FOOT", "LOWER_LEG"), name=link[:2]) for link in ("FL_FOOT", "FR_FOOT")]
    kneels = q.copy()
    kneels[2], kneels[7:13] = 0.0, [0, 0.3, -2.8] * 2
    links = [contact.link for contact in (*FEET, *knees)]
    kneels[2] = 0.005 - dn.evaluate(solo, "frame_poses", kneels, links=links).positions[:, 2].min()
    holding = Held(solo, kneels[7:], 5.0, 0.2)
    yield Scene("Solo12 kneels", solo, [*FEET, *knees], kneels, zero, 0.3, holding)
    q[2] += 0.1
    yield Scene("Solo12 falls onto its feet", solo, FEET, q, zero, 0.4, Held(solo, q[7:], 5.0, 0.2))


def of_talos():
    talos = robot("talos")
    q = talos.neutral()
    q[2] += 0.02 - dn.evaluate(talos, "frame_poses", q, links=["left_sole_link"]).positions[0, 2]
    zero = np.zeros(talos.nv)
    yield Scene("Talos falls, without torques", talos, list(soles()), q, zero, 0.3, zero, FLOOR, True)


class Held(NamedTuple):
    """PD loops of all joints behind the floating base."""

    model: dn.Robot
    targets: np.ndarray
    kp: float
    kd: float

    def __call__(self, q, qd):
        return np.r_[np.zeros(6), self.kp * (self.targets - q[7:]) - self.kd * qd[6:]]


def ours(scene, dt):
    """q (steps + 1, nq) at steps of 1 ms."""
    forward, steps = dn.build(scene.model, "forward_dynamics"), round(scene.seconds / dt)
    options = {"contacts": scene.contacts, "ground": scene.ground or FLOOR, "limits": scene.limits}
    if isinstance(scene.torques, Held):
        controls, options["pd"] = scene.torques.targets, dn.PDGains(scene.torques.kp, scene.torques.kd)
    else:
        controls = scene.torques
    path = forward.rollout(
        scene.q, scene.qd, np.tile(controls, (steps, 1)), dt, friction=False, sweeps=50, **options
    )
    return path.q[:: round(DT / dt)]


def theirs(scene, time_constant):
    tree = with_contacts(scene, time_constant)
    model, data = tree.model, mujoco.MjData(tree.model)
    data.qpos[:], data.qvel[:] = tree.qpos(scene.q), tree.qvel(scene.q, scene.qd)
    path = [data.qpos.copy()]
    for step in range(round(scene.seconds / FINE)):
        q, qd = own_state(scene, tree, data)
        torques = scene.torques(q, qd) if callable(scene.torques) else scene.torques
        data.qfrc_applied[:] = tree.qvel(q, np.asarray(torques))
        mujoco.mj_step(model, data)
        if (step + 1) % round(DT / FINE) == 0:
            path.append(data.qpos.copy())
    return tree, np.array(path)


def own_state(scene, tree, data):
    """q and qd in our order; velocities of a base are not needed here."""
    q, qd = np.array(scene.q, dtype=float), np.zeros(scene.model.nv)
    for joint in scene.model.independent_joints:
        own = tree.model.joint(joint.name)
        at, v = own.qposadr[0], own.dofadr[0]
        values = data.qpos[at : at + joint.type.nq].copy()
        if joint.type.quaternion is not None:
            values[-4:] = np.roll(values[-4:], -1)
        q[joint.q], qd[joint.v] = values, data.qvel[v : v + joint.type.nv]
    return q, qd


def with_contacts(scene, time_constant):
    """MuJoCo's tree with spheres at the contacts and the planes of the ground."""
    tree = Tree(scene.model, limits=scene.limits)
    spec, touched = tree.model_spec(), ([dn.Plane()] if not scene.ground else scene.ground)
    for contact in scene.contacts:
        frame = scene.model.frame(contact.link)
        place = transform_origin(frame.X) + transform_rotation(frame.X).T @ np.array(contact.xyz)
        body = spec.body(scene.model.tree.bodies[frame.body].name)
        geom = body.add_geom(size=[contact.radius or POINT, 0, 0], pos=place, mass=0.0)
        geom.contype, geom.conaffinity, geom.condim, geom.friction = 1, 0, 3, [touched[0].friction, 0, 0]
    for plane in touched if scene.contacts else ():
        lower = 0.0 if scene.contacts[0].radius else POINT
        normal = np.array(plane.normal)
        geom = spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_PLANE, size=[100, 100, 1], pos=(plane.offset - lower) * normal
        )
        mujoco.mju_quatZ2Vec(quaternion := np.zeros(4), normal)
        geom.quat, geom.contype, geom.conaffinity, geom.friction = quaternion, 0, 1, [plane.friction, 0, 0]
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, 100
    model = spec.compile()
    model.opt.timestep, model.opt.gravity, model.opt.tolerance = FINE, scene.model.tree.gravity, 1e-12
    for name in ("geom", "jnt"):
        getattr(model, f"{name}_solref")[:] = time_constant, 1.0
        getattr(model, f"{name}_solimp")[:] = SOLIMP
    tree.model = model
    return tree


def main():
    options = harness.arguments("contact_scenes").parse_args()
    rows = []
    for scene in scenes():
        tree, stiff = theirs(scene, SOLREF)
        _, softer = theirs(scene, 2 * SOLREF)
        coarse, fine = (tree.qpos(ours(scene, dt)) for dt in (DT, FINE))
        away = [
            np.abs(a - b).max() for a, b in ((coarse, stiff), (fine, stiff), (coarse, fine), (stiff, softer))
        ]
        moved = np.abs(stiff - stiff[0]).max()
        print(
            f"{scene.name:32} moves {moved:8.1e}; from MuJoCo {away[0]:8.1e}, finer steps {away[1]:8.1e};",
            end=" ",
        )
        print(f"by steps {away[2]:8.1e}; MuJoCo's by springs {away[3]:8.1e}")
        rows.append(harness.Row(scene.name, away[0], "m, rad", "lower"))
    harness.finish("contact_scenes", rows, harness.versions("mujoco", "numpy"), options.save)


if __name__ == "__main__":
    main()
