"""The packages build with colcon and are found; the declarations agree with each other."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
COLCON = "import sys; from colcon_core.command import main; sys.exit(main())"  # with this very Python
EXECUTABLES = ("dynamics_node", "dynamics", "demo_motion", "demo_monitor")

# rosdep key -> PyPI name of what setup.py installs
PYPI_OF = {
    "python3-numpy": "numpy",
    "python3-scipy": "scipy",
    "python3-defusedxml": "defusedxml",
    "urdfdom_py": "urdfdom-py",
    "python3-matplotlib": "matplotlib",
    "python3-rich": "rich",
    "python3-pytest": "pytest",
}


def test_package_xml_and_setup_py_declare_the_same():
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    setup = (ROOT / "setup.py").read_text()
    bounds = dict(re.findall(r'"([a-z-]+)>=([\d.]+)[",]', setup))
    for dependency in (*package.iter("exec_depend"), *package.iter("test_depend")):
        if dependency.text in PYPI_OF:
            assert bounds[PYPI_OF[dependency.text]] == dependency.get("version_gte"), dependency.text
    assert package.findtext("version") == re.search(r'version="([\d.]+)"', setup).group(1)
    assert package.findtext("license") == "Apache-2.0"


def test_version_is_stated_once_more_in_the_package():
    import dynamics_node

    package = ElementTree.parse(ROOT / "package.xml").getroot()
    assert package.findtext("version") == dynamics_node.__version__


@pytest.mark.parametrize("path", sorted((ROOT / "launch").glob("*.py")), ids=lambda p: p.name)
def test_launch_files_compile(path):
    compile(path.read_text(), str(path), "exec")


def test_executables_are_on_the_path_of_the_environment():
    here = Path(sys.executable).parent
    if not (here / "dynamics_node").exists():
        pytest.skip("not an environment of ./dev")
    for name in EXECUTABLES[1:]:
        done = subprocess.run([here / name, "--help"], capture_output=True, text=True, timeout=60, check=True)
        assert "usage" in done.stdout


@pytest.mark.timeout(400)
def test_colcon_builds_both_packages(tmp_path):
    """Without a ROS installation (the wheels' rosidl) or with one: what AMENT_PREFIX_PATH offers."""
    if not find_spec("colcon_core") or not os.environ.get("AMENT_PREFIX_PATH"):
        pytest.skip("colcon and ROS 2 packages: use ./dev or source a ROS 2 installation")
    workspace = tmp_path / "dynamics_node"
    shutil.copytree(ROOT, workspace, ignore=shutil.ignore_patterns(".*", "build", "install", "log"))
    headers = os.environ.get("PYTHON_HEADERS")  # of ./dev, on a machine without python3-dev
    options = ["--cmake-args", f"-DPython3_INCLUDE_DIR={headers}"] if headers else []
    done = subprocess.run(
        [sys.executable, "-c", COLCON, "build", "--base-paths", ".", "dynamics_interfaces", *options],
        cwd=workspace, capture_output=True, text=True, timeout=380,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 packages finished" in done.stdout
    prefix = workspace / "install" / "dynamics_node"
    for name in EXECUTABLES:  # where `ros2 run dynamics_node NAME` looks
        assert os.access(prefix / "lib" / "dynamics_node" / name, os.X_OK)
    share = prefix / "share" / "dynamics_node"
    assert (share / "launch" / "dynamics.launch.py").is_file() and (
        share / "config" / "dynamics.yaml"
    ).is_file()
    assert (prefix / "share/ament_index/resource_index/packages/dynamics_node").is_file()
    command = (
        f". {workspace}/install/setup.sh && "
        "python3 -c 'import dynamics_interfaces.srv, dynamics_node; print(dynamics_interfaces.__file__)' && "
        f"{prefix}/lib/dynamics_node/dynamics --help"
    )
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(workspace / "install")) and "usage: dynamics" in done.stdout
