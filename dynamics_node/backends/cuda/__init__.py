"""Programs on NVIDIA GPUs: text -> cubin (nvrtc), the driver by ctypes (driver, device), arrays that lie on
the device (device_arrays), and the Runner.

Nothing here needs CuPy, the CUDA toolkit or a compiler for the host: NVRTC's wheel and the driver's own
libcuda.so.1 do.
"""
