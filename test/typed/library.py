"""What an editor knows of the library: `assert_type` fails in mypy --strict and pyright, not at run time."""

from pathlib import Path
from typing import assert_type

import numpy as np

import dynamics_node as dn

robot = dn.load_robot(Path("panda.urdf"), floating_base=False, gravity=(0.0, 0.0, -9.81))
assert_type(robot, dn.Robot)
assert_type(dn.parse_robot("<robot/>"), dn.Robot)
assert_type(robot.q_names, tuple[str, ...])
assert_type(dn.with_payload(robot, "panda_hand", 1.0, [0.0, 0.0, 0.1]), dn.Robot)
assert_type(dn.with_tool(robot, "panda_joint7", 0.5, (0.0, 0.0, 0.05)), dn.Robot)
q, qd, qdd = np.zeros((3, 7))

# Functions: the result follows from the name of the quantity
inverse: dn.Function[np.ndarray] = dn.build(robot, "inverse_dynamics", f_ext=True, precision="float32")
assert_type(inverse(q, qd, qdd), np.ndarray)
center = dn.build(robot, "center_of_mass")(q)
assert_type(center.position, np.ndarray)
assert_type(dn.build(robot, "frame_jacobian", link="panda_hand")(q), np.ndarray)
derivatives = dn.build(robot, "forward_dynamics_derivatives", backend="numpy")(q, qd, qdd)
assert_type(derivatives.dqdd_dq, np.ndarray)
parallel = dn.build(robot, "forward_dynamics", solver="cfa")
assert_type(parallel(q, qd, qdd), np.ndarray)
assert_type(dn.evaluate(robot, "mass_matrix", q), np.ndarray)
estimator = dn.build(robot, dn.sensor_problem(robot, []))
assert_type(estimator, dn.Estimator)
feet = [dn.Contact("panda_hand")]
standing = dn.evaluate(robot, "forward_dynamics", q, qd, qdd, [1.0], contacts=feet)
assert_type(standing.contact_forces, np.ndarray)
impact = dn.build(robot, "impact_dynamics", contacts=feet)(q, qd, [1.0])
assert_type(impact.contact_impulses, np.ndarray)
assert_type(dn.build_loop_solver(robot), dn.LoopSolver)
assert_type(robot.gravity, np.ndarray)
assert_type(dn.external_wrenches(robot, {"panda_hand": qd[:6]}, axes="world", q=q), np.ndarray)

# Positions
assert_type(dn.integrate(robot, q, qd), np.ndarray)
assert_type(dn.difference(robot, q, q), np.ndarray)
assert_type(dn.close_loops(robot, q), np.ndarray)
assert_type(dn.first_closed(robot, q), np.ndarray)
rotation: np.ndarray = dn.exp3([0.0, 0.0, 1.0])
vector: np.ndarray = dn.log3(rotation)

# Errors: one root
try:
    inverse(q, qd, qdd)
except dn.InputError as error:
    assert_type(error, dn.InputError)
except dn.Error as error:
    assert_type(error, dn.Error)
