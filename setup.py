"""The ament_python package dynamics_node, with ROS 2 or, as a library and a command line, without."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.develop import develop
from setuptools.command.install import install

NAME = "dynamics_node"
INTERFACES = "dynamics_interfaces"
DEMO_PACKAGE = "dynamics_demo"

CHECKS = [
    "pytest>=7.2",
    "pytest-timeout>=2.1",
    "pytest-xdist>=3.0",
    "hypothesis>=6.80",
    "example-robot-data>=4.3",
    "ruff>=0.5",
    "mypy>=1.10",
    "import-linter>=2.0",
    "argcomplete>=2",  # completion in shells
]
ORACLE = ["pin>=3.4"]  # brings NumPy 2; a sourced ROS 2 on Ubuntu 24.04 has Pinocchio for its NumPy 1.26
MUJOCO = ["mujoco>=3.3.7,<4"]  # reads MJCF; another oracle: linkages by its equality constraints
MODELS = ["gymnasium>=1.0"]  # robots in MJCF
XACRO = ["xacro>=2.0"]
DOCTOR = ["trimesh>=4.0", "pycollada>=0.8", "lxml>=4.9"]  # meshes; COLLADA needs the other two
BAGS = ["rosbags>=0.11.9", "rich>=13.0", "matplotlib>=3.5"]
TABLES = ["pyarrow>=12.0", "zarr>=3.1; python_version >= '3.11'", *BAGS]
PC = "sys_platform == 'linux' and platform_machine == 'x86_64'"
GPU_CHECKS = ["cupy-cuda13x>=14.0; " + PC, "nvidia-cuda-nvrtc>=13.0; " + PC]  # kernels compile without a GPU
CLUSTER = ["dask[array]>=2023.5", "distributed>=2023.5"]
GTSAM = ["gtsam>=4.3"]
DEMO = [*BAGS, "example-robot-data>=4.3", *ORACLE, *MUJOCO]
CASADI = ["casadi>=3.6"]
JAX = ["jax>=0.6.1"]  # 400 MB, and PyTorch more: their tests are skipped without them
TORCH = ["torch>=2.4"]
PLANNING = ["toppra>=0.6.10"]  # time-optimal trajectories
CONTACTS = ["daqp>=0.8.5"]  # quadratic programs of contact forces
VIEWER = ["viser>=1.1"]  # pages that play a motion
EXPORTS = [*CASADI, "fmpy>=0.3.20"]  # what loads exported functions
EXTRAS = DOCTOR + GTSAM + EXPORTS + PLANNING + CONTACTS + VIEWER
TEST = DEMO + XACRO + MODELS + CHECKS + TABLES + CLUSTER + GPU_CHECKS + EXTRAS
BENCH = [*TEST, "figaroh>=1.0.2"]
SITE = [  # the documentation
    "sphinx>=8.1",
    "pydata-sphinx-theme>=0.16",
    "myst-parser>=4.0",
    "sphinx-gallery>=0.18",
    "sphinx-design>=0.6",
    "sphinx-copybutton>=0.5",
    *VIEWER,  # an example plays a motion
]
DOCS = DEMO + SITE


class Install(install):
    """What `colcon build` calls, and with --root the rules of bloom. pip makes a wheel: the library alone."""

    def run(self):
        super().run()
        if os.environ.get("AMENT_PREFIX_PATH") and "bdist_wheel" not in self.distribution.command_obj:
            install_interfaces(self, self.root)


class Develop(develop):
    """What `colcon build --symlink-install` calls."""

    def run(self):
        super().run()
        if not self.uninstall and os.environ.get("AMENT_PREFIX_PATH"):
            install_interfaces(self)


def install_interfaces(command, root=None):
    """Build dynamics_interfaces and install it into the prefix of this package.

    colcon, rosdep and bloom look for no package inside a package, so nobody else builds it. CMAKE_ARGS of the
    environment are passed on, as --cmake-args reach CMake packages only. bloom makes a package of what is in
    the root, whose name no file may contain.
    """
    prefix = Path(command.get_finalized_command("install_data").install_dir).absolute()
    modules = Path(command.get_finalized_command("install").install_lib).absolute()
    build = Path(command.get_finalized_command("build").build_base).absolute() / INTERFACES
    source = Path(__file__).resolve().parent / INTERFACES
    definitions = {
        "CMAKE_INSTALL_PREFIX": "/" / prefix.relative_to(root or "/"),
        "PYTHON_INSTALL_DIR": os.path.relpath(modules, prefix),
        "Python3_EXECUTABLE": sys.executable,
        "CMAKE_BUILD_TYPE": "Release",
        "BUILD_TESTING": "OFF",
    }
    options = [f"-D{name}={value}" for name, value in definitions.items()]
    environment = _plain_environment() | ({"DESTDIR": root} if root else {})
    for step in (
        ["-S", source, "-B", build, *options, *shlex.split(os.environ.get("CMAKE_ARGS", ""))],
        ["--build", build, "--parallel", str(os.cpu_count())],
        ["--install", build],
    ):
        if subprocess.run(["cmake", *map(str, step)], env=environment, check=False).returncode:
            sys.exit(
                f"{INTERFACES} did not build; see above. What it needs: rosdep install --from-paths src -y"
            )


def _plain_environment():
    """Without the sitecustomize.py by which colcon gives Python another prefix: of CMake's Python there is
    only one."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [path for path in paths if path and not Path(path, "sitecustomize.py").exists()]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(kept)}


setup(
    name=NAME,
    version="0.1.0",
    packages=[*find_packages(include=[NAME, f"{NAME}.*"]), DEMO_PACKAGE],
    package_dir={DEMO_PACKAGE: f"examples/{DEMO_PACKAGE}"},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", sorted(map(str, Path("launch").glob("*.launch.py")))),
        (f"share/{NAME}/config", sorted(map(str, Path("config").glob("*.yaml")))),
        (f"share/{NAME}/config/layouts", sorted(map(str, Path("config/layouts").glob("*.*")))),
    ],
    package_data={
        NAME: [
            "py.typed",
            "codegen/c/*.c",
            "codegen/printer/*.h",
            "codegen/cuda/*.h",
            "codegen/export/*.c",
            "functions/bridges/*.c",
        ]
    },
    python_requires=">=3.10",
    install_requires=["numpy>=1.24", "scipy>=1.10", "urdfdom-py>=1.2", "pyyaml>=5.4", "markdown-it-py>=2.1"],
    extras_require={
        "test": TEST,
        "sourced": CHECKS + TABLES + CLUSTER + DOCTOR,  # with constraints-noble.txt
        "demo": DEMO,
        "bench": BENCH,
        "docs": DOCS,
        "site": SITE,
        "gtsam": GTSAM,
        "casadi": CASADI,
        "jax": JAX,
        "torch": TORCH,
        "mjcf": MUJOCO,
        "xacro": XACRO,
        "planning": PLANNING,
        "contacts": CONTACTS,
        "viewer": VIEWER,
        "cuda": ["cupy-cuda13x[ctk]>=14.0"],  # for drivers before 580: pip install 'cupy-cuda12x[ctk]'
        "tables": TABLES,
        "doctor": DOCTOR,
        "cluster": CLUSTER,
        "completion": ["argcomplete>=2"],
    },
    cmdclass={"install": Install, "develop": Develop},
    zip_safe=True,
    maintainer="dynamics_node founders",
    maintainer_email="founders@dynamics-node.invalid",
    description="Torques, accelerations and operational-space inertias from URDF and joint states",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "dynamics_node = dynamics_node.node.main:main",
            "dynamics_estimator = dynamics_node.node.estimator.__main__:main",
            "dynamics = dynamics_node.cli:main",
            "demo_motion = dynamics_demo.motion:main",
            "demo_monitor = dynamics_demo.monitor:main",
        ]
    },
)
