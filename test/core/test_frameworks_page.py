"""The code of docs/how-to/frameworks.md runs, where its framework is installed."""

import re
import subprocess
import sys
from pathlib import Path

import compilers
import pytest

compilers.require("cc", module=True)
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "frameworks.md"
BLOCKS = re.findall(r"^## (\w+)\n.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("framework", "code"), BLOCKS, ids=[name for name, _ in BLOCKS])
def test_code(framework, code):
    module = {"PyTorch": "torch"}.get(framework, framework.lower())
    pytest.importorskip(module, reason=f"pip install 'dynamics_node[{module}]'")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr
