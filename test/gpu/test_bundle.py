"""What a machine with a GPU gets, rehearsed without a device: it runs there without what such a machine lacks."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import gpu_bundle
from parallel_robots import chain

ABSENT = ("pinocchio", "example_robot_data", "rclpy", "mujoco", "cupy", "dynamics_demo")


def test_it_runs_without_what_such_a_machine_lacks(tmp_path):
    gpu_bundle.write(tmp_path / "gpu", {"panda": chain(7)})
    path = tmp_path / "bin" / "python3"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    absent = "".join(f"import sys\nsys.modules[{name!r}] = None\n" for name in ABSENT)
    (tmp_path / "gpu" / "sitecustomize.py").write_text(absent)
    environment = {"PATH": f"{path.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    command = ["sh", tmp_path / "gpu" / "run.sh"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" in done.stdout and "failed" not in done.stdout and "error" not in done.stdout
    report = json.loads((tmp_path / "gpu" / "benchmarks" / "gpu.json").read_text())
    assert report["device"] is None and len(report["rows"]) == 12
    assert all(row["ok"] is None and "CuPy" in row["reason"] for row in report["rows"])
