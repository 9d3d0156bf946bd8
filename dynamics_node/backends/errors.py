"""Why there is no compiled code."""


class CompileError(RuntimeError):
    """No library: no compiler, one that fails, or no place to put it. One line."""
