"""Names from the network in log and diagnostics."""

import pytest

from dynamics_node.text import LONGEST_LINE, one_line


@pytest.mark.parametrize("plain", ["panda_joint1", "Gelenk für Knie (N m)", "関節", "", 1.5, None])
def test_ordinary_text_is_unchanged(plain):
    assert one_line(plain) == str(plain)


@pytest.mark.parametrize(
    "evil", ["\n[FATAL] stop", "\x9b31m", "\x1b[2J", "\u202eb", "\udcff", "\0", "\r", "\u2028"]
)
def test_control_characters_are_escaped(evil):
    escaped = one_line(f"x{evil}y")
    assert escaped.isprintable() and escaped.startswith("x\\") and escaped.endswith("y")


def test_long_text_is_cut():
    escaped = one_line("\n" * 5_000_000)
    assert len(escaped) < 2 * LONGEST_LINE + 50 and escaped.endswith("(4999500 more characters)")
