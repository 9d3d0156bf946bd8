"""The kernel of long chains on an NVIDIA GPU, by NVRTC and the driver: no CuPy."""

import ctypes

import numpy as np

from dynamics_node.chains.chain_arrays import RobotArrays
from dynamics_node.chains.chain_kernel import REAL, chain_kernel, laid_out, refuse_kernel
from dynamics_node.codegen.cuda.device import device
from dynamics_node.codegen.cuda.driver import DevicePointer
from dynamics_node.codegen.cuda.lanes import Lane
from dynamics_node.codegen.cuda.nvrtc import find_nvrtc
from dynamics_node.codegen.errors import CudaError, DeviceError

_ALIGNED = 256  # bytes


class CudaChains:
    """qdd = chains(q, qd, tau, gravity, f_ext): forward dynamics of many states of a chain by CFA, with
    odd-even elimination and `corrections`. precision: 'double' or 'float'. Picklable.

    Raises DeviceError without a driver or device, CompileError without NVRTC, and ModelError for robots that
    the kernel leaves out.
    """

    def __init__(self, robot: RobotArrays, precision="double", corrections=1):
        refuse_kernel(robot, precision)
        self.robot, self.corrections, self.dtype = robot, corrections, np.dtype(REAL[precision])
        self.kernel = chain_kernel(robot.model.nbodies, precision)
        self._image()

    def _image(self):
        """The cubin for this device, from the cache when it was compiled before."""
        try:
            there = device()
        except CudaError as error:
            raise DeviceError(f"backend cuda: {error}") from None
        nvrtc = find_nvrtc(there.driver_version[0])
        return nvrtc.cubin(self.kernel.text, nvrtc.arch_for(there.capability)).image

    def __call__(self, q, qd, tau, gravity, f_ext=None):
        """qdd (count, n) of q, qd, tau (count, n), gravity (3,) or (count, 3), f_ext (n, 6) or (count, n, 6):
        NaN where an angle is beyond what the kernel's sine can do. Raises CudaError."""
        sizes, arrays = laid_out(self.robot, self.dtype, q, qd, tau, gravity, f_ext)
        found = np.empty(q.shape, self.dtype)
        self._run((*sizes, self.corrections), arrays, found)
        qdd = np.empty_like(found)
        qdd[:, self.robot.constants.v_at] = found
        return qdd

    def _run(self, sizes, arrays, found):
        image, there = self._image(), device()
        places = np.cumsum([0, *(-(-array.nbytes // _ALIGNED) * _ALIGNED for array in (*arrays, found))])
        with there.at_work():
            lane = Lane(there, max(1, int(places[-1])))
            try:
                for place, array in zip(places, arrays, strict=False):
                    lane.put(int(place), array)
                given = [
                    *map(ctypes.c_int, sizes),
                    *(DevicePointer(lane.there + int(p)) for p in places[:-1]),
                ]
                function = there.function(image, self.kernel.name)
                if len(found):
                    there.launch(function, len(found), self.kernel.width, given, lane.stream)
                lane.get(int(places[-2]), found)
                lane.finish()
            finally:
                lane.give_up()
                lane.free()
