"""Backend c: render a Program as C, compile it with the system's compiler, load it."""

from dynamics_node.backends.c.batch import BATCH, BatchKernel
from dynamics_node.backends.c.kernel import Kernel
from dynamics_node.backends.c.runner import CRunner
from dynamics_node.backends.errors import CompileError

__all__ = ["BATCH", "BatchKernel", "CRunner", "CompileError", "Kernel"]
