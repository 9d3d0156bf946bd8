"""The executable dynamics_estimator."""

import sys

from dynamics_node.node.building.worker import BUILDERS
from dynamics_node.node.main import serve
from dynamics_node.node.usage import help_requested, usage

IMPORTANT = ("robot_description_file", "joints", "sensors_file", "torque_source", "rate")


def main(arguments=None):
    """Exit code as of dynamics_node."""
    if help_requested(arguments):
        from dynamics_node.node.estimator.estimator_settings import PARAMETERS

        print(usage("dynamics_estimator", PARAMETERS, IMPORTANT, "estimator.yaml"))
        return 0
    package = "dynamics_node.node.estimator"
    node = f"{package}.estimator_node", "EstimatorNode"
    return serve("dynamics_estimator", *node, arguments, BUILDERS, f"{package}.estimator_settings")


if __name__ == "__main__":
    sys.exit(main())
