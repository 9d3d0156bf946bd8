"""What is open when a sensor of a sensor problem is silent."""

from dynamics_node.graph import observability
from dynamics_node.node.state.sensor_readings import topics_of
from dynamics_node.robot import sensor_problem


def unobservable_without(model, sensors) -> dict[str, tuple[str, ...]]:
    """{sensor: what the others do not determine, in words}, of sensors that are read. Raises ValueError for
    sensors that the node cannot hear."""
    topics_of(sensor_problem(model, sensors))
    found = {}
    for sensor in sensors:
        if sensor.value is None:
            others = [other for other in sensors if other is not sensor]
            found[sensor.name] = observability(model, sensor_problem(model, others)).unobservable
    return found
