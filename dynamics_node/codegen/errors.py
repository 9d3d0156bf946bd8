"""Why there is no compiled code or no device; errors of the CUDA driver: name, number, and what to do."""


class CompileError(RuntimeError):
    """No library: no compiler, one that fails, or no place to put it. One line."""


class DeviceError(CompileError):
    """No device that computes: none is there, or it lacks what is asked of it, or it failed. One line."""


INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED = 1, 2, 3

_REBOOT = "driver and kernel module differ, as after an update: reboot"
_AS_DEFECT = "a defect of ours, or memory that was freed meanwhile: report it"
ADVICE = {
    OUT_OF_MEMORY: "give fewer states at a time, or end what else uses the device (nvidia-smi lists it)",
    NOT_INITIALIZED: "a forked process cannot use its parent's device: start it by spawn or forkserver",
    34: "libcuda.so.1 is a stub of the toolkit: put the driver's own first on LD_LIBRARY_PATH",
    46: "another process has the device for itself: nvidia-smi -c DEFAULT shares it",
    100: "nvidia-smi lists none: look at CUDA_VISIBLE_DEVICES; a container needs --gpus all",
    101: "look at CUDA_VISIBLE_DEVICES",
    200: _AS_DEFECT,
    209: "the compiler is older than the device: pip install -U nvidia-cuda-nvrtc",
    222: "the compiler is newer than the driver: update the driver",
    400: _AS_DEFECT,
    700: _AS_DEFECT,
    701: "the kernel needs more registers than the device has: report it",
    702: "the display's watchdog ended it: give fewer states at a time",
    719: _AS_DEFECT,
    802: "nvidia-fabricmanager does not run",
    803: _REBOOT,
    804: "the compatibility package is for other devices: take it off LD_LIBRARY_PATH",
    999: _REBOOT,
}


class CudaError(RuntimeError):
    """A driver call that failed. call: its name; number, name: of the error, 0 and '' where there was no
    call."""

    def __init__(self, told, call="", number=0, name=""):
        super().__init__(told, call, number, name)
        self.call, self.number, self.name = call, number, name

    def __str__(self):
        return self.args[0]


def failed(call: str, number: int, name: str, meaning: str) -> CudaError:
    """The error of a call."""
    advice = ADVICE.get(number)
    told = f"{call}: {name or 'CUDA_ERROR'} ({number}), {meaning or 'unknown to this driver'}"
    return CudaError(f"{told}; {advice}" if advice else told, call, number, name)
