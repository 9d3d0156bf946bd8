"""A planner's view: ask a running dynamics_node for the mass matrix of the latest measured state.

./dev run -- python examples/mass_matrix_client.py     while the node and a driver run
"""

import numpy as np
import rclpy
from dynamics_interfaces.srv import GetMassMatrix


def main():
    rclpy.init()
    node = rclpy.create_node("mass_matrix_client")
    client = node.create_client(GetMassMatrix, "dynamics_node/get_mass_matrix")
    if not client.wait_for_service(timeout_sec=5.0):
        raise SystemExit("no dynamics_node answers; start one: ros2 launch dynamics_node dynamics.launch.py")
    future = client.call_async(GetMassMatrix.Request())
    rclpy.spin_until_future_complete(node, future)
    answer = future.result()
    if not answer.success:
        raise SystemExit(answer.message)
    M = np.array(answer.mass_matrix.data).reshape(answer.mass_matrix.rows, answer.mass_matrix.cols)
    print(", ".join(answer.mass_matrix.row_names))
    print(np.array2string(M, precision=4, suppress_small=True))
    rclpy.shutdown()


if __name__ == "__main__":
    main()
