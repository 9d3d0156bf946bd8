"""Are results what they are without a device: the same bits, else how far from the reference?"""

import numpy as np
from kernels import OnDevice


def compared(kernel, device, image):
    """A row: numbers, how many differ in their bits from what the C build of the same text gives; the
    largest error beside the largest entry of the reference in float64, here and of that C build."""
    running = OnDevice(kernel, device, image, kernel.states)
    try:
        running.launch()
        found = running.results()
    finally:
        running.free()
    differ = sum(int(_differ(found[name], expected).sum()) for name, expected in kernel.expected.items())
    numbers = sum(expected.size for expected in kernel.expected.values())
    error, of_c = (_error(arrays, kernel.reference) for arrays in (found, kernel.expected))
    exact = kernel.entry["exact"]
    limit = 4 * of_c + np.finfo(kernel.dtype).eps
    return {
        "kernel": kernel.name, "numbers": numbers, "differ": differ, "error": error, "error_of_c": of_c,
        "ok": bool(differ == 0 if exact else error <= limit), "judged_by": "bits" if exact else "error",
    }  # fmt: skip


def _differ(found, expected):
    bits = np.uint32 if expected.dtype == np.float32 else np.uint64
    found, expected = (np.ascontiguousarray(array) for array in (found, expected))
    return (found.view(bits) != expected.view(bits)) & ~(np.isnan(found) & np.isnan(expected))


def _error(found, reference):
    """inf where one is a number and the other is none."""
    worst = 0.0
    for name, true in reference.items():
        array, good = found[name].astype(np.float64), np.isfinite(true)
        if (np.isfinite(array) != good).any():
            return float("inf")
        worst = max(worst, float(np.abs(array - true)[good].max() / np.abs(true[good]).max()))
    return worst
