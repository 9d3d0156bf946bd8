"""What can go wrong along a trajectory; what was found so far is kept."""


class TrajectoryError(ArithmeticError):
    """solution: what there was when it was raised, a Solution or what the caller asked for; or None."""

    def __init__(self, message, solution=None):
        super().__init__(message)
        self.solution = solution


class InconsistentStart(TrajectoryError):
    """The start contradicts the exact equations: loops that are open, rates that open them."""


class WrongBranch(TrajectoryError):
    """Loops are closed with ends turned away from each other, or a link was turned over."""


class SingularPosition(TrajectoryError):
    """At some step the exact equations do not determine what they should."""


class NotConverged(TrajectoryError):
    """The iterations came to no end."""


class Unobservable(TrajectoryError):
    """variables: names of directions that no factor tells."""

    def __init__(self, message, variables, solution=None):
        super().__init__(message, solution)
        self.variables = tuple(variables)
