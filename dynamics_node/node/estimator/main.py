"""The executable dynamics_estimator."""

import sys

from dynamics_node.node.main import serve


def main(arguments=None):
    """Exit code as of dynamics_node."""
    return serve("dynamics_estimator", "dynamics_node.node.estimator.ros_node", "EstimatorNode", arguments)


if __name__ == "__main__":
    sys.exit(main())
