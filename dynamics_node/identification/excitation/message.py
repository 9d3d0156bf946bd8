"""A motion as trajectory_msgs/JointTrajectory, in YAML that `ros2 topic pub` takes."""

import yaml

DIGITS = 6  # behind the point: micrometres, and less than encoders tell


def joint_trajectory(names, time, q, qd, qdd):
    """The message as dictionaries and lists. names of the joints; time (count,) s; q, qd, qdd (count,
    joints)."""
    points = []
    for t, *states in zip(time.tolist(), q, qd, qdd, strict=True):
        sec, nanosec = divmod(round(t * 1e9), 10**9)
        kinds = zip(("positions", "velocities", "accelerations"), states, strict=True)
        own = {kind: [_plain(value) for value in values.tolist()] for kind, values in kinds}
        points.append(own | {"time_from_start": {"sec": sec, "nanosec": nanosec}})
    return {"joint_names": list(names), "points": points}


def _plain(value):
    return round(value, DIGITS) + 0.0  # no negative zero


def message_text(message) -> str:
    """YAML, a point a line. Names are quoted where they need it."""
    return yaml.safe_dump(message, sort_keys=False, default_flow_style=None, width=10**6)
