"""What the model makes of a kernel on the cards that it is compiled for."""

import hashlib

import gpu_model
from gpu_cards import CARDS
from gpu_kernels import ARCH, bytes_of_state

from dynamics_node.codegen.cuda.choice import WARP, cycles_of_a_warp, processor_of, resident_warps

PREDICTED = "predicted, never run"
SHOWN = tuple(card for card in CARDS.values() if card.arch == ARCH)


def digest(text):
    """The name of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def predictions(one):
    """{card: what is predicted, rates in states a second} of a kernel compiled for ARCH."""
    processor, size = processor_of(ARCH), bytes_of_state(one.kernel) + one.moved
    warps = resident_warps(processor, one.registers, one.kernel.variant.block, one.shared)
    cycles = cycles_of_a_warp(one.code, processor, warps)
    return {card.name: _on(one, card, warps, cycles, size) for card in SHOWN}


def _on(one, card, warps, cycles, size):
    bound, pipe = gpu_model.pipe_bound(one.code, card)
    memory, model = gpu_model.memory_bound(size, card), card.issues * WARP / cycles
    return {
        "told": PREDICTED, "warps": warps, "bytes_of_state": size, "pipe": pipe, "pipe_bound": bound,
        "memory_bound": memory, "model": model, "expected": min(memory, model), **one.counts,
    }  # fmt: skip
