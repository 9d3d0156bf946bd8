"""
A generated solver by acados
============================

acados generates C of a planner for a Panda: a second, half of the torques, Gauss-Newton steps and HPIPM. The
solver links the exported inverse dynamics. It needs `acados <https://docs.acados.org>`__ and CasADi.

LD_LIBRARY_PATH=panda_acados:$LD_LIBRARY_PATH ./dev run -- python examples/mpc_acados.py
"""
# sphinx_gallery_thumbnail_path = 'figures/mpc_casadi.png'

from pathlib import Path

import casadi
import numpy as np
from acados_template import AcadosOcp, AcadosOcpSolver

import dynamics_node as dn

INTERVALS, HORIZON = 20, 1.0  # s
START = np.array([0.9, 0.5, 0.0, -1.8, 0.0, 2.3, 0.8])
GOAL = START + np.array([-1.5, 0, 0, 0.3, 0, 0, 0])
FOLDER = Path("panda_acados")  # in the working directory: the library and the generated solver
SHARE = 0.5  # of the torques of the URDF


def problem(robot, folder):
    """States are q and qd, controls are accelerations; torques have limits."""
    dn.build(robot, "inverse_dynamics").export(folder, target="shared", name="panda", derivatives=True)
    torque = casadi.external("panda_inverse_dynamics_casadi", str(folder / "libpanda.so"))
    q, qd, qdd = (casadi.MX.sym(name, robot.nv) for name in ("q", "qd", "qdd"))

    ocp = AcadosOcp()
    model, cost, limits, options = ocp.model, ocp.cost, ocp.constraints, ocp.solver_options
    model.name, model.x, model.u = "panda", casadi.vertcat(q, qd), qdd
    model.f_expl_expr = casadi.vertcat(qd, qdd)
    model.con_h_expr = model.con_h_expr_0 = torque(q, qd, qdd) / (SHARE * robot.effort_limits)
    limits.uh = limits.uh_0 = np.ones(robot.nv)
    limits.lh = limits.lh_0 = -np.ones(robot.nv)
    limits.x0 = np.concatenate([START, np.zeros(robot.nv)])
    cost.cost_type = cost.cost_type_e = "NONLINEAR_LS"
    model.cost_y_expr = casadi.vertcat(q - GOAL, 0.3 * qd, 0.03 * qdd)
    model.cost_y_expr_e = casadi.vertcat(q - GOAL, qd)
    cost.W, cost.yref = np.eye(3 * robot.nv), np.zeros(3 * robot.nv)
    cost.W_e, cost.yref_e = 10 * np.eye(2 * robot.nv), np.zeros(2 * robot.nv)
    options.N_horizon, options.tf = INTERVALS, HORIZON
    options.integrator_type, options.nlp_solver_type = "ERK", "SQP"
    options.hessian_approx, options.qp_solver = "GAUSS_NEWTON", "PARTIAL_CONDENSING_HPIPM"
    ocp.code_gen_options.model_external_shared_lib_dir = str(folder)
    ocp.code_gen_options.model_external_shared_lib_name = "panda"
    return ocp


def main():
    robot = dn.example_robot("panda", tips=["panda_hand"])
    ocp = problem(robot, FOLDER.absolute())
    ocp.code_gen_options.code_export_directory = str(FOLDER / "generated")
    solver = AcadosOcpSolver(ocp, verbose=False)
    status, seconds = solver.solve(), solver.get_stats("time_tot")
    controls = np.array([solver.get(k, "u") for k in range(INTERVALS)])
    states = np.array([solver.get(k, "x") for k in range(INTERVALS + 1)])
    print(f"status {status}, {solver.get_stats('sqp_iter')} iterations, {1e3 * seconds:.1f} ms")
    q, qd = np.split(states, 2, axis=1)
    torques = dn.build(robot, "inverse_dynamics")(q[:-1], qd[:-1], controls)
    print(f"largest torque: {np.abs(torques / robot.effort_limits).max():.3f} of its limit")
    print(f"largest distance of a joint from the goal: {np.abs(q[-1] - GOAL).max():.4f} rad")


if __name__ == "__main__":
    main()
