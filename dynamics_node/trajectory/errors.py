"""Errors along a trajectory; they keep the solution so far."""


class TrajectoryError(ArithmeticError):
    """solution: the solution when the error was raised, a Solution or the requested result; or None."""

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
    """variables: names of directions that no factor determines."""

    def __init__(self, message, variables, solution=None):
        super().__init__(message, solution)
        self.variables = tuple(variables)
