"""Program -> text: operations in any Dialect; a kernel that computes one state in every thread, in
CUDA and C.

The text holds numbers and indices only: no name of a robot gets here. Which dialect a kernel is, dialects.h
learns from the compiler that reads it.
"""

from dynamics_node.codegen.printer.kernel_arguments import KernelArgument, KernelSource, Variant
from dynamics_node.codegen.printer.kernel_text import kernel
