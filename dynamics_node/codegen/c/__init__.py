"""Backend c: render a Program as C, compile it with the system's compiler, load it."""

from dynamics_node.codegen.c.batch_kernel import BATCH, BatchKernel
from dynamics_node.codegen.c.kernel import Kernel
from dynamics_node.codegen.c.runner import CRunner
