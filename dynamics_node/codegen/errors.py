"""Why there is no compiled code or no device."""


class CompileError(RuntimeError):
    """No library: no compiler, one that fails, or no place to put it. One line."""


class DeviceError(CompileError):
    """No device that computes: none is there, or it lacks what is asked of it, or it failed. One line."""
