"""Program -> Runner: the interpreter, C (folder c), CUDA (folder cuda), the compile cache."""

from dynamics_node.codegen.cuda import ArrayError, DeviceArray, lost, on_device
from dynamics_node.codegen.errors import CompileError, DeviceError
from dynamics_node.codegen.fallback import Backed
from dynamics_node.codegen.interpreter import Unhurried
from dynamics_node.codegen.results import finite_states
from dynamics_node.codegen.runner import DEVICES, Runner, make
from dynamics_node.codegen.scan import Scan

__all__ = [
    "DEVICES",
    "ArrayError",
    "Backed",
    "CompileError",
    "DeviceArray",
    "DeviceError",
    "Runner",
    "Scan",
    "Unhurried",
    "finite_states",
    "lost",
    "make",
    "on_device",
]
