"""PTX, the assembly text that NVRTC writes, run by NumPy: what a kernel does without a device, and what it
does wrong.

One lane of every array is one thread. Threads of a block, barriers, shared memory and shuffles are those of
the PTX manual (ISA 9.x); see `run`. What a device would not say is a `Fault` here: accesses out of bounds
or misaligned, reads of what was never written, races in shared and in global memory, barriers that threads
leave behind, shuffles with threads that are elsewhere. It covers what NVRTC writes for this project's
kernels; whatever else it meets is a `Fault` that names the instruction.
"""

from .faults import Fault
from .machine import run
from .memory import Memory
from .report import Access, Report

__all__ = ["Access", "Fault", "Memory", "Report", "run"]
