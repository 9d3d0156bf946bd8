"""The names of `import dynamics_node as dn`, by subject: `__all__` is the table of contents.

The package imports a name's module when the name is first used (see __init__.py). It parses this file; only a
direct import runs it.
"""

from dynamics_node.algorithms import (
    QUANTITIES,
    Actuation,
    NearestDynamics,
    close_loops,
    external_wrenches,
    first_closed,
    friction_torque,
    spanning,
)
from dynamics_node.errors import (
    ChoiceError,
    ClosureError,
    CompileError,
    ContactError,
    DeviceError,
    Error,
    ExcitationError,
    IdentificationError,
    IllPosedError,
    InfeasibleError,
    InputError,
    ModelError,
    ModelWarning,
    ProgramError,
    SensorError,
    SingularPivotError,
    SolutionError,
    TableError,
    TrajectoryError,
    UndeterminedError,
    UnknownNameError,
)
from dynamics_node.estimation import (
    ContactObserver,
    JointFilter,
    MomentumObserver,
    ObserverOptions,
    Payload,
    PayloadEstimator,
    Tool,
    build_contact_observer,
    build_observer,
    build_payload_estimator,
    identify_payload,
    identify_tool,
)
from dynamics_node.functions import (
    ContactForces,
    ContactSolver,
    Estimate,
    Estimator,
    ExternalWrenchEstimate,
    Function,
    LoopSolver,
    PDGains,
    RobotFunction,
    UnobservableError,
    build,
    build_contact_solver,
    build_loop_solver,
    compile,
    difference,
    difference_derivatives,
    evaluate,
    integrate,
    integrate_derivatives,
    interpolate,
    random_configuration,
    support_region,
)
from dynamics_node.graph import Observability, observability
from dynamics_node.identification import (
    Identified,
    RegressorModel,
    base_parameters,
    identify,
)
from dynamics_node.identification.comparison import RobotComparison, compare
from dynamics_node.identification.excitation import (
    Box,
    ExcitationTrajectory,
    design_excitation,
)
from dynamics_node.robot import (
    Problem,
    Robot,
    SensorProblem,
    example_robot,
    example_robot_file,
    forward_dynamics,
    hybrid_dynamics,
    inverse_dynamics,
    load_robot,
    parse_robot,
    sensor_problem,
    sensors,
)
from dynamics_node.robot.contacts import Contact, Plane, Terrain, load_contacts
from dynamics_node.robot.inertial_parameters import with_parameters, with_payload, with_tool
from dynamics_node.robot.sensors import load_sensors
from dynamics_node.symbolic import exp3, exp6, log3, log6, trace
from dynamics_node.trajectory import (
    Capability,
    Deceleration,
    Ellipsoid,
    JointTrajectory,
    LinkTravel,
    Manipulability,
    Margin,
    Polytope,
    Slowdown,
    SmootherOptions,
    StoppingTable,
    StoppingTrajectory,
    Trajectory,
    TrajectoryCheck,
    capability,
    check_trajectory,
    effective_mass,
    inverse_trajectory,
    manipulability,
    robot_drawing,
    scale_trajectory,
    simulate,
    smooth,
    stop_on_path,
    stopping_table,
    stopping_trajectory,
    write_animation,
)

__all__ = [  # noqa: RUF022 (by subject)
    # Robots
    "Robot",  # bodies, joints, clusters, frames, gravity; frozen
    "load_robot",  # a URDF file -> Robot
    "parse_robot",  # the text of one
    "example_robot",  # a robot of example-robot-data by name
    "example_robot_file",  # its URDF
    "with_payload",  # the Robot with a body fixed to a link
    "with_tool",  # with another tool after a joint
    "with_parameters",  # with other inertias and rotor inertias
    "spanning",  # q, qd, qdd of every joint from those of the independent ones
    "Actuation",  # torques of joints <-> those of motors and other driven joints
    "friction_torque",  # damping, dry friction, springs and offsets of the joints
    "external_wrenches",  # {link: wrench in its axes, or those of the world} -> f_ext
    # Positions: steps, differences, closed loops
    "integrate",  # q after a step along a velocity
    "difference",  # the velocity that takes one position to another
    "interpolate",  # positions between two
    "integrate_derivatives",  # of a step, along the tangent space
    "difference_derivatives",  # of a difference
    "random_configuration",  # positions within the limits of the joints
    "first_closed",  # a closed position for given independent joints
    "close_loops",  # positions at which the loops of a robot are closed, near given ones
    "exp3",  # a rotation vector -> the rotation matrix
    "log3",  # a rotation matrix -> the rotation vector
    "exp6",  # a constant velocity -> the rigid motion
    "log6",  # a rigid motion -> the constant velocity
    # Dynamics of a robot: one state, a batch of any shape, derivatives
    "build",  # a quantity by name, or a Problem -> Function: compiled, differentiable, picklable
    "evaluate",  # the same in one call
    "QUANTITIES",  # their table: arguments and results
    "Function",  # named arrays in, named arrays out
    "RobotFunction",  # of a robot: other inertias, derivatives, rollouts
    "NearestDynamics",  # accelerations and torques at singular positions of loops, and what is open there
    "Problem",  # which of tau and qdd is known at every joint
    "inverse_dynamics",  # the Problem q, qd, qdd -> tau
    "forward_dynamics",  # q, qd, tau -> qdd
    "hybrid_dynamics",  # torques known at some joints, accelerations at the others
    "Contact",  # a foot, sole, hand or wheel: where the world, or another link, can push
    "Plane",  # the ground of rollouts: a plane
    "Terrain",  # the same: a height function
    "PDGains",  # their PD loops
    "load_contacts",  # a file of contacts -> records
    "build_contact_solver",  # -> ContactSolver
    "ContactSolver",  # the smallest contact forces and torques of a motion, within friction and effort limits
    "ContactForces",  # its result
    "support_region",  # where the center of mass may stay while the robot is at rest
    "build_loop_solver",  # -> LoopSolver
    "LoopSolver",  # `close_loops` at the rate of a controller
    "trace",  # a function of arrays -> Program
    "compile",  # a Program -> Function
    # Sensors: estimation at one instant
    "sensors",  # records of sensors: JointTorque, ForceTorque, Imu, ...
    "load_sensors",  # a file of sensors -> records
    "sensor_problem",  # a robot and its sensors -> SensorProblem, for `build`
    "SensorProblem",  # the exact dynamics, and noisy readings
    "Estimator",  # its Function: q, qd, readings -> Estimate
    "Estimate",  # qdd, tau, f_ext, their covariances, chi-square
    "ExternalWrenchEstimate",  # a wrench on a link, from an Estimator or an observer
    "observability",  # -> Observability
    "Observability",  # open directions by name, and which sensor would help
    # Estimation, sample by sample
    "build_observer",  # -> MomentumObserver
    "MomentumObserver",  # external torques and wrenches, with alarms
    "build_contact_observer",  # -> ContactObserver
    "ContactObserver",  # which contacts touch, and their forces
    "ObserverOptions",  # their assumptions about noise and contacts
    "JointFilter",  # rates of joints from encoders
    "identify_payload",  # mass, center of mass and inertia of a payload, from recordings
    "build_payload_estimator",  # -> PayloadEstimator
    "PayloadEstimator",  # the same, while the robot moves
    "Payload",  # the result of both
    "identify_tool",  # a force/torque sensor's bias, and its tool
    "Tool",  # its result
    # Trajectories: any span of time as one least-squares problem
    "simulate",  # torques -> Trajectory
    "inverse_trajectory",  # a curve -> its torques
    "smooth",  # noisy readings -> Trajectory, external torques, covariances
    "Trajectory",  # time, q, qd, qdd, torques, covariances
    "SmootherOptions",  # the noise that `smooth` assumes
    "write_animation",  # a page that plays a Trajectory
    "robot_drawing",  # its drawing of the robot
    # Trajectories of planners
    "check_trajectory",  # whether a robot can execute one -> TrajectoryCheck
    "scale_trajectory",  # the fastest feasible times of its path -> TrajectoryCheck
    "stopping_trajectory",  # from any state to rest as fast as the motors can -> StoppingTrajectory
    "stop_on_path",  # from a time of a trajectory to rest on its path -> StoppingTrajectory
    "StoppingTrajectory",  # their motion, time, distances and the limit that binds
    "stopping_table",  # decelerations with which all joints can stop everywhere -> StoppingTable
    "StoppingTable",  # its rows, and their YAML for joint_trajectory_controller
    "Deceleration",  # of a joint, with the position that limits it
    "LinkTravel",  # path and displacement of a link
    "TrajectoryCheck",  # margins, loads of the motors, slowdown, payload
    "Margin",  # the largest use of one limit
    "Slowdown",  # the smallest one that makes a trajectory feasible
    "JointTrajectory",  # its points
    # Operational space, for planners
    "capability",  # forces and accelerations of a link within the effort limits -> Capability
    "Capability",  # their polytopes and ellipsoids
    "Polytope",  # half-spaces, vertices, the largest value in a direction
    "Ellipsoid",  # center and semi-axes
    "effective_mass",  # inertia of a link in a direction
    "manipulability",  # of a link by its Jacobian -> Manipulability
    "Manipulability",  # measure, condition number, ellipsoid
    # Identification
    "identify",  # recordings -> Identified
    "Identified",  # fitted inertias and friction, and a description with them
    "RegressorModel",  # torques as a regressor times parameters
    "base_parameters",  # the parameter combinations that torques determine
    "compare",  # two robots -> RobotComparison
    "RobotComparison",  # whether they have the same torques; limits, frames, masses that differ
    "design_excitation",  # a motion that determines them best -> ExcitationTrajectory
    "ExcitationTrajectory",  # the motion, and the parameters it excites
    "Box",  # the allowed region of a link
    # Errors and warnings
    "Error",  # the root of all errors
    "InputError",  # an invalid argument; names its entry
    "ModelError",  # an invalid description or robot
    "ModelWarning",  # an odd description
    "UnknownNameError",  # a joint, link or sensor that the robot lacks
    "SensorError",  # a sensor that does not fit the robot
    "ContactError",  # a contact that is invalid, or does not fit the robot
    "UnobservableError",  # sensors that do not determine the motion
    "IllPosedError",  # a problem that leaves variables open, or contradicts itself
    "ChoiceError",  # an impossible solver, ordering or backend
    "SingularPivotError",  # an ordering that is impossible for a robot
    "ProgramError",  # a file that holds no Program
    "TableError",  # a table that lacks something
    "InfeasibleError",  # a path that no times make feasible, or a motion that no stop ends within limits
    "ExcitationError",  # a robot that cannot be excited
    "IdentificationError",  # recordings that determine nothing
    "SolutionError",  # a state without a result
    "ClosureError",  # loops that do not close
    "UndeterminedError",  # a singular state without nearest accelerations
    "TrajectoryError",  # a trajectory without a solution; has the part that was solved
    "CompileError",  # no compiler, or one that fails
    "DeviceError",  # no GPU, or one that is lost
]
