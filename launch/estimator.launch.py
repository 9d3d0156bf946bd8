"""dynamics_estimator for one robot.

ros2 launch dynamics_node estimator.launch.py                    reads robot_description from the topic
ros2 launch dynamics_node estimator.launch.py urdf:=robot.urdf sensors_file:=sensors.yaml
    or robot.urdf.xacro with its arguments: xacro_args:="name:=ur ur_type:=ur5e"
"""

from dynamics_node.node.launching import launch_description_of

PARAMETERS = {  # name: (type, description); empty: the value of the parameter file
    "use_sim_time": (bool, "use the time of the topic /clock, for simulators and bags"),
    "joints": (list[str], "joints that move, a,b,c; the others are fixed"),
    "sensors_file": (str, "YAML file of the robot's sensors and their topics"),
    "torque_source": (str, "measured, commanded or none"),
    "rate": (float, "steps per second, Hz"),
    "window": (float, "window of the smoother, s"),
    "lag": (float, "lag of the published estimate behind the newest step, s"),
}


def generate_launch_description():
    return launch_description_of(__file__, "dynamics_estimator", "estimator.yaml", PARAMETERS)
