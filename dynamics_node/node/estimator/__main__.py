"""The executable dynamics_estimator."""

import sys

from dynamics_node.node.main import serve


def main(arguments=None):
    """Exit code as of dynamics_node."""
    package = "dynamics_node.node.estimator"
    node = f"{package}.estimator_node", "EstimatorNode"
    return serve("dynamics_estimator", *node, arguments, modules=(f"{package}.estimator_settings",))


if __name__ == "__main__":
    sys.exit(main())
