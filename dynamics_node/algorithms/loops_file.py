"""A file beside the URDF that names its closed loops, as Gepetto's example robots have it.

closed_loop: [[link_a, link_b], ...]
type: [6d, 3d, ...]          # 6d: fixed, 3d: ball, or any type of a URDF+ loop whose axis is z

The node says what is wrong with it to everybody in the network, and its name is a parameter: so messages say
where in the file, and never what stands there.
"""

from dynamics_node.robot import ModelError
from dynamics_node.robot.description import LoopDescription, LoopEnd
from dynamics_node.robot.plain_yaml import composed, plain
from dynamics_node.robot.safe_files import read_regular_file

_TYPES = {"6d": "fixed", "3d": "ball"}
MAX_BYTES = 1024 * 1024


def read_loops_file(path):
    """The bytes of a sidecar file, not many more than it may have. Raises OSError."""
    return read_regular_file(path, MAX_BYTES + 1)


def read_sidecar(text) -> tuple[LoopDescription, ...]:
    """The loops of a sidecar's text. Raises ModelError saying what is wrong."""
    if len(text) > MAX_BYTES:
        raise ModelError(f"the file of loops has more than {MAX_BYTES} bytes")
    content = plain(composed(text, "loops", ModelError))
    pairs = content.get("closed_loop") if isinstance(content, dict) else None
    if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        raise ModelError("the file of loops needs closed_loop: a list of pairs of links")
    kinds = content.get("type", ["6d"] * len(pairs))
    if not isinstance(kinds, list) or len(kinds) != len(pairs):
        raise ModelError(f"the file of loops has {len(pairs)} pairs of links and not as many types")
    if not all(isinstance(kind, str) for kind in kinds):
        raise ModelError("the file of loops has a type that is no word")
    return tuple(
        LoopDescription(f"closed_loop {k}", _TYPES.get(kind, kind), LoopEnd(a), LoopEnd(b))
        for k, ((a, b), kind) in enumerate(zip(pairs, kinds, strict=True), 1)
    )


def _is_pair(pair):
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(link, str) for link in pair)
