"""Checks of the compilers that tests need, each with a trivial program."""

import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

PROGRAM = """#include <math.h>
int main(int count, char **words)
{
  return fma(count, 2.0, -2.0 * count) == 0.0 ? 0 : 1;
}
"""


@cache
def fault(*command, under=()) -> str | None:
    """The reason why a C compiler with these flags yields no program that runs, or None. under: a command that runs the
    program."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "probe.c"), Path(folder, "probe")
        source.write_text(PROGRAM)
        for step in ([*command, source, "-o", program, "-lm"], [*under, program]):
            try:
                done = subprocess.run([*map(str, step)], capture_output=True, text=True, errors="replace")
            except OSError as error:
                return f"{step[0]} does not run ({error.strerror}): sudo apt install gcc"
            if done.returncode:
                words = (done.stderr.strip().splitlines() or ["no message"])[-1]
                return (
                    f"a trivial program by `{' '.join(map(str, command))}` fails ({done.returncode}): {words}"
                )
    return None


def require(*command, under=(), module=False):
    """Skip a test, or a module, if a compiler does not work."""
    if reason := fault(*command, under=under):
        pytest.skip(reason, allow_module_level=module)
