"""Backend c: render a Program as C, compile it with the system's compiler, load it."""

from dynamics_node.backends.c.batch import BATCH, BatchKernel
from dynamics_node.backends.c.errors import CompileError
from dynamics_node.backends.c.kernel import Kernel

__all__ = ["BATCH", "BatchKernel", "CompileError", "Kernel"]
