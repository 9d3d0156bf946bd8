"""Errors along a trajectory; they keep the solution so far."""


class TrajectoryError(ArithmeticError):
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
