"""What can be wrong with a robot description."""


class ModelError(ValueError):
    """A robot description that cannot be used; the message names the joint or link and the reason."""
