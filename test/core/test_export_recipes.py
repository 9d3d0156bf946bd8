"""The recipes of docs/how-to/export_recipes.md: their files and commands, in the order of the page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from commands import exit_code
from exports import require_tool, run
from urdf_text import joint, link
from urdf_text import robot as urdf

import dynamics_node as dn

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "export_recipes.md").read_text()
STEP = re.compile(
    r"^`(?P<file>[\w./]+)`\n```\w+\n(?P<content>.*?)^```$|^```bash\n(?P<commands>.*?)^```$", re.M | re.S
)
ARM = urdf(
    *(link(name) for name in ("base", "upper", "lower")),
    joint("shoulder", "base", "upper"),
    joint("elbow", "upper", "lower", extra='<axis xyz="1 0 0"/>'),
)
STATE = [0.1, 0.2], [0.3, 0.4], [0.5, 0.6]  # of all recipes


def followed(recipe, folder, monkeypatch, without=()):
    """What the last command of a recipe prints; commands of the tools `without` are not run."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CC", "cc")  # of CMake
    Path("arm.urdf").write_text(ARM)
    section = re.search(rf"^## {recipe}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]
    steps, printed = list(STEP.finditer(section)), ""
    assert len(steps) >= 3
    for step in steps:
        if step["file"]:
            Path(step["file"]).parent.mkdir(parents=True, exist_ok=True)
            Path(step["file"]).write_text(step["content"])
            continue
        for command in step["commands"].splitlines():
            if command.startswith("dynamics "):
                assert exit_code(command.split()[1:]) == 0
            elif command.split()[0] not in without:
                printed = run("sh", "-c", command)
    return printed


def require_dynamics(printed):
    """The two lines of a recipe are torques, and the accelerations of these."""
    expected = dn.evaluate(dn.parse_robot(ARM), "inverse_dynamics", *STATE, backend="numpy")
    for line, right in zip(printed.splitlines(), (expected, STATE[2]), strict=True):
        np.testing.assert_allclose(json.loads(line), right, rtol=1e-12)


def test_rust(tmp_path, monkeypatch):
    require_tool("cmake", "cargo")
    require_dynamics(followed("Rust", tmp_path, monkeypatch))


def test_javascript(tmp_path, monkeypatch):
    require_tool("clang", "wasm-ld", "node")
    require_dynamics(followed("JavaScript by WebAssembly", tmp_path, monkeypatch, without=["emcc"]))


def test_emscripten(tmp_path, monkeypatch):
    require_tool("clang", "wasm-ld", "node", "emcc")
    followed("JavaScript by WebAssembly", tmp_path, monkeypatch)
    assert (tmp_path / "arm.wasm").exists() and (tmp_path / "arm.mjs").exists()


@pytest.mark.parametrize("compiler", ["arm-none-eabi-g++", "c++"])
def test_arduino(compiler, tmp_path, monkeypatch):
    """The library in C, the example in C++ behind a header of the board's functions."""
    require_tool(compiler)
    followed("Arduino", tmp_path, monkeypatch, without=["arduino-cli"])
    board = tmp_path / "Arduino.h"
    board.write_text(
        "unsigned long micros();\nvoid delay(unsigned long);\n"
        "struct { void begin(long); void println(double, int); void println(unsigned long); } Serial;\n"
    )
    flags = ["-fsyntax-only", "-Wall", "-Werror"]
    run(compiler, *flags, "-include", board, "-I", "arm/src", "-x", "c++", "arm/examples/torques/torques.ino")
    run({"c++": "cc"}.get(compiler, "arm-none-eabi-gcc"), *flags, "arm/src/arm_inverse_dynamics.c")


def test_arduino_cli(tmp_path, monkeypatch):
    require_tool("arduino-cli")
    if "arduino:mbed_giga" not in run("arduino-cli", "core", "list"):
        pytest.skip("arduino-cli core install arduino:mbed_giga")
    assert "Sketch uses" in followed("Arduino", tmp_path, monkeypatch)
