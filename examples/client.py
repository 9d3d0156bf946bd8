"""
A client of the node
====================

Use a running dynamics_node from Python, like `ros2 param set`, `ros2 service call` and `ros2 topic echo`.

./dev run -- python examples/client.py     while the node and a driver run
"""
# sphinx_gallery_thumbnail_path = 'figures/demo_tracking.png'

import numpy as np
import rclpy
from dynamics_interfaces.srv import GetMassMatrix
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.parameter_client import AsyncParameterClient
from sensor_msgs.msg import JointState

MESSAGES = 3  # number of printed messages


def answer(node, future):
    rclpy.spin_until_future_complete(node, future, timeout_sec=10.0)
    if not future.done():
        raise SystemExit("no reply from dynamics_node")
    return future.result()


def main():
    rclpy.init()
    node = Node("client")

    # ros2 param set /dynamics_node compensate.inertia false
    parameters = AsyncParameterClient(node, "dynamics_node")
    if not parameters.wait_for_services(timeout_sec=10.0):
        raise SystemExit("dynamics_node is not running; start it: ./dev run -- dynamics_node")
    request = parameters.set_parameters([Parameter("compensate.inertia", value=False)])
    (result,) = answer(node, request).results
    if not result.successful:
        raise SystemExit(result.reason)

    # ros2 service call /dynamics_node/get_mass_matrix dynamics_interfaces/srv/GetMassMatrix
    service = node.create_client(GetMassMatrix, "dynamics_node/get_mass_matrix")
    service.wait_for_service()
    reply = answer(node, service.call_async(GetMassMatrix.Request()))  # of the latest measured state
    if not reply.success:
        raise SystemExit(reply.message)
    M = np.array(reply.mass_matrix.data).reshape(reply.mass_matrix.rows, reply.mass_matrix.cols)
    print(", ".join(reply.mass_matrix.row_names))
    print(np.array2string(M, precision=4, suppress_small=True))

    # ros2 topic echo /dynamics_node/joint_torques
    received = []
    node.create_subscription(JointState, "dynamics_node/joint_torques", received.append, 10)
    for _ in range(MESSAGES):
        while not received:
            rclpy.spin_once(node)
        torques = received.pop()
        print(dict(zip(torques.name, np.round(torques.effort, 4).tolist(), strict=True)))
    rclpy.shutdown()


if __name__ == "__main__":
    main()
