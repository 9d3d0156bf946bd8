"""`./dev gpu bundle`: the folder .gpu, with all that a GPU's machine needs where nothing can be installed.

That machine has Python, NumPy, SciPy, lxml, PyYAML, CuPy, pytest and a C compiler; `sh .gpu/run.sh` runs the
tests that need a device, and if they pass the rates of gpu.py, in .gpu/benchmarks/gpu.json. Where a device
is here, it runs at once.
"""

import pickle
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import gpu

HERE = Path(__file__).parent
ROOT, FOLDER = HERE.parent, HERE.parent / ".gpu"
TESTS = (
    "arrays_on_the_device",
    "batches",
    "bridges_on_a_gpu",
    "chains",
    "functions_on_a_gpu",
)
PARTS = ("dynamics_node", "test/conftest.py", "test/gpu/conftest.py", "test/support", "pyproject.toml")
PARTS += tuple(f"test/gpu/test_{name}.py" for name in TESTS)
PARTS += tuple(f"benchmarks/{name}.py" for name in ("gpu", "harness"))
PACKAGES = ("urdf_parser_py",)  # of Python alone, which such a machine lacks
RUN = """#!/bin/sh
# The tests that need a device, then rates, in benchmarks/gpu.json
set -e
cd "$(dirname "$0")"
export PYTHONPATH="$PWD"
python3 -m pytest -q -m device -p no:cacheprovider test/gpu
python3 benchmarks/gpu.py
"""


def write(folder, models):
    """The folder, anew, with the Robots {name: Robot}."""
    shutil.rmtree(folder, ignore_errors=True)
    packages = {name: Path(find_spec(name).origin).parent for name in PACKAGES}
    for part, source in ({part: ROOT / part for part in PARTS} | packages).items():
        target = folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (folder / "run.sh").write_text(RUN)
    (folder / "benchmarks" / gpu.PICKLED.name).write_bytes(pickle.dumps(models))


def main():
    write(FOLDER, {name: gpu.robot(name) for name in gpu.ROBOTS})
    try:
        gpu.cupy_module()
    except gpu.DeviceError as error:
        print(f"written: {FOLDER}; {error}. On a machine with a GPU: sh {FOLDER.name}/run.sh")
        return
    subprocess.run(["sh", FOLDER / "run.sh"], check=True)


if __name__ == "__main__":
    main()
