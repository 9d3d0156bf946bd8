"""Every target of `dynamics export` computes what the interpreter does, on its own machine or an emulated one."""

import zipfile
from pathlib import Path
from xml.etree import ElementTree

import compilers
import numpy as np
import pytest
from exports import compile_tests, require_tool, run
from foreign import PROCESSORS
from robots import robot_of, states_of

import dynamics_node as dn
from dynamics_node.algorithms.regressors import inertial_parameters
from dynamics_node.functions import export_functions

DYNAMICS = ("inverse_dynamics", "forward_dynamics", "mass_matrix")
SUPPORT = Path(__file__).parents[1] / "support"
BOARDS = {  # {precision: (board of QEMU, flags)}
    "float32": ("mps2-an386", ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16")),
    "float64": ("mps2-an500", ("-mcpu=cortex-m7", "-mfpu=fpv5-d16")),
}


def exported(folder, name, target="c", functions=DYNAMICS, **choices):
    """The files of a robot's functions."""
    built = [dn.build(robot_of(name), function, backend="numpy") for function in functions]
    return export_functions(built, folder, target, **choices)


def test_clang(tmp_path):
    compilers.require("clang")
    exported(tmp_path, "panda7", derivatives=True, functions=["inverse_dynamics"])
    compile_tests(
        tmp_path, "clang", flags=["-Weverything", "-Wno-padded", "-Wno-declaration-after-statement"]
    )


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize(("name", "precision"), [("panda7", "float64"), ("five_bar", "float32")])
def test_processors(processor, name, precision, tmp_path):
    own = PROCESSORS[processor]
    if reason := own.fault():
        pytest.skip(reason)
    exported(tmp_path, name, precision=precision, libm=precision == "float64")
    compile_tests(tmp_path, own.compiler, flags=["-O1", "-static"], under=[own.emulator])


@pytest.mark.parametrize(
    ("name", "precision"),
    [("panda7", "float32"), ("panda7", "float64"), ("five_bar", "float32"), ("solo12", "float32")],
)
def test_microcontrollers(name, precision, tmp_path):
    """A Cortex-M4F in single precision, a Cortex-M7 in double precision."""
    require_tool("arm-none-eabi-gcc", "qemu-system-arm")
    board, flags = BOARDS[precision]
    functions = DYNAMICS if name == "five_bar" else DYNAMICS[:1]
    exported(tmp_path, name, precision=precision, libm=False, functions=functions)
    flags = ["-O1", *flags, "-mthumb", "-mfloat-abi=hard", "-Wno-pedantic", "--specs=rdimon.specs"]
    started = ["-T", SUPPORT / "cortex_m.ld", SUPPORT / "cortex_m.c"]
    under = ["qemu-system-arm", "-M", board, "-nographic", "-semihosting", "-kernel"]
    lines = compile_tests(tmp_path, "arm-none-eabi-gcc", [*flags, *started], libraries=(), under=under)
    assert sum("differs by" in line for line in lines) == len(functions)


@pytest.mark.optimized
@pytest.mark.parametrize("name", ["panda7", "five_bar"])
def test_fmu_in_fmpy(name, tmp_path):
    fmpy = pytest.importorskip("fmpy", reason="pip install fmpy")
    require_tool("cmake")
    from fmpy.build import build_platform_binary

    robot, states = robot_of(name), [array[0] for array in states_of(name, 1)[:3]]
    path = exported(tmp_path, name, "fmu", ["inverse_dynamics"])[0]
    folder = Path(fmpy.extract(str(path), str(tmp_path / "extracted")))
    build_platform_binary(folder, configuration="Release")
    values = dict(zip(("q", "qd", "qdd"), map(list, states), strict=True))
    times = {"stop_time": 0.003, "step_size": 0.001}
    done = fmpy.simulate_fmu(str(folder), **times, start_values=values, output=["tau"])
    assert len(done) == 4
    tau = dn.evaluate(robot, "inverse_dynamics", *states, backend="numpy")
    assert np.allclose(done["tau"], tau, rtol=0, atol=1e-12 * np.abs(tau).max())


def test_inputs_of_an_fmu_start_at_rest_with_the_inertias_of_the_robot(tmp_path):
    robot = robot_of("five_bar")
    function = dn.build(robot, "inverse_dynamics", backend="numpy", runtime_parameters=["inertia"])
    (path,) = function.export(tmp_path, "fmu")
    with zipfile.ZipFile(path) as archive:
        variables = ElementTree.fromstring(archive.read("modelDescription.xml")).iter("Float64")
        start = {v.get("name"): np.array(v.get("start", "").split(), float) for v in variables}
        archive.extractall(tmp_path)
    assert (start["inertia"] == inertial_parameters(robot.tree.inertias).ravel()).all()
    assert (start["qd"] == 0).all() and (start["qdd"] == 0).all()
    assert np.abs(dn.close_loops(robot, start["q"]) - start["q"]).max() < 1e-9
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    run("cc", *flags, tmp_path / "sources" / "fmu.c")
