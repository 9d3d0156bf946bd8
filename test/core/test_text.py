"""Names from the network in log and diagnostics."""

import pytest

from dynamics_node.text import LONGEST, one_line


@pytest.mark.parametrize("plain", ["panda_joint1", "Gelenk für Knie (N m)", "関節", "", 1.5, None])
def test_ordinary_text_stays(plain):
    assert one_line(plain) == str(plain)


@pytest.mark.parametrize(
    "evil", ["\n[FATAL] stop", "\x9b31m", "\x1b[2J", "\u202eb", "\udcff", "\0", "\r", "\u2028"]
)
def test_nothing_that_moves_the_cursor_gets_through(evil):
    made = one_line(f"x{evil}y")
    assert made.isprintable() and made.startswith("x\\") and made.endswith("y")


def test_long_text_is_cut():
    made = one_line("\n" * 5_000_000)
    assert len(made) < 2 * LONGEST + 50 and made.endswith("(4999500 more characters)")
