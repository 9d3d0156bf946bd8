"""Errors of wrong calls of public functions: a robot where a path belongs, a keyword of another library."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from os import PathLike
from typing import Any, TypeVar

from dynamics_node.names import evaluation, no_argument, quantity_of
from dynamics_node.robot.robot import Robot

Call = TypeVar("Call", bound=Callable[..., Any])


def explains_wrong_calls(function: Call) -> Call:
    """The function, or the class, with errors that name the right call.

    Raises TypeError for a keyword that it does not have, with those that it has, for anything but a Robot
    where a Robot belongs, and for a Robot where a path belongs.
    """
    if isinstance(function, type):
        function.__init__ = explains_wrong_calls(function.__init__)  # type: ignore[misc]
        return function
    called = function.__qualname__.removesuffix(".__init__")
    parameters = signature(function).parameters
    robots = _named(parameters, lambda words: words == "Robot")
    paths = _named(parameters, lambda words: "Path" in words)

    @wraps(function)
    def explained(*arguments, **named):
        for k, name in robots:
            given = arguments[k] if k < len(arguments) else named.get(name)
            if k < len(arguments) or name in named:
                require_robot(given, called, (*arguments, *named.values()), name)
        for k, name in paths:
            if isinstance(arguments[k] if k < len(arguments) else named.get(name), Robot):
                raise TypeError(f"{name} must be a path, not a Robot")
        try:
            return function(*arguments, **named)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from inside the function
            raise _explained(called, parameters, arguments, named) or error from None

    return explained  # type: ignore[return-value]


def _named(parameters, fits):
    """(index, name) of the parameters whose annotations fit."""
    words = {name: getattr(p.annotation, "__name__", str(p.annotation)) for name, p in parameters.items()}
    return [(k, name) for k, name in enumerate(parameters) if fits(words[name])]


def require_robot(given, function, arguments=(), name="robot"):
    """Raise TypeError for anything but a Robot, given all arguments of the function."""
    if isinstance(given, Robot):
        return
    if any(isinstance(argument, Robot) for argument in arguments):
        remedy = f"it comes first, {function}({name}, ...)"
    elif isinstance(given, str | bytes | PathLike):
        remedy = "use dn.load_robot(path)"
    else:
        remedy = "use dn.load_robot(path) with its URDF"
    raise TypeError(f"{name} must be a Robot, not {type(given).__name__}: {remedy}")


def _explained(name, parameters, arguments, named):
    """The error for arguments that do not fit the parameters; None if Python's own is clear."""
    several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    takes = [own for own, p in parameters.items() if p.kind not in several and own != "self"]
    if foreign := [keyword for keyword in named if keyword not in parameters]:
        return no_argument(name, foreign[0], takes)
    if quantity_of(name) and len(arguments) > len(takes):
        return TypeError(f"dn.{name} takes {', '.join(takes)} and returns a Problem: {evaluation(name)}")
    return None
