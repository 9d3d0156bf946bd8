"""Programs on NVIDIA GPUs: text -> cubin (nvrtc), the driver by ctypes (driver, device), arrays that lie on
the device (device_arrays), and the Runner.

Nothing here needs CuPy, the CUDA toolkit or a compiler for the host: NVRTC's wheel and the driver's own
libcuda.so.1 do.
"""

from dynamics_node.codegen.cuda.device import lost
from dynamics_node.codegen.cuda.device_arrays import ArrayError, DeviceArray, on_device
from dynamics_node.codegen.cuda.driver import driver_is_there
from dynamics_node.codegen.cuda.runner import CudaRunner
from dynamics_node.codegen.errors import CudaError

__all__ = [
    "ArrayError",
    "CudaError",
    "CudaRunner",
    "DeviceArray",
    "driver_is_there",
    "lost",
    "on_device",
]
