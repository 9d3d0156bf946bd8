"""Programs on whatever speaks OpenCL: GPUs of all makers, and CPUs. Needs pyopencl (extra `opencl`)."""

from dynamics_node.backends.opencl.runner import OpenClRunner

__all__ = ["OpenClRunner"]
