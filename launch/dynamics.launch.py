"""dynamics_node for one robot.

ros2 launch dynamics_node dynamics.launch.py                    reads robot_description from the topic
ros2 launch dynamics_node dynamics.launch.py urdf:=robot.urdf   or robot.urdf.xacro with its arguments:
    xacro_args:="name:=ur ur_type:=ur5e"
"""

from dynamics_node.node.launching import launch_description_of

PARAMETERS = {  # name: (type, description); empty: the value of the parameter file
    "use_sim_time": (bool, "use the time of the topic /clock, for simulators and bags"),
    "floating_base": (bool, "whether the root link moves freely; its state comes from odom"),
    "joints": (list[str], "joints that move, a,b,c; the others are fixed"),
    "command_joints": (list[str], "order of joints in ~/effort_commands, a,b,c"),
    "rate": (float, "output rate, Hz; 0: at every joint state"),
    "solver": (str, "factor_graph, cluster or best"),
    "ordering": (str, "elimination ordering of solver factor_graph"),
    "backend": (str, "c, numpy, gtsam or auto"),
    "problem": (str, "inverse, forward, hybrid or sensors"),
    "sensors_file": (str, "YAML file of the robot's sensors and their topics"),
}


def generate_launch_description():
    return launch_description_of(__file__, "dynamics_node", "dynamics.yaml", PARAMETERS)
