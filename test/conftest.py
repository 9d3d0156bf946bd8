"""What all tests share lies in test/support."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parent / "core"))
