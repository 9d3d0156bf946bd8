"""The kernel of long chains on an OpenCL device."""

from functools import lru_cache

import numpy as np

from dynamics_node.backends.errors import CompileError, DeviceError
from dynamics_node.backends.opencl.devices import opened
from dynamics_node.parallel.kernel import REAL, chain_kernel, laid_out, refuse_kernel
from dynamics_node.parallel.robot import Robot

# PoCL 3.0 optimises barriers in loops for 40 s and to wrong results, others in every run; without, they are
# those of all other implementations
ON_CPU = ["-cl-opt-disable"]


class OpenClChains:
    """qdd = chains(q, qd, tau, gravity, f_ext): forward dynamics of many states of a chain by CFA, with
    odd-even elimination and `corrections`. precision: 'double' or 'float'; device: part of the name of a
    device or platform. Picklable.

    Raises DeviceError, CompileError, ImportError without pyopencl, and ModelError for robots that the kernel
    leaves out.
    """

    def __init__(self, robot: Robot, precision="double", corrections=1, device=""):
        refuse_kernel(robot, precision)
        self.robot, self.corrections, self.dtype = robot, corrections, np.dtype(REAL[precision])
        self.kernel, self._device = chain_kernel(robot.model.nbodies, precision), device
        _compiled(opened(device), self.kernel)

    def __call__(self, q, qd, tau, gravity, f_ext=None):
        """qdd (count, n) of q, qd, tau (count, n), gravity (3,) or (count, 3), f_ext (n, 6) or (count, n, 6):
        NaN where an angle is beyond what the kernel's sine can do. Raises DeviceError."""
        on, order = opened(self._device), self.robot.constants.v_at
        sizes, arrays = laid_out(self.robot, self.dtype, q, qd, tau, gravity, f_ext)
        found = np.empty(q.shape, self.dtype)
        try:
            self._run(on, (*sizes, self.corrections), arrays, found)
        except on.cl.Error as error:
            raise DeviceError(f"{on.name} failed: {str(error).splitlines()[0]}") from None
        qdd = np.empty_like(found)
        qdd[:, order] = found
        return qdd

    def _run(self, on, sizes, arrays, found):
        cl, width = on.cl, self.kernel.width
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(on.context, flags, hostbuf=array) for array in arrays]
        out = cl.Buffer(on.context, cl.mem_flags.WRITE_ONLY, found.nbytes)
        run = cl.Kernel(_compiled(on, self.kernel), self.kernel.name)
        run(on.queue, (len(found) * width,), (width,), *map(np.int32, sizes), *buffers, out)
        cl.enqueue_copy(on.queue, found, out)


@lru_cache(maxsize=16)
def _compiled(on, kernel):
    if kernel.precision == "double" and not on.doubles:
        raise DeviceError(f"{on.name} has no float64: take backend 'numpy'")
    if on.device.max_work_group_size < kernel.width:
        raise DeviceError(f"{on.name} has no block of {kernel.width} threads: take backend 'numpy'")
    try:
        return on.cl.Program(on.context, kernel.text).build(ON_CPU * on.is_cpu, cache_dir=False)
    except on.cl.Error as error:
        raise CompileError(f"{on.name} did not compile the kernel of chains: {error}") from None
