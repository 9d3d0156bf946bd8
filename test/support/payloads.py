"""Requests of SetPayload."""

import numpy as np
from dynamics_interfaces.srv import SetPayload
from environments import COM, HAND, MASS, MOMENTS


def payload(link=HAND, mass=MASS, com=COM, moments=MOMENTS):
    """A request with the center of mass (3,) m and the moments of inertia (3, 3) kg m^2 about it."""
    request = SetPayload.Request(link=link)
    request.inertia.m = float(mass)
    c, i = request.inertia.com, request.inertia
    c.x, c.y, c.z = map(float, com)
    i.ixx, i.ixy, i.ixz, i.iyy, i.iyz, i.izz = map(float, moments[np.triu_indices(3)])
    return request
