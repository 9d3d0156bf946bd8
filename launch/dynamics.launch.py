"""dynamics_node beside a robot.

ros2 launch dynamics_node dynamics.launch.py                    takes robot_description from the topic
ros2 launch dynamics_node dynamics.launch.py urdf:=robot.urdf   or robot.urdf.xacro, with its arguments:
    xacro_args:="name:=ur ur_type:=ur5e"
"""

from dynamics_node.node.launching import beside_a_robot

PARAMETERS = {  # name: (type, what it is); empty: as the parameter file says
    "use_sim_time": (bool, "time of the topic /clock: for simulators and bags"),
    "floating_base": (bool, "the root link moves freely; its state comes from odom"),
    "joints": (list[str], "joints that move, a,b,c; the others are held"),
    "command_joints": (list[str], "joints of ~/effort_commands in its order, a,b,c"),
    "rate": (float, "output rate, Hz; 0: at every joint state"),
    "solver": (str, "factor_graph, cluster or best"),
    "ordering": (str, "elimination order of solver factor_graph"),
    "backend": (str, "c, numpy, gtsam or auto"),
    "problem": (str, "inverse, forward, hybrid or sensors"),
    "sensors_file": (str, "YAML file of the robot's sensors and their topics"),
}


def generate_launch_description():
    return beside_a_robot(__file__, "dynamics_node", "dynamics.yaml", PARAMETERS)
