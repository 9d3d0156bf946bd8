"""dynamics_estimator beside a robot.

ros2 launch dynamics_node estimator.launch.py                    takes robot_description from the topic
ros2 launch dynamics_node estimator.launch.py urdf:=robot.urdf sensors_file:=sensors.yaml
    or robot.urdf.xacro, with its arguments: xacro_args:="name:=ur ur_type:=ur5e"
"""

from dynamics_node.node.launching import beside_a_robot

PARAMETERS = {  # name: (type, what it is); empty: as the parameter file says
    "use_sim_time": (bool, "time of the topic /clock: for simulators and bags"),
    "joints": (list[str], "joints that move, a,b,c; the others are held"),
    "sensors_file": (str, "YAML file of the robot's sensors and their topics"),
    "torque_source": (str, "measured, commanded or none"),
    "rate": (float, "steps a second, Hz"),
    "window": (float, "how far back steps stay open, s"),
    "lag": (float, "how much older than the newest step what is published is, s"),
}


def generate_launch_description():
    return beside_a_robot(__file__, "dynamics_estimator", "estimator.yaml", PARAMETERS)
