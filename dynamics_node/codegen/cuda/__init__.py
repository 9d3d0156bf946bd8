"""Programs on NVIDIA GPUs by CuPy: the device, arrays on the device, the Runner,
rollouts."""

from dynamics_node.codegen.cuda.contact_rollout import DeviceContactRollouts
from dynamics_node.codegen.cuda.device import at_work, compiled, cupy_module, lost
from dynamics_node.codegen.cuda.device_call import ArrayError, on_device
from dynamics_node.codegen.cuda.rollout import DeviceRollouts
from dynamics_node.codegen.cuda.runner import CudaRunner
