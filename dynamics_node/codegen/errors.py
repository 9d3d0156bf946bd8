"""Errors of compilers and devices."""


class CompileError(RuntimeError):
    """No compiled code: no compiler, one that fails, or no place for its library. The message is one line."""


class DeviceError(CompileError):
    """No usable device: none exists, it lacks a required feature, or it failed. The message is one line."""
