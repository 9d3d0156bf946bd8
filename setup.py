"""The ament_python package dynamics_node; `pip install -e .[ros,test,demo]` works as well."""

from pathlib import Path

from setuptools import find_packages, setup

NAME = "dynamics_node"

# The real ROS 2 from PyPI, for machines without a ROS installation. The generator packages are
# needed to build dynamics_interfaces; several are missing from the metadata of their dependants.
ROS_WHEELS = [
    f"ros-jazzy-{name}"
    for name in (
        "rclpy",
        "rmw-fastrtps-cpp",
        "sensor-msgs",
        "trajectory-msgs",
        "geometry-msgs",
        "nav-msgs",
        "std-msgs",
        "std-srvs",
        "diagnostic-msgs",
        "rosidl-default-generators",
        "rosidl-core-generators",
        "ament-cmake",
        "ament-cmake-ros",
        "ament-package",
        "ament-cmake-include-directories",
        "ament-cmake-gmock",
        "ament-cmake-gtest",
        "ament-cmake-pytest",
        "python-cmake-module",
    )
] + ["catkin_pkg>=1.0", "empy>=3.3,<4", "cmake>=3.22", "ninja>=1.10", "colcon-common-extensions>=0.3"]

TEST = [
    "pytest>=7.2",
    "pytest-timeout>=2.1",
    "pytest-xdist>=3.0",
    "hypothesis>=6.80",
    "pin>=3.4",
    "example-robot-data>=4.3",
    "ruff>=0.5",
    "mypy>=1.10",
    "import-linter>=2.0",
]
BENCH = ["casadi>=3.6", "mujoco>=3.0"]
TABLES = ["pyarrow>=12.0", "rosbags>=0.9.20", "rich>=12.0"]
CLUSTER = ["dask[array]>=2023.5", "distributed>=2023.5"]
DEMO = ["matplotlib>=3.5", "rich>=12.0", "pin>=3.4", "example-robot-data>=4.3"]

setup(
    name=NAME,
    version="0.1.0",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", sorted(map(str, Path("launch").glob("*.launch.py")))),
        (f"share/{NAME}/config", sorted(map(str, Path("config").glob("*.yaml")))),
    ],
    package_data={NAME: ["py.typed", "backends/c/*.c"]},
    python_requires=">=3.10",
    install_requires=["numpy>=1.24", "scipy>=1.10", "defusedxml>=0.7", "urdfdom-py>=1.2", "pyyaml>=5.4"],
    extras_require={
        "ros": ROS_WHEELS,
        "test": TEST + TABLES + CLUSTER,
        "demo": DEMO,
        "bench": BENCH,
        "gtsam": ["gtsam>=4.3"],
        "tables": TABLES,
        "cluster": CLUSTER,
    },
    zip_safe=True,
    maintainer="dynamics_node founders",
    maintainer_email="founders@dynamics-node.invalid",
    description="Torques, accelerations and operational-space inertias from URDF and joint states",
    license="Apache-2.0",
    entry_points={
        "console_scripts": [
            "dynamics_node = dynamics_node.node.main:main",
            "dynamics = dynamics_node.cli:main",
            "demo_motion = dynamics_node.demo.motion:main",
            "demo_monitor = dynamics_node.demo.monitor:main",
        ]
    },
)
