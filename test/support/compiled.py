"""Compiled kernels: their outputs, for comparisons, and narrower vectors."""

import numpy as np

from dynamics_node.codegen.c import kernel
from dynamics_node.codegen.c.render_straight import WIDEST


def packed(result):
    """(count, entries): the concatenated outputs of a Kernel or BatchKernel; result: (outputs, health)."""
    outputs, _ = result
    return np.hstack([array.reshape(len(array), -1) for array in outputs])


def in_vectors_of_two(monkeypatch):
    """From here on the code for one state has vectors of two numbers, as on processors without AVX."""
    real, digest = kernel.render, kernel.renderer()
    monkeypatch.setattr(kernel, "render", lambda *of: _narrow(real(*of)))
    monkeypatch.setattr(kernel, "renderer", lambda: f"narrow {digest}")


def _narrow(text):
    line = f"#define WIDEST {WIDEST}\n"
    assert line in text
    return text.replace(line, "#define WIDEST 16\n")
