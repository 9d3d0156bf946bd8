"""The topics that the estimator publishes of what it tells: one row each."""

from dynamics_interfaces.msg import JointStateEstimate
from sensor_msgs.msg import JointState

from dynamics_node.node.ros.messages import doubles, torque_message
from dynamics_node.node.ros.outputs import Output, always

COVARIANCES = (
    "position_covariance",
    "velocity_covariance",
    "acceleration_covariance",
    "external_torque_covariance",
)


def _estimate(core):
    message = JointStateEstimate()
    message.header.frame_id = core.model.base_link

    def write(told, stamp):
        estimate = told.estimate
        message.header.stamp, message.lag, message.name = stamp, told.lag, list(estimate.names)
        for field in ("position", "velocity", "acceleration", "external_torque"):
            setattr(message, field, doubles(getattr(estimate, field)))
        for field, covariance in zip(COVARIANCES, estimate.covariances, strict=True):
            setattr(message, field, doubles(covariance.ravel()))
        message.chi_square, message.readings = estimate.chi_square, estimate.readings
        message.unobservable = list(estimate.unobservable)
        return (message,)

    return write


def _joint_states(core):
    """Of all joints, those that follow others in loops too."""
    message = torque_message(core.joints.names, core.model.base_link)
    at = core.coordinates

    def write(told, stamp):
        message.header.stamp = stamp
        message.position = doubles(told.estimate.q[at.q_at])
        message.velocity = doubles(told.estimate.qd[at.v_at])
        return (message,)

    return write


def _external_torques(core):
    message = torque_message(core.robot.smoothed.independent, core.model.base_link)

    def write(told, stamp):
        message.header.stamp = stamp
        message.effort = doubles(told.estimate.external_torque)
        return (message,)

    return write


ESTIMATES = (
    Output("~/joint_state_estimate", JointStateEstimate, always, _estimate),
    Output("~/estimated_joint_states", JointState, always, _joint_states),
    Output("~/external_torques", JointState, always, _external_torques),
)
