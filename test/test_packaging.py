"""The packages build and install with colcon; their declarations agree."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
import tomllib

ROOT = Path(__file__).parents[1]
COLCON = "import sys; from colcon_core.command import main; sys.exit(main())"  # run by this Python
SERVICE = "SetPayload.srv"  # the only one that colcon builds; ./dev builds all
EXECUTABLES = ("dynamics_node", "dynamics_estimator", "dynamics", "demo_motion", "demo_monitor")

# rosdep key -> PyPI name of what setup.py installs
PYPI_OF = {
    "python3-numpy": "numpy",
    "python3-scipy": "scipy",
    "urdfdom_py": "urdfdom-py",
    "python3-matplotlib": "matplotlib",
    "python3-rich": "rich",
    "python3-pytest": "pytest",
}


def test_package_xml_and_setup_py_agree():
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    setup = (ROOT / "setup.py").read_text()
    bounds = dict(re.findall(r'"([a-z-]+)>=([\d.]+)[",]', setup))
    for dependency in (*package.iter("exec_depend"), *package.iter("test_depend")):
        if dependency.text in PYPI_OF:
            assert bounds[PYPI_OF[dependency.text]] == dependency.get("version_gte"), dependency.text
    assert package.findtext("version") == re.search(r'version="([\d.]+)"', setup).group(1)
    assert package.findtext("license") == "Apache-2.0"


def test_version_of_the_package_matches_package_xml():
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
    for name in EXECUTABLES[2:]:
        done = subprocess.run([here / name, "--help"], capture_output=True, text=True, timeout=60, check=True)
        assert "usage" in done.stdout


def test_no_dependency_is_inside_the_package():
    """rosdep and colcon search for packages next to a package, never inside it."""
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    needed = {entry.text for entry in package if entry.tag.endswith("depend")}
    inside = {ElementTree.parse(path).findtext("name") for path in ROOT.glob("*/package.xml")}
    assert inside == {"dynamics_interfaces", "dynamics_controllers"} and not inside & needed


def test_package_includes_the_dependencies_of_its_interfaces():
    def needs(path):
        package = ElementTree.parse(path).getroot()
        return {entry.text for entry in package if entry.tag.endswith("depend")}

    assert needs(ROOT / "dynamics_interfaces" / "package.xml") <= needs(ROOT / "package.xml")


def test_all_tests_can_be_collected_together():
    """`colcon test` and plain pytest cannot import two files of the same name."""
    names = [path.name for path in (ROOT / "test").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)


@pytest.fixture(scope="module")
def colcon(tmp_path_factory, pytestconfig):
    """colcon(arguments...): runs colcon in its .workspace with a copy of this repository in src. With --all it has all
    services, also for C++, which takes four times as long."""
    if not find_spec("colcon_core") or not os.environ.get("AMENT_PREFIX_PATH"):
        pytest.skip("colcon and ROS 2 packages: use ./dev or source a ROS 2 installation")
    workspace = tmp_path_factory.mktemp("ws")
    unwanted = shutil.ignore_patterns(".*", "build", "install", "log")
    shutil.copytree(ROOT, workspace / "src" / "dynamics_node", ignore=unwanted)
    if not pytestconfig.getoption("all"):
        build = workspace / "src" / "dynamics_node" / "dynamics_interfaces" / "CMakeLists.txt"
        lines = build.read_text().splitlines(keepends=True)
        dropped = [line for line in lines if re.match("  srv/", line) and SERVICE not in line]
        assert len(dropped) >= 10
        build.write_text("".join(line for line in lines if line not in dropped))
    headers = os.environ.get("PYTHON_HEADERS")  # set by ./dev without python3-dev
    options = ["-DCMAKE_C_FLAGS_RELEASE=-O0", "-DCMAKE_CXX_FLAGS_RELEASE=-O0"]  # saves a third of the time
    options += [] if pytestconfig.getoption("all") else ["-DFOR_RCLPY=ON"]
    options += [f"-DPython3_INCLUDE_DIR={headers}"] if headers else []
    environment = {**os.environ, "CMAKE_ARGS": " ".join(options)}
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path != str(ROOT / "examples"))

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-c", COLCON, *arguments],
            cwd=workspace, env=environment, capture_output=True, text=True, timeout=580,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return workspace

    run.workspace, run.environment = workspace, environment
    return run


def installed_files():
    """Paths in a prefix of all that is installed, but for Python, which has a folder of its own."""
    share = {"package.xml": "package.xml", "launch": "launch/*.launch.py"}
    share |= {"config": "config/*.yaml", "config/layouts": "config/layouts/*.*"}
    for pattern in share.values():
        yield from (f"share/dynamics_node/{path.relative_to(ROOT)}" for path in ROOT.glob(pattern))
    yield from (f"lib/dynamics_node/{name}" for name in EXECUTABLES)
    for marker in (
        "packages/dynamics_node",
        "packages/dynamics_interfaces",
        "rosidl_interfaces/dynamics_interfaces",
    ):
        yield f"share/ament_index/resource_index/{marker}"
    yield "share/dynamics_interfaces/package.xml"
    yield from (f"share/dynamics_interfaces/{name}" for name in messages())
    for part in (
        "generator_c",
        "typesupport_c",
        "typesupport_fastrtps_c",
        "typesupport_introspection_c",
        "generator_py",
    ):
        yield f"lib/libdynamics_interfaces__rosidl_{part}.so"


def messages():
    """msg/NAME.msg and srv/NAME.srv of those that the fixture `colcon` builds."""
    for path in (ROOT / "dynamics_interfaces").glob("*/*.*"):
        if path.suffix == ".msg" or path.name == SERVICE:
            yield f"{path.parent.name}/{path.name}"


def python_files():
    """Paths in the folder of Python's packages of all modules, and of what they read."""
    for folder, parent in (
        (ROOT / "dynamics_node", ROOT),
        (ROOT / "examples/dynamics_demo", ROOT / "examples"),
    ):
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield str(path.relative_to(parent))
    for name in messages():
        kind, _, message = name.partition("/")
        module = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", message.split(".")[0]).lower()
        yield f"dynamics_interfaces/{kind}/_{module}.py"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_rules_of_bloom_install_every_file(colcon, tmp_path):
    """What dh_auto_build and dh_auto_install run by debian/rules of bloom, whose prefix is empty."""
    prefix, root = Path("/opt/ros/somewhere"), tmp_path / "debian"
    modules = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    for command in (
        ["build"],
        ["install", "--force", "--no-compile", "-O0", "--root", root, "--prefix", prefix,
         "--install-lib", f"$base/{modules}"],
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "setup.py", *command],
            cwd=colcon.workspace / "src" / "dynamics_node", env=colcon.environment, capture_output=True, text=True, timeout=500,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    installed = root / prefix.relative_to("/")
    assert [name for name in installed_files() if not (installed / name).is_file()] == []
    assert [name for name in python_files() if not (installed / modules / name).is_file()] == []
    assert list(root.iterdir()) == [root / "opt"]
    for path in installed.rglob("*"):
        if path.suffix in (".cmake", ".sh", ".py", ".dsv", ".xml"):
            assert str(tmp_path) not in path.read_text(), path  # debian/ is not where users have them


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [(), ("--symlink-install",)], ids=["install", "symlinks"])
def test_colcon_builds_and_installs_the_packages(colcon, options):
    """AMENT_PREFIX_PATH gives a ROS installation or the rosidl of the wheels."""
    workspace = colcon("build", *options)
    prefix = workspace / "install" / "dynamics_node"
    for name in EXECUTABLES:  # the search path of `ros2 run dynamics_node NAME`
        assert os.access(prefix / "lib" / "dynamics_node" / name, os.X_OK)
    assert [name for name in installed_files() if not (prefix / name).is_file()] == []
    assert (prefix / "share/dynamics_node/package.xml").is_symlink() == bool(options)
    sourced = in_sourced_shell(
        workspace,
        "python3 -c 'import dynamics_demo.robots, dynamics_interfaces, dynamics_node as dn; print(dynamics_interfaces.__file__, dn.__file__, dynamics_demo.__file__)'",
        # its libraries load from the workspace
        "python3 -c 'from dynamics_interfaces.srv import SetPayload; SetPayload.Request.__class__.__import_type_support__();"
        ' print(open("/proc/self/maps").read())\'',
        f"{prefix}/lib/dynamics_node/dynamics --help",
        f"{prefix}/lib/dynamics_node/demo_monitor --help",
    )
    interfaces, package, demo = sourced.splitlines()[0].split()
    assert interfaces.startswith(f"{prefix}/lib/python")
    for file in (package, demo):
        assert file.startswith(str(workspace / ("build" if options else "install")))
    assert f"{prefix}/lib/libdynamics_interfaces__rosidl_generator_c.so" in sourced
    assert "usage: dynamics" in sourced and "usage: demo_monitor" in sourced


WITH_CONTROLLERS = ("--base-paths", "src/dynamics_node", "src/dynamics_node/dynamics_controllers")


def test_colcon_finds_the_controllers_by_the_documented_line(tmp_path):
    if not find_spec("colcon_core"):
        pytest.skip("colcon: use ./dev or install python3-colcon-common-extensions")
    page = (ROOT / "docs" / "how-to" / "control_loop.md").read_text()
    assert f"colcon build {' '.join(WITH_CONTROLLERS)}" in page
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "dynamics_node").symlink_to(ROOT)
    listed = subprocess.run(
        [sys.executable, "-c", COLCON, "list", "--topological-order", "--names-only", *WITH_CONTROLLERS],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert listed.stdout.split() == ["dynamics_node", "dynamics_controllers"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_colcon_builds_the_controllers(colcon):
    from ament_index_python import PackageNotFoundError, get_package_prefix

    try:
        get_package_prefix("controller_interface")
    except PackageNotFoundError:
        pytest.skip("controller_interface: sudo apt install ros-$ROS_DISTRO-ros2-control")
    prefix = colcon("build", *WITH_CONTROLLERS) / "install" / "dynamics_controllers"
    for file in ("lib/libdynamics_controllers.so", "share/dynamics_controllers/dynamics_controllers.xml"):
        assert (prefix / file).is_file()
    colcon("test", *WITH_CONTROLLERS, "--packages-select", prefix.name, "--return-code-on-test-failure")


def in_sourced_shell(workspace, *commands):
    """The output of the commands after `. install/setup.sh`."""
    script = " && ".join([f". {workspace}/install/setup.sh", *commands])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        ["sh", "-c", script], cwd=workspace, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def package_name(name):
    return re.match(r"[\w.-]+", name).group().lower().replace("_", "-")


@pytest.fixture(scope="module")
def groups():
    """{group of pyproject.toml: the names in it and in those it includes}."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]

    def names(group):
        included = [names(entry["include-group"]) for entry in tables[group] if isinstance(entry, dict)]
        return {package_name(entry) for entry in tables[group] if isinstance(entry, str)}.union(*included)

    return {group: names(group) for group in tables}


def test_every_locked_dependency_has_a_version_and_a_digest(groups):
    text = (ROOT / "dependencies.lock").read_text()
    assert "http" not in text  # no index of a particular machine
    entries = [line for line in text.replace("\\\n", "").splitlines() if not line.startswith("#")]
    for entry in entries:
        assert re.fullmatch(r"[\w.-]+==[\w.+!]+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+", entry), entry
    assert groups["bench"] | groups["docs"] <= {package_name(entry) for entry in entries}


@pytest.mark.parametrize("group", ["demo", "test", "bench", "docs"])
def test_groups_and_extras_agree(group, groups, monkeypatch):
    monkeypatch.chdir(ROOT)
    from distutils.core import run_setup  # provided by setuptools

    setup = run_setup("setup.py", stop_after="init")
    extras = [names for extra, names in setup.extras_require.items() if extra.partition(":")[0] == group]
    tools = groups["ros"] | {"colcon-common-extensions"}
    assert groups[group] - tools == {package_name(name) for name in sum(extras, setup.install_requires)}
