"""The answer of EstimatePayload."""

from dynamics_interfaces.srv import SetPayload

from dynamics_node.estimation import require_bearing
from dynamics_node.node.ros.messages import doubles, inertia_message, vector_message
from dynamics_node.node.services.services import set_payload
from dynamics_node.node.state.joint_memory import BadMessage
from dynamics_node.text import shown


def estimate_payload(set_parameters, core, request, response):
    """Answer of EstimatePayload. set_parameters: {name: value} -> why they were refused, or ''."""
    command, own = request.command, core.payload_estimation
    if command == request.START:
        return _start(set_parameters, core, request.link or own.link or core.settings.payload_estimation_link)
    if command == request.STOP:
        own.stop()
        response.samples = own.samples
        return f"stopped, {own.samples} states count"
    if command not in (request.COMPUTE, request.APPLY):
        raise BadMessage(f"unknown command {shown(command)!r}: start, compute, apply or stop")
    found = own.found(request.link)
    _tell(found, response)
    told = f"{found.link}: {found.mass:.4g} kg, give or take {found.mass_std:.2g}, by {found.samples} states"
    if command == request.APPLY:
        if refusal := found.refusal:
            raise BadMessage(f"not applied: {refusal}")
        told = set_payload(core, SetPayload.Request(link=found.link, inertia=response.inertia), None)
    elif found.refusal:
        told = f"{told}; apply would refuse: {found.refusal}"
    if own.running and own.reason:
        told = f"{told}; states do not count now: {own.reason}"
    return shown(told)


def _start(set_parameters, core, link):
    if not link:
        raise BadMessage("name the link of which is to be estimated what it carries")
    own = core.payload_estimation
    require_bearing(core.model, link)
    if refused := set_parameters({"payload_estimation.link": link}):
        raise BadMessage(refused)
    if own.start(core.unloaded, link):
        return shown(f"{link}: states count from now on")
    return shown(f"{link}: states count as soon as what estimates is built")


def _tell(found, response):
    response.samples = found.samples
    response.inertia = inertia_message(found.mass, found.com, found.inertia)
    response.mass_std, response.com_std = found.mass_std, vector_message(found.com_std)
    response.covariance = doubles(found.covariance.ravel())
    response.not_excited = list(found.not_excited)
    response.condition = found.condition
