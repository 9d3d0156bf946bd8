"""What is open when a sensor of a measured problem is silent."""

from dynamics_node.graph import solvability
from dynamics_node.node.state.sensor_readings import topics_of
from dynamics_node.robot import measured


def lacking_without(model, sensors) -> dict[str, tuple[str, ...]]:
    """{sensor: what the others do not determine, in words}, of sensors that are read. Raises ValueError for
    sensors that the node cannot hear."""
    topics_of(measured(model, sensors))
    found = {}
    for sensor in sensors:
        if sensor.value is None:
            others = [other for other in sensors if other is not sensor]
            found[sensor.name] = solvability(model, measured(model, others)).unobservable
    return found
