"""Every target of `dynamics export` computes what the interpreter does, on its own machine or an emulated one."""

import json
import shutil
import subprocess
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import compilers
import numpy as np
import pytest
from exports import compile_tests, run
from foreign import PROCESSORS
from robots import robot_of, states_of

import dynamics_node as dn
from dynamics_node.algorithms.regressors import inertial_parameters
from dynamics_node.codegen import CompileError
from dynamics_node.functions import export_functions

DYNAMICS = ("inverse_dynamics", "forward_dynamics", "mass_matrix")
SUPPORT = Path(__file__).parents[1] / "support"
BOARDS = {  # {precision: (board of QEMU, flags)}
    "single": ("mps2-an386", ("-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16")),
    "double": ("mps2-an500", ("-mcpu=cortex-m7", "-mfpu=fpv5-d16")),
}


def exported(folder, name, target="c", functions=DYNAMICS, **choices):
    """The files of a robot's functions."""
    built = [dn.build(robot_of(name), function, backend="numpy") for function in functions]
    return export_functions(built, folder, target, **choices)


def require_tool(*names):
    """Skip where a tool is missing, or does not start: rustup's cargo needs a toolchain in the home folder."""
    for name in names:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is missing; .ci/cross installs it")
        if subprocess.run([name, "--version"], capture_output=True).returncode:
            pytest.skip(f"{name} does not start: {name} --version fails")


def test_clang(tmp_path):
    compilers.require("clang")
    exported(tmp_path, "panda7", derivatives=True, functions=["inverse_dynamics"])
    compile_tests(
        tmp_path, "clang", flags=["-Weverything", "-Wno-padded", "-Wno-declaration-after-statement"]
    )


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize(("name", "precision"), [("panda7", "double"), ("five_bar", "single")])
def test_processors(processor, name, precision, tmp_path):
    own = PROCESSORS[processor]
    if reason := own.fault():
        pytest.skip(reason)
    exported(tmp_path, name, precision=precision, libm=precision == "double")
    compile_tests(tmp_path, own.compiler, flags=["-O1", "-static"], under=[own.emulator])


@pytest.mark.parametrize(
    ("name", "precision"),
    [("panda7", "single"), ("panda7", "double"), ("five_bar", "single"), ("solo12", "single")],
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


@pytest.mark.parametrize(("name", "precision"), [("panda7", "double"), ("five_bar", "single")])
def test_rust(name, precision, tmp_path):
    require_tool("cargo")
    exported(tmp_path, name, "rust", precision=precision)
    assert (tmp_path / "src/lib.rs").read_text().count("#![no_std]") == 1
    printed = run("cargo", "test", "--offline", "--quiet", cwd=tmp_path)
    assert printed.count("1 passed") == 3


def test_long_functions_in_rust(tmp_path):
    """They have parts, which share a workspace."""
    require_tool("cargo")
    exported(tmp_path, "panda7", "rust", ["forward_dynamics"], derivatives=True)
    assert "let mut w: " in (tmp_path / "src/lib.rs").read_text()
    assert run("cargo", "test", "--offline", "--quiet", cwd=tmp_path).count("1 passed") == 2


@pytest.mark.parametrize(("name", "precision"), [("panda7", "double"), ("five_bar", "single")])
def test_webassembly_in_node(name, precision, tmp_path):
    require_tool("node")
    try:
        *_, module = exported(tmp_path, name, "wasm", precision=precision)
    except CompileError as error:
        pytest.skip(f"{error}; .ci/cross installs them")
    prefix, robot = module.stem, robot_of(name)
    states = [array[0] for array in states_of(name, 1)[:3]]
    given = json.dumps(
        [state.astype(np.float32 if precision == "single" else float).tolist() for state in states]
    )
    script = tmp_path / "call.mjs"
    script.write_text(
        f'import {{ readFile }} from "node:fs/promises";\nimport {{ load }} from "./{prefix}.mjs";\n'
        f'const f = await load(await readFile("{module}"));\nconst [q, qd, qdd] = {given};\n'
        f"const [tau] = f.{prefix}_inverse_dynamics(q, qd, qdd);\n"
        f"const [after] = f.{prefix}_forward_dynamics(q, qd, tau);\nconst [M] = f.{prefix}_mass_matrix(q);\n"
        "console.log(JSON.stringify([tau, after, M].map((x) => [...x])));\n"
    )
    tau, qdd, M = map(np.array, json.loads(run("node", script)))
    tolerance = 1e-11 if precision == "double" else 2e-5
    assert np.allclose(
        tau, dn.evaluate(robot, "inverse_dynamics", *states), rtol=0, atol=tolerance * np.abs(tau).max()
    )
    assert np.allclose(qdd, states[2], rtol=0, atol=10 * tolerance)
    assert np.allclose(
        M.reshape(robot.nv, -1), dn.evaluate(robot, "mass_matrix", states[0]), rtol=0, atol=tolerance * 4
    )


def test_long_functions_in_webassembly(tmp_path):
    """The stack of the module has room for all their locals; arrays of another size are errors."""
    require_tool("node", "clang", "wasm-ld")
    robot = robot_of("talos")
    derivatives = dn.build(robot, "inverse_dynamics", backend="numpy").derivatives("numpy")
    *_, module = export_functions([derivatives], tmp_path, "wasm", name="talos")
    q, v = dn.random_configuration(robot, random=1), np.linspace(-1, 1, robot.nv)
    function = "talos_inverse_dynamics_derivatives"
    script = tmp_path / "call.mjs"
    script.write_text(
        'import { readFile } from "node:fs/promises";\nimport { load } from "./talos.mjs";\n'
        f'const f = (await load(await readFile("{module}"))).{function};\n'
        f"const q = {q.tolist()}, v = {v.tolist()};\n"
        "try { f(q.slice(1), v, v); } catch (error) { console.log(`${error.name}: ${error.message}`); }\n"
        "console.log(JSON.stringify([...f(q, v, v)[0]]));\n"
    )
    message, numbers = run("node", script).splitlines()
    assert message == f"RangeError: {function}: q has {robot.nq} numbers, not {robot.nq - 1}"
    expected = derivatives(q, v, v)[0].ravel()
    assert np.allclose(json.loads(numbers), expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_webassembly_without_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CompileError, match="clang"):
        exported(tmp_path, "five_bar", "wasm")


def test_singular_states_in_webassembly(tmp_path):
    require_tool("node", "clang", "wasm-ld")
    robot = robot_of("panda7")
    function = dn.build(robot, "operational_space_inertia", backend="numpy", links=["panda_hand"])
    *_, module = function.export(tmp_path, "wasm", name="arm")
    script = tmp_path / "call.mjs"
    script.write_text(
        'import { readFile } from "node:fs/promises";\nimport { load } from "./arm.mjs";\n'
        f'const f = (await load(await readFile("{module}"))).arm_operational_space_inertia;\n'
        "console.log(f(Array(7).fill(0)) === null, f([0.1, 0.2, 0.3, -1, 0.5, 1, 0.7]).length);\n"
    )
    assert run("node", script).split() == ["true", "2"]


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
    done = fmpy.simulate_fmu(
        str(folder),
        stop_time=0.003,
        step_size=0.001,
        start_values=dict(zip(("q", "qd", "qdd"), map(list, states), strict=True)),
        output=["tau"],
    )
    assert len(done) == 4
    tau = dn.evaluate(robot, "inverse_dynamics", *states)
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


@pytest.mark.parametrize("compiler", ["arm-none-eabi-g++", "c++"])
def test_arduino(compiler, tmp_path):
    """The library in C, the example in C++ behind a header of the board's functions."""
    require_tool(compiler)
    exported(tmp_path, "five_bar", "arduino", precision="single")
    assert (tmp_path / "library.properties").read_text().startswith("name=five_bar\nversion=")
    board = tmp_path / "Arduino.h"
    board.write_text(
        "unsigned long micros();\nvoid delay(unsigned long);\n"
        "struct { void begin(long); void println(double, int); void println(unsigned long); } Serial;\n"
    )
    for sketch in (tmp_path / "examples").glob("*/*.ino"):
        flags = ["-fsyntax-only", "-Wall", "-Werror", "-include", board, "-I", tmp_path / "src", "-x", "c++"]
        run(compiler, *flags, sketch)
    for source in (tmp_path / "src").glob("*.c"):
        run({"c++": "cc"}.get(compiler, "arm-none-eabi-gcc"), "-fsyntax-only", "-Wall", "-Werror", source)
