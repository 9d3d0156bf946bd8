"""The code of docs/how-to/frameworks.md and the examples run, where their framework is installed."""

import re
import subprocess
import sys
from pathlib import Path

import compilers
import pytest

compilers.require("cc", module=True)
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "frameworks.md"
BLOCKS = re.findall(r"^## (\w+)\n.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("framework", "code"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_code(framework, code):
    module = {"PyTorch": "torch"}.get(framework, framework.lower())
    pytest.importorskip(module, reason=f"pip install {module}")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


@pytest.mark.parametrize(
    ("framework", "name", "fewer", "words"),
    [
        (
            "casadi",
            "mpc_casadi",
            ("--plans", "1", "--hessian", "limited-memory"),
            "first plan",
        ),  # order 1 compiles faster
        ("jax", "ilqr_jax", ("--iterations", "2"), "the loop is closed within"),
        ("torch", "friction_torch", ("--steps", "5"), "RMS errors of another motion"),
    ],
)
def test_example(framework, name, fewer, words, tmp_path):
    pytest.importorskip(framework, reason=f"pip install {framework}")
    pytest.importorskip("matplotlib")
    picture = tmp_path / "picture.png"
    command = [sys.executable, ROOT / "examples" / f"{name}.py", *fewer, "--plot", picture]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and words in done.stdout, done.stderr
    assert picture.stat().st_size > 10_000
