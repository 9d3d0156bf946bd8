"""What the model knows of cards: multiprocessors, clocks and memory of NVIDIA's data sheets."""

from typing import NamedTuple

from dynamics_node.codegen.cuda.choice import QUARTERS, Processor, processor_of


class Card(NamedTuple):
    """arch: of its cubins; multiprocessors; clock: GHz at most; bandwidth: bytes/s."""

    name: str
    arch: int
    multiprocessors: int
    clock: float
    bandwidth: float

    @property
    def processor(self) -> Processor:
        return processor_of(self.arch)

    @property
    def issues(self):
        """Warp instructions a second, at one a cycle in every partition."""
        return self.multiprocessors * QUARTERS * self.clock * 1e9


CARDS = {
    card.name: card
    for card in (
        Card("A100", 80, 108, 1.41, 2.039e12),
        Card("H100", 90, 132, 1.98, 3.35e12),
        Card("H200", 90, 132, 1.98, 4.8e12),
        Card("B200", 100, 148, 1.965, 8e12),
        Card("RTX 5090", 120, 170, 2.41, 1.792e12),
    )
}
