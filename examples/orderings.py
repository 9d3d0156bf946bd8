"""
Orderings of one problem
========================

One robot, one problem, six algorithms: eliminate its factor graph in different orders.

./dev run -- python examples/orderings.py [robot.urdf]
"""
# sphinx_gallery_thumbnail_path = 'figures/paper1_10a.svg'

import sys

import numpy as np

import dynamics_node as dn
from dynamics_demo.panda import PANDA_JOINTS
from dynamics_node.graph import ORDERINGS, eliminate, generic_graph, plan_ordering


def main():
    path, joints = (
        (sys.argv[1], None) if len(sys.argv) > 1 else (dn.example_robot_file("panda"), PANDA_JOINTS)
    )
    model = dn.load_robot(path, joints=joints)
    problem = dn.forward_dynamics(model)
    graph = generic_graph(model, problem)
    q, qd, tau = np.random.default_rng(0).uniform(-1, 1, (3, model.nv))
    print("forward dynamics: edges of the Bayes net, and the acceleration of the first joint")
    for name in ORDERINGS:
        net = eliminate(graph, plan_ordering(model, problem, name)[1])
        qdd = dn.build(model, problem, solver="factor_graph", ordering=name)(q, qd, tau)
        print(f"  {name:15} {len(net.edges):4}   {qdd[0]:.12f}")


if __name__ == "__main__":
    main()
