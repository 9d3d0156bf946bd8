"""PTX by NumPy finds every planted defect, by name, and nothing in the kernels that are right."""

import re
from functools import cache

import numpy as np
import planted
import ptx
import pytest
from text_in_ptx import ran
from with_nvrtc import nvrtc

from dynamics_node.codegen.printer import Variant, kernel
from dynamics_node.codegen.runner import returned
from dynamics_node.symbolic import trace

NVRTC = nvrtc()
NUMBERS = (np.arange(planted.COUNT) % 7).astype(np.float32)


def _run(name, defect=None):
    """y and the Report."""
    memory, count = ptx.Memory(), planted.COUNT
    x, y = memory.put(NUMBERS), memory.allocate(4 * count)
    text = NVRTC.ptx(planted.text(name, defect), 90)
    report = ptx.run(text, "states", -(-count // planted.BLOCK), planted.BLOCK, [count, x, y], memory)
    return memory.get(y, np.float32, count), report


@pytest.mark.parametrize("name", planted.KERNELS)
def test_a_right_kernel_runs_and_is_right(name):
    found, report = _run(name)
    np.testing.assert_allclose(found, planted.RESULTS[name](NUMBERS), rtol=1e-6)
    assert report.ratio("global") <= 4
    assert name == "warps" or report.ratio("shared") == 1
    assert report.barriers == {"scan": 4 * 7, "elimination": 4 * 12, "rows": 4 * 2, "warps": 0}[name]


@pytest.mark.parametrize("name", planted.DEFECTS)
def test_a_planted_defect_is_found(name):
    defect = planted.DEFECTS[name]
    with pytest.raises(ptx.Fault, match=defect.says) as fault:
        _run(defect.kernel, defect)
    assert "thread" in str(fault.value) and "of block" in str(fault.value)


# --- in a kernel that this project writes -------------------------------------------------------------------

BLOCK, STATES = 32, 37  # the last block is not full


@cache
def generated():
    """Kernel, inputs and shapes of outputs: two arrays of rows in and two out."""
    program = trace(lambda x, u: {"y": np.sin(x) * u[:3], "z": u * u[0]}, {"x": (3,), "u": (4,)})
    random = np.random.default_rng(0)
    inputs = {name: random.uniform(-1, 1, (STATES, *shape)) for name, shape in program.inputs.items()}
    return kernel(program, Variant("double", "rows", BLOCK)), inputs, returned(program)


IN_GENERATED = {
    "first barrier left out": (lambda t: t.replace("  BARRIER;\n", "", 1), "race"),
    "last barrier left out": (lambda t: "".join(t.rsplit("  BARRIER;\n", 1)), "race"),
    "index one too low": (
        lambda t: t.replace("x0_shared[THREAD * 3 + 0]", "x0_shared[THREAD * 3 - 1]"),
        "nothing was written",
    ),
    "read out of bounds": (
        lambda t: re.sub(rf"if \(THREAD \+ {BLOCK} < own \* 3\) x0_shared", "x0_shared", t),
        "outside",
    ),
    "two writers of one number": (
        lambda t: t.replace("y0[first * 3 + THREAD] =", "y0[first * 3 + THREAD / 2] ="),
        "race",
    ),
    "return before a barrier": (
        lambda t: t.replace("  BARRIER;\n", "  if (THREAD == 3) return;\n  BARRIER;\n", 1),
        "left behind",
    ),
    "copies left out": (lambda t: re.sub(r"    if \(.*\) x0_shared.*\n", "", t), "nothing was written"),
}


@pytest.mark.parametrize("name", IN_GENERATED)
def test_a_defect_in_a_generated_kernel_is_found(name):
    (made, *call), (spoil, says) = generated(), IN_GENERATED[name]
    body = made.text.index("KERNEL states")
    spoiled = made.text[:body] + spoil(made.text[body:])
    assert spoiled != made.text
    with pytest.raises(ptx.Fault, match=says):
        ran(made._replace(text=spoiled), NVRTC, STATES, *call)


def test_a_generated_kernel_without_a_defect():
    made, inputs, shapes = generated()
    found, _ = ran(made, NVRTC, STATES, inputs, shapes)
    np.testing.assert_allclose(found["y"], np.sin(inputs["x"]) * inputs["u"][:, :3], rtol=1e-14)
    np.testing.assert_allclose(found["z"], inputs["u"] * inputs["u"][:, :1], rtol=1e-14)


# --- how memory is reached, and what is not known ------------------------------------------------------------


def test_an_access_across_the_grain_is_counted():
    """Every lane of a warp a sector of its own; two words of each bank."""
    across = planted.Defect("scan", "a[T] = i < n ? x[i] : 0;", "a[T] = i < n ? x[i * 8 % n] : 0;", "")
    _, report = _run("scan", across)
    assert max(access.ratio for access in report.of("global")) > 20
    strided = planted.Defect(
        "scan", "a[T] = i < n ? x[i] : 0;", "a[T % 2 * 32 + T / 2] = i < n ? x[i] : 0;", ""
    )
    _, report = _run("scan", strided)
    assert max(access.ratio for access in report.of("shared")) == 2


def test_what_is_not_known_is_named():
    odd = planted.Defect("scan", "i < n ? x[i] : 0", "i < n ? __sinf(x[i]) : 0", "")
    with pytest.raises(ptx.Fault, match=r"sin\.approx"):
        _run("scan", odd)


def test_a_wrong_launch_is_an_error():
    text = NVRTC.ptx(planted.text("scan"), 90)
    with pytest.raises(ptx.Fault, match="64 threads"):
        ptx.run(text, "states", 1, 128, [0, 0, 0], ptx.Memory())
    with pytest.raises(ptx.Fault, match="3 parameters"):
        ptx.run(text, "states", 1, 64, [0], ptx.Memory())
    with pytest.raises(ptx.Fault, match="no kernel other"):
        ptx.run(text, "other", 1, 64, [0], ptx.Memory())
