"""The kernel of long chains on an OpenCL device."""

from functools import cached_property

import numpy as np

from dynamics_node.backends.errors import CompileError, DeviceError
from dynamics_node.backends.opencl.devices import opened
from dynamics_node.parallel.kernel import chain_kernel, chain_table, refuse_kernel
from dynamics_node.parallel.robot import Robot

# PoCL 3.0 optimises barriers in loops for 40 s and to wrong results, which differ from run to run; without,
# they are those of all others
ON_CPU = ["-cl-opt-disable"]
REAL = {"double": np.float64, "float": np.float32}


class OpenClChains:
    """qdd = chains(q, qd, tau, gravity, f_ext): forward dynamics of many states of a chain by CFA, with
    odd-even elimination and `corrections`.

    device: part of the name of a device or platform. Raises DeviceError, ImportError without pyopencl, and
    ModelError for robots that the kernel leaves out.
    """

    def __init__(self, robot: Robot, precision="double", corrections=1, device=""):
        refuse_kernel(robot, precision)
        self.robot, self.corrections, self.dtype = robot, corrections, np.dtype(REAL[precision])
        self.kernel, self._device = chain_kernel(robot.model.nbodies, precision), device
        _ = self._program

    @cached_property
    def _program(self):
        """Raises CompileError."""
        on = opened(self._device)
        if on.device.max_work_group_size < self.kernel.width:
            raise DeviceError(f"{on.name} has no block of {self.kernel.width} threads: take backend 'numpy'")
        try:
            return on.cl.Program(on.context, self.kernel.text).build(ON_CPU * on.is_cpu, cache_dir=False)
        except on.cl.Error as error:
            raise CompileError(f"{on.name} did not compile the kernel of chains: {error}") from None

    def __call__(self, q, qd, tau, gravity, f_ext=None):
        """qdd (count, n) of q, qd, tau (count, n), gravity (3,), f_ext (count, n, 6) or (n, 6): NaN where an
        angle is beyond what the kernel's sine can do. Raises DeviceError."""
        on, n = opened(self._device), self.robot.model.nbodies
        table, axes = chain_table(self.robot)
        given = [table, gravity, *(array[..., self._order] for array in (q, qd, tau))]
        wrenches = np.zeros(6)
        if f_ext is not None:
            turned = np.swapaxes(axes, -1, -2) @ np.moveaxis(f_ext.reshape(*f_ext.shape[:-1], 2, 3), -2, -1)
            wrenches = np.moveaxis(turned, -1, -2).reshape(f_ext.shape)
            wrenches = np.broadcast_to(wrenches, (*q.shape, 6))
        found = np.empty(q.shape, self.dtype)
        try:
            self._run(on, (n, self.corrections, f_ext is not None), [*given, wrenches], found)
        except on.cl.Error as error:
            raise DeviceError(f"{on.name} failed: {str(error).splitlines()[0]}") from None
        qdd = np.empty_like(found)
        qdd[..., self._order] = found
        return qdd

    @cached_property
    def _order(self):
        """The coordinates in the order of the links."""
        return self.robot.constants.v_at

    def _run(self, on, sizes, arrays, found):
        cl, width = on.cl, self.kernel.width
        held = [np.ascontiguousarray(array, self.dtype) for array in arrays]
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(on.context, flags, hostbuf=array) for array in held]
        out = cl.Buffer(on.context, cl.mem_flags.WRITE_ONLY, found.nbytes)
        run = cl.Kernel(self._program, self.kernel.name)
        run(on.queue, (len(found) * width,), (width,), *map(np.int32, sizes), *buffers, out)
        cl.enqueue_copy(on.queue, found, out)
