"""Robots: URDF text or file -> frozen Model."""

from pathlib import Path

from dynamics_node.model.errors import ModelError, ModelWarning, warned
from dynamics_node.model.from_description import model_from_description
from dynamics_node.model.model import Body, Frame, Joint, Model
from dynamics_node.model.urdf import parse_urdf
from dynamics_node.model.validate import validate

__all__ = [
    "Body",
    "Frame",
    "Joint",
    "Model",
    "ModelError",
    "ModelWarning",
    "load_model",
    "model_of",
    "parse_model",
]


def parse_model(text, *, strict=False, **choices) -> Model:
    """URDF text (str or bytes) -> Model.

    strict: implausible inertias are errors, not warnings. choices: floating_base, joints, positions, root,
    tips, gravity, armature of `model_from_description`. Raises ModelError with the joint or link by name.
    Emits a ModelWarning if the Model has `warnings`.
    """
    return warned(model_of(parse_urdf(text), strict=strict, **choices))


def model_of(description, *, strict=False, **choices) -> Model:
    """`parse_model` of a Description."""
    warnings = validate(description, strict)
    for closure in (*description.loops, *description.couplings):
        raise ModelError(
            f"{closure.name!r} closes a kinematic loop, which would give wrong torques if it were ignored: "
            "read the robot with load_mechanism"
        )
    return model_from_description(description, warnings=warnings, **choices)


def load_model(path, *, strict=False, **choices) -> Model:
    """URDF file -> Model: `parse_model` of its content. Raises OSError besides."""
    return warned(model_of(parse_urdf(Path(path).read_bytes()), strict=strict, **choices))
