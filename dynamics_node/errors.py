"""All errors of the library, by what is wrong: an input, the mathematics at a state, or the machine.

`except dn.Error` catches every one of them. Wrong Python, such as an unknown keyword, is a TypeError; a file
that cannot be opened is an OSError; a missing optional package is an ImportError.
"""

from collections.abc import Callable


class Error(Exception):
    """The root of all errors of the library.

    Examples
    --------
    >>> import dynamics_node as dn
    >>> try:
    ...     dn.parse_robot("<robot/>")
    ... except dn.Error as error:
    ...     print(type(error).__name__)
    ModelError
    """


# --- inputs -------------------------------------------------------------------------------------------------


class InputError(Error, ValueError):
    """An argument of wrong shape or with an invalid value; the message names argument and coordinate."""


class ModelError(InputError):
    """An error of a robot description; the message names the joint or link, and the reason."""


class UnknownNameError(ModelError, KeyError):
    """A name of a joint, link or sensor that a robot lacks; the message lists the known ones."""

    def __str__(self):  # a KeyError would print quotes
        return str(self.args[0])


class ModelWarning(UserWarning):
    """A warning of ignored or implausible parts of a robot description; `Robot.warnings` has all of them."""


class SensorError(InputError):
    """An error of a sensor; the message names it, the reason and the remedy."""


class ContactError(InputError):
    """An invalid contact; the message names it, the reason and the remedy."""


class ChoiceError(InputError):
    """An impossible combination of solver, ordering and backend; the message names valid ones."""


class ProgramError(InputError):
    """An invalid Program, or a file without one."""


class TableError(InputError):
    """A table that cannot be read or lacks something; the message names the file and the column."""


class IllPosedError(InputError):
    """A problem whose equations leave variables open or contradict each other; the message has rank and
    names."""


class SingularPivotError(InputError):
    """An error of an ordering that is impossible for a robot; the message names the variable."""


class IdentificationError(InputError):
    """Recordings without a usable row, or without motion; the message lists all reasons."""


class ExcitationError(InputError):
    """The robot cannot be excited, or no motion keeps within the limits."""


class InfeasibleError(InputError):
    """A trajectory that no other times make feasible, or no stop; the message names joint and limit."""


# --- no solution at this state ------------------------------------------------------------------------------


class SolutionError(Error, ArithmeticError):
    """No finite solution at this state: the equations are singular there.

    Parameters
    ----------
    why : str or callable
        The reason, or a function that computes it when it is first read. That takes milliseconds, too long
        for a loop with a thousand such errors a second.
    """

    def __init__(self, why: str | Callable[[], str]):
        super().__init__(why)

    def __str__(self):
        (why,) = self.args
        if callable(why):
            self.args = (why(),)
        return super().__str__()

    def __repr__(self):
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self):  # other processes get the text
        return type(self), (str(self),)


class ClosureError(SolutionError):
    """An error of positions that have no closed one near them; the message names the constraints."""


class UndeterminedError(SolutionError):
    """An error of a state without a result by Gauss' principle; the message names joints or loops."""


class TrajectoryError(SolutionError):
    """No trajectory: a start that is inconsistent, a singular position, or iterations that do not converge.

    Attributes
    ----------
    solution : Trajectory, Solution or None
        The requested result so far, or the solution of the last iteration; None if there is none.
    """

    def __init__(self, message, solution=None):
        super().__init__(message)
        self.solution = solution


class InconsistentStart(TrajectoryError):
    """The start violates the exact equations: open loops, or rates that open them."""


class WrongBranch(TrajectoryError):
    """Loops are closed with ends rotated half a turn apart, or a link was turned over."""


class SingularPosition(TrajectoryError):
    """The exact equations of a step do not determine their directions."""


class NotConverged(TrajectoryError):
    """The iterations did not converge."""


class Unobservable(TrajectoryError):
    """No factor determines some directions.

    Attributes
    ----------
    variables : tuple of str
        Names of these directions.
    """

    def __init__(self, message, variables, solution=None):
        super().__init__(message, solution)
        self.variables = tuple(variables)


# --- the machine --------------------------------------------------------------------------------------------


class CompileError(Error, RuntimeError):
    """No compiled code: no compiler, one that fails, or no place for its library. The message is one line."""


class DeviceError(CompileError):
    """No usable device: none exists, it lacks a required feature, or it failed. The message is one line."""
