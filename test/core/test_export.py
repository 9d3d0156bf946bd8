"""Exported functions are C99 that any compiler takes, and compute what the interpreter does."""

import ctypes
import hashlib
import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import compilers
import numpy as np
import pytest
from commands import exit_code
from exports import CasadiFunction, call, compile_tests, library, run, text
from robots import PANDA, ROBOTS, TEXTS, data_folder, robot_of, states_of
from urdf_text import joint, link
from urdf_text import robot as urdf

import dynamics_node as dn
from dynamics_node.codegen.export import targets
from dynamics_node.codegen.export.names import c_string, identifier, identifiers, in_comment
from dynamics_node.errors import ChoiceError, CompileError
from dynamics_node.functions import export_functions
from dynamics_node.robot.sensors import JointTorque
from dynamics_node.symbolic import LaneProgram, flattened, interpret, jacobian, pullback, pushforward

compilers.require("cc", module=True)
DYNAMICS = ("inverse_dynamics", "forward_dynamics", "mass_matrix")
HAND = {"link": "panda_hand"}


def built(robot, *names, **choices):
    """Functions without code of their own."""
    return [dn.build(robot, name, backend="numpy", **choices) for name in names]


@pytest.mark.parametrize(
    ("name", "precision", "libm"),
    [
        ("panda7", "float64", True),
        ("panda7", "float32", False),
        ("five_bar", "float64", False),
        ("five_bar", "float32", True),
        ("solo12", "float64", True),
    ],
)
def test_results_are_those_of_the_interpreter(name, precision, libm, tmp_path):
    """The test program has the states; it is compiled without a warning."""
    robot = robot_of(name)
    functions = built(robot, *DYNAMICS)
    functions += built(robot, "frame_jacobian", **HAND) if name == "panda7" else []
    export_functions(functions, tmp_path, precision=precision, libm=libm)
    lines = compile_tests(tmp_path, flags=["-O1" if name == "panda7" else "-O0"], libraries=["-lm"] * libm)
    assert len(lines) == len(functions)


def test_a_test_program_fails_for_wrong_results(tmp_path):
    (inverse,) = built(robot_of("five_bar"), "inverse_dynamics")
    inverse.export(tmp_path)
    source = tmp_path / "five_bar_inverse_dynamics.c"
    wrong = source.read_text().replace("  tau[1] = ", "  tau[1] = 1e-9 + ")
    assert wrong != source.read_text()
    source.write_text(wrong)
    with pytest.raises(AssertionError, match="ends with 1"):
        compile_tests(tmp_path)


def test_derivatives_in_parts(tmp_path):
    """Long functions are several, which share a workspace."""
    export_functions(built(robot_of("panda7"), "forward_dynamics"), tmp_path, derivatives=True)
    (source,) = tmp_path.glob("*_derivatives.c")
    assert "_part1(" in source.read_text()
    assert len(compile_tests(tmp_path, flags=["-O0"])) == 4


@pytest.mark.parametrize(("precision", "libm"), [("float64", True), ("float32", False)])
def test_long_derivatives_are_stages(precision, libm, tmp_path):
    """A function is called for one lane after the other, where straight lines are long."""
    derivatives = built(robot_of("solo12"), "forward_dynamics_derivatives")
    export_functions(derivatives, tmp_path, precision=precision, libm=libm)
    (source,) = tmp_path.glob("*.c")
    assert "for (int i = 0; i < 18; ++i) solo_forward_dynamics_derivatives_stage" in source.read_text()
    assert source.stat().st_size < 500_000
    assert len(compile_tests(tmp_path, flags=["-O0"], libraries=["-lm"] * libm)) == 3


@pytest.mark.parametrize("libm", [True, False])
def test_objects_need_nothing_and_have_no_state(libm, tmp_path):
    export_functions(
        built(robot_of("panda7"), *DYNAMICS, runtime_parameters=["inertia"]), tmp_path, libm=libm
    )
    for source in tmp_path.glob("*.c"):
        assert source.read_text().count("#include <") == libm
        built_object = source.with_suffix(".o")
        run("cc", "-std=c99", "-O1", "-ffreestanding", "-c", source, "-o", built_object)
        needed = {line.split()[-1] for line in run("nm", "-u", built_object).splitlines()}
        assert needed <= (
            {"sin", "cos", "sincos", "_GLOBAL_OFFSET_TABLE_"} if libm else {"_GLOBAL_OFFSET_TABLE_"}
        )
        sections = {line.split()[-2] for line in run("nm", "--defined-only", built_object).splitlines()}
        assert not sections & set("bBcCgGsSD") and sections - {"d"}  # d: pointers to names, constant


def test_headers_are_c_plus_plus(tmp_path):
    export_functions(built(robot_of("five_bar"), *DYNAMICS), tmp_path, "casadi", derivatives=True)
    source = tmp_path / "all.cpp"
    source.write_text("".join(f'#include "{path.name}"\n' for path in sorted(tmp_path.glob("*.h"))))
    run("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", source)


@pytest.mark.parametrize(("precision", "eps"), [("float64", 2.3e-16), ("float32", 1.2e-7)])
def test_own_sine_and_cosine(precision, eps, tmp_path):
    program = dn.trace(lambda q: {"s": np.sin(q), "c": np.cos(q)}, {"q": ()})
    dn.compile(program, backend="numpy", name="turn").export(tmp_path, precision=precision, libm=False)
    function = library(tmp_path).dynamics_turn
    dtype, largest = (np.float64, 65536.0) if precision == "float64" else (np.float32, 4096.0)
    quarters = np.arange(-40, 41) * np.pi / 4
    near = np.concatenate([quarters, *(np.nextafter(quarters.astype(dtype), dtype(s * 99)) for s in (-1, 1))])
    random = np.random.default_rng(1).uniform(-1, 1, 3000)
    angles = np.concatenate([near, 10 * random, largest * random, [largest, -largest, 0.0, 1e-30]]).astype(
        dtype
    )
    s, c, both = np.empty(1, dtype), np.empty(1, dtype), []
    for k in range(len(angles)):
        call(function, angles[k : k + 1], s, c)
        both.append((s[0], c[0]))
    exact = angles.astype(np.longdouble)
    right = np.stack([np.sin(exact), np.cos(exact)], axis=1)
    assert np.abs(np.array(both) - right).max() <= 2.5 * eps
    for beyond in (1.01 * largest, np.inf, np.nan, -1e30):
        call(function, np.array([beyond], dtype), s, c)
        assert np.isnan(s[0]) and np.isnan(c[0])


def test_a_singular_state_leaves_the_results_alone(tmp_path):
    robot = robot_of("panda7")
    (inertia,) = built(robot, "operational_space_inertia", links=["panda_hand"])
    inertia.export(tmp_path, "casadi")
    loaded = library(tmp_path)
    singular, regular = np.zeros(7), dn.random_configuration(robot, random=3)
    results = [np.full(shape, 5.0) for shape in ((6, 6), (6, 7))]
    function = loaded.panda_operational_space_inertia
    assert call(function, singular, *results) == 1 and all((array == 5.0).all() for array in results)
    assert call(function, np.full(7, np.nan), *results) == 1 and (results[0] == 5.0).all()
    assert call(function, regular, *results) == 0
    for own, right in zip(results, inertia(regular), strict=True):
        assert np.allclose(own, right, rtol=1e-9)
    casadi = CasadiFunction(loaded, "panda_operational_space_inertia_casadi")
    assert casadi(q=singular)[0] == 1 and casadi(q=regular)[0] == 0


def test_results_may_overwrite_arguments(tmp_path):
    robot = robot_of("panda7")
    (hybrid,) = built(robot, "hybrid_dynamics", forward_joints=["panda_joint2", "panda_joint5"])
    hybrid.export(tmp_path)
    q, qd, qdd, tau = np.random.default_rng(2).uniform(-1, 1, (4, 7))
    right = hybrid(q, qd, qdd, tau)
    call(library(tmp_path).panda_hybrid_dynamics, q, qd, qdd, tau, tau, qdd)
    assert np.allclose(tau, right.qdd, atol=1e-10) and np.allclose(qdd, right.tau, atol=1e-10)


def test_a_payload_in_the_loop(tmp_path):
    robot = robot_of("panda7")
    (inverse,) = built(robot, "inverse_dynamics", runtime_parameters=["inertia"])
    inverse.export(tmp_path)
    loaded, q, qd, qdd = library(tmp_path), *np.random.default_rng(4).uniform(-1, 1, (3, 7))
    default = loaded.panda_inverse_dynamics_inertia
    default.restype = ctypes.POINTER(ctypes.c_double)
    inertia, tau = np.ctypeslib.as_array(default(), (7, 10)).copy(), np.empty(7)
    call(loaded.panda_inverse_dynamics, q, qd, qdd, inertia, tau)
    assert np.allclose(tau, inverse(q, qd, qdd), rtol=0, atol=1e-11)
    names = [text(loaded.panda_inverse_dynamics_body_name, k).decode() for k in range(7)]
    assert names == [body.name for body in robot.bodies]
    assert text(loaded.panda_inverse_dynamics_body_name, 7) is None
    com = np.array([0.03, -0.02, 0.1])
    moments = np.array([[3, 0.1, 0.2], [0.1, 4, -0.3], [0.2, -0.3, 5]]) * 1e-3
    heavier = dn.with_payload(robot, names[6], 2.0, com, moments)
    add = loaded.panda_inverse_dynamics_add_payload
    six = moments[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]
    at = [ctypes.c_void_p(array.ctypes.data) for array in (inertia, com, six)]
    add(at[0], 6, ctypes.c_double(2.0), *at[1:])
    call(loaded.panda_inverse_dynamics, q, qd, qdd, inertia, tau)
    assert np.allclose(tau, inverse.with_inertias(heavier)(q, qd, qdd), rtol=0, atol=1e-11)


def test_facts(tmp_path):
    file = ROBOTS["solo12"].file
    robot = dn.load_robot(file, floating_base=True)
    (inverse,) = built(robot, "inverse_dynamics")
    other = inverse.export(tmp_path / "other", precision="float32", name="other")
    inverse.export(tmp_path / "one")
    loaded, name = library(tmp_path / "one"), "solo_inverse_dynamics"
    assert getattr(loaded, f"{name}_n_joints")() == robot.nv == 18
    joint = getattr(loaded, f"{name}_joint_name")
    assert [text(joint, k).decode() for k in range(18)] == list(robot.v_names)
    assert text(joint, 18) is None and text(joint, -1) is None
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert text(getattr(loaded, f"{name}_urdf_hash")).decode() == digest == robot.urdf_digest
    assert text(getattr(loaded, f"{name}_version")).decode() == dn.__version__
    own = text(getattr(loaded, f"{name}_hash")).decode()
    assert len(own) == 64 and own not in "".join(path.read_text() for path in other)
    header = (tmp_path / "one" / f"{name}.h").read_text()
    assert "#define SOLO_INVERSE_DYNAMICS_NQ 19\n" in header and "FL_HFE N m" in header


# --- names --------------------------------------------------------------------------------------------------

HOSTILE = '*/ "; int x?><?/\\\n#error \x7fé$(id) %s [a](b)'


def test_names_of_a_robot_do_not_reach_source(tmp_path):
    """They are strings of escaped bytes, or letters in a comment."""
    name = HOSTILE.replace("\n", " ").replace("\x7f", "")
    quoted = name.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
    description = urdf(link("base"), joint(quoted, "base", "arm"), link("arm"))
    robot = dn.parse_robot(description.replace('name="r"', f'name="{quoted}"'))
    (inverse,) = built(robot, "inverse_dynamics", runtime_parameters=["inertia"])
    paths = inverse.export(tmp_path)
    assert len(compile_tests(tmp_path)) == 1
    loaded = library(tmp_path, "-Wtrigraphs")
    prefix = identifier(robot.name)
    assert text(getattr(loaded, f"{prefix}_inverse_dynamics_joint_name"), 0).decode() == robot.v_names[0]
    for path in paths:
        assert path.name.isascii() and path.resolve().is_relative_to(tmp_path.resolve())
        assert not [words for words in ('"; int', "$(id)", "](", "?>") if words in path.read_text()]


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("panda", "panda"), ("UR-5e", "ur_5e"), ("int", "robot_int"), ("7dof", "robot_7dof"), ("", "robot"),
        ("../../etc", "etc"), ("__x__", "x"), ("é", "robot"), ("a" * 99, "a" * 48), ("test", "robot_test"), ("all", "robot_all"),
        ("clean", "robot_clean"), ("install", "robot_install"), ("help", "robot_help"), ("m", "robot_m"),
    ],
)  # fmt: skip
def test_identifiers(name, own):
    assert identifier(name) == own


def test_identifiers_differ_and_are_no_locals():
    made = identifiers(["q", "Q", "t12", "arg", "sin", "q 2", "q_2"])
    assert len(set(made)) == 7 and made[:2] == ["q", "q_2"]
    assert not {"t12", "arg", "sin"} & set(made)


def test_strings_and_comments():
    assert c_string('a"b\\\n?é') == '"a\\042b\\134\\012\\077\\303\\251"'
    assert in_comment("a */ b ??/ \n") == "a _/ b __/ _"


# --- CasADi -------------------------------------------------------------------------------------------------


DERIVED = [
    ("five_bar", "forward_dynamics", {}),
    ("panda7", "frame_jacobian", HAND),
    ("solo12", "inverse_dynamics", {}),
    ("panda", "forward_dynamics", {}),  # by a Program of its derivatives; a finger mimics the other
]


@pytest.mark.parametrize(("name", "quantity", "options"), DERIVED, ids=lambda own: str(own)[:16])
def test_interface_of_casadi(name, quantity, options, tmp_path):
    """Derivatives in CasADi's layout are those of the Program, by its entries."""
    robot = robot_of(name)
    (function,) = built(robot, quantity, **options)
    function.export(tmp_path, "casadi", name="f", derivatives=True, second_derivatives=name == "five_bar")
    loaded, own = library(tmp_path, "-O0"), f"f_{quantity}_casadi"
    random = np.random.default_rng(8)
    q, *rest = (array[0] for array in states_of(name, 1)[:3])
    state = dict(zip(function.runner.inputs, (q, *rest), strict=False))
    state.pop("gravity", None)
    program, given = fixed_gravity(function), {n: state[n] for n in state}
    value = next(iter(interpret(program, **given).values()))
    matrix = value.reshape(len(value), -1)
    (result,) = (n for n in CasadiFunction(loaded, own).outputs)
    code, results = CasadiFunction(loaded, own)(**given)
    assert code == 0 and np.allclose(results[result], matrix, rtol=1e-11, atol=1e-12)
    (output,) = [n for n in program.outputs if n != "health"]
    derived = interpret(jacobian(program, [output], list(given)), **given)
    _, results = CasadiFunction(loaded, f"jac_{own}")(**given)
    for n in given:
        right = derived[f"d{output}_d{n}"].reshape(*matrix.shape, -1)
        right = np.moveaxis(right, 0, 1).reshape(matrix.size, -1)
        assert np.allclose(results[f"jac_{result}_{n}"], right, rtol=1e-9, atol=1e-9 * np.abs(right).max())
    along = {f"fwd_{n}": random.uniform(-1, 1, np.shape(x)) for n, x in given.items()}
    right = interpret(pushforward(program, [output], list(given)), **given, **along)[f"fwd_{output}"]
    _, results = CasadiFunction(loaded, f"fwd1_{own}")(**given, **along)
    assert np.allclose(results[f"fwd_{result}"], right.reshape(matrix.shape), rtol=1e-9, atol=1e-9)
    by_jacobian = sum(derived[f"d{output}_d{n}"] @ along[f"fwd_{n}"] for n in given)
    assert np.allclose(right, by_jacobian, rtol=1e-9, atol=1e-9)
    weight = random.uniform(-1, 1, value.shape)
    right = interpret(pullback(program, [output], list(given)), **given, **{f"adj_{output}": weight})
    weights = {f"adj_{result}": weight.reshape(matrix.shape)}
    _, gradient = CasadiFunction(loaded, f"adj1_{own}")(**given, **weights)
    for n in given:
        assert np.allclose(gradient[f"adj_{n}"].ravel(), right[f"adj_{n}"], rtol=1e-9, atol=1e-9)
        rows = weight.ravel() @ derived[f"d{output}_d{n}"].reshape(value.size, -1)
        assert np.allclose(right[f"adj_{n}"], rows, rtol=1e-9, atol=1e-9)
    if name == "five_bar":
        adjoint = CasadiFunction(loaded, f"adj1_{own}")
        _, hessian = CasadiFunction(loaded, f"jac_adj1_{own}")(**given, **weights)
        for n in given:
            for k in range(len(given[n])):
                step = 1e-6 * np.eye(len(given[n]))[k]
                (_, a), (_, b) = (adjoint(**given | {n: given[n] + s * step}, **weights) for s in (1, -1))
                for m in given:
                    difference = (a[f"adj_{m}"] - b[f"adj_{m}"]).ravel() / 2e-6
                    assert np.allclose(hessian[f"jac_adj_{m}_{n}"][:, k], difference, rtol=1e-5, atol=1e-5)


def fixed_gravity(function):
    """The Program with the gravity of the robot."""
    spec, gravity = function.spec, function.robot.gravity
    program = dn.build(function.robot, spec.name, backend="c", **spec.options).program
    program = flattened(program) if isinstance(program, LaneProgram) else program
    if "gravity" not in program.inputs:
        return program
    shapes = {n: shape for n, shape in program.inputs.items() if n != "gravity"}
    return dn.trace(lambda **state: interpret(program, gravity=gravity, **state), shapes, program.limits)


def test_arguments_of_casadi_may_be_null(tmp_path):
    robot = robot_of("panda7")
    (inverse,) = built(robot, "inverse_dynamics")
    inverse.export(tmp_path, "casadi", derivatives=True)
    loaded, q = library(tmp_path, "-O0"), np.linspace(-1, 1, 7)
    function = CasadiFunction(loaded, "panda_inverse_dynamics_casadi")
    assert np.allclose(function(q=q)[1]["tau"].ravel(), inverse(q, np.zeros(7), np.zeros(7)), atol=1e-12)
    assert function(q=q, without=["tau"])[0] == 0
    first = CasadiFunction(loaded, "jac_panda_inverse_dynamics_casadi")
    code, results = first(q=q, without=["jac_tau_q"])
    assert code == 0 and np.allclose(
        results["jac_tau_qdd"], dn.evaluate(robot, "mass_matrix", q, backend="numpy"), atol=1e-12
    )


@pytest.mark.optimized
def test_an_optimization_in_casadi(tmp_path):
    """IPOPT with exact Hessians finds the position of least gravity torque that reaches a height."""
    casadi = pytest.importorskip("casadi", reason="pip install casadi")
    robot = robot_of("panda7")
    functions = built(robot, "gravity_torque") + built(robot, "frame_pose", **HAND)
    paths = export_functions(functions, tmp_path, "shared", derivatives=True, second_derivatives=True)
    path = str(paths[-1])
    torque, pose = (
        casadi.external(f"panda_{name}_casadi", path) for name in ("gravity_torque", "frame_pose")
    )
    q = casadi.MX.sym("q", 7)
    height = pose(q)[1][2]
    problem = {"x": q, "f": casadi.sumsqr(torque(q)) + 1e-2 * casadi.sumsqr(q), "g": height}
    solver = casadi.nlpsol("s", "ipopt", problem, {"ipopt.print_level": 0, "print_time": 0})
    done = solver(x0=np.linspace(0.1, 0.7, 7), lbg=0.3, ubg=0.3)
    stats = solver.stats()
    assert stats["success"] and stats["iter_count"] < 60
    at = np.array(done["x"]).ravel()
    assert abs(dn.evaluate(robot, "frame_pose", at, **HAND, backend="numpy").position[2] - 0.3) < 1e-7
    tau = dn.evaluate(robot, "gravity_torque", at, backend="numpy")
    assert np.isclose(float(done["f"]), tau @ tau + 1e-2 * at @ at, rtol=1e-9)
    hessian = casadi.Function("h", [q], [casadi.hessian(problem["f"], q)[0]])
    gradient = casadi.Function("g", [q], [casadi.gradient(problem["f"], q)])
    columns = [np.array(gradient(at + 1e-6 * e) - gradient(at - 1e-6 * e)) / 2e-6 for e in np.eye(7)]
    assert np.allclose(np.array(hessian(at)), np.hstack(columns), rtol=1e-5, atol=1e-4)


def test_numbers_of_casadi_are_double(tmp_path):
    """With another type the code would read them as garbage."""
    (inverse,) = built(robot_of("five_bar"), "inverse_dynamics")
    inverse.export(tmp_path, "casadi")
    source = tmp_path / "five_bar_inverse_dynamics.c"
    done = subprocess.run(
        ["cc", "-fsyntax-only", "-Dcasadi_real=float", source], capture_output=True, text=True, check=False
    )
    assert done.returncode and "casadi_real_must_be_double" in done.stderr


def test_calling_convention_of_acados(tmp_path):
    """acados compiles with 32-bit integers, and reads the sizes before it calls."""
    (inverse,) = built(robot_of("panda7"), "inverse_dynamics")
    inverse.export(tmp_path, "casadi", name="f")
    caller = tmp_path / "caller.c"
    caller.write_text(
        """#include <stdio.h>
#include "f_inverse_dynamics.h"
int main(void)
{
  int args, results, integers, numbers;
  const double *arg[8] = {0};
  double *res[8] = {0}, w[64], tau[7];
  if (f_inverse_dynamics_casadi_work(&args, &results, &integers, &numbers)) return 1;
  if (args != f_inverse_dynamics_casadi_n_in() || results != 1 || integers != 0 || numbers > 64) return 2;
  if (f_inverse_dynamics_casadi_sparsity_in(0)[0] != 7 || f_inverse_dynamics_casadi_sparsity_out(0)[0] != 7) return 3;
  res[0] = tau;
  const int mem = f_inverse_dynamics_casadi_checkout();
  if (f_inverse_dynamics_casadi(arg, res, 0, w, mem)) return 4;
  f_inverse_dynamics_casadi_release(mem);
  for (int i = 0; i < 7; ++i) printf("%.17g ", tau[i]);
  return 0;
}
"""
    )
    program = tmp_path / "caller"
    sources = [caller, tmp_path / "f_inverse_dynamics.c"]
    run("cc", "-std=c99", "-Wall", "-Werror", "-Dcasadi_int=int", *sources, "-o", program, "-lm")
    tau = np.array(run(program).split(), dtype=float)
    assert np.allclose(tau, inverse(*np.zeros((3, 7))), rtol=0, atol=1e-12)


# --- the project and the command ----------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake: pip install cmake")
def test_cmake_builds_tests_installs_and_is_found(tmp_path):
    (inverse,) = built(robot_of("five_bar"), "inverse_dynamics")
    inverse.export(tmp_path / "exported")
    make = ["cmake", "-S", tmp_path / "exported", "-B", tmp_path / "build", "-DCMAKE_C_COMPILER=cc"]
    run(*make, f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'prefix'}")
    assert "CMAKE_BUILD_TYPE:STRING=Release\n" in run("cmake", "-LA", "-N", tmp_path / "build")  # by default
    run("cmake", "--build", tmp_path / "build")
    assert "100% tests passed" in run("ctest", "--test-dir", tmp_path / "build")
    run("cmake", "--install", tmp_path / "build")
    user = tmp_path / "user"
    user.mkdir()
    version = ".".join(dn.__version__.split(".")[:2])
    (user / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(user CXX)\n"
        f"find_package(five_bar {version} REQUIRED)\n"
        "add_executable(user main.cpp)\ntarget_link_libraries(user five_bar::five_bar)\n"
    )
    (user / "main.cpp").write_text(
        "#include <five_bar_inverse_dynamics.h>\n#include <cstdio>\n"
        'int main() { std::printf("%d", five_bar_inverse_dynamics_n_joints()); }\n'
    )
    run("cmake", "-S", user, "-B", user / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}")
    run("cmake", "--build", user / "build")
    assert run(user / "build" / "user") == "2"


def test_a_robot_without_joints(tmp_path):
    """Its results are empty, and its functions compile without a warning."""
    robot = dn.parse_robot(urdf(link("rock")))
    functions = built(robot, "inverse_dynamics", "forward_dynamics", "mass_matrix", "kinetic_energy")
    export_functions(functions, tmp_path)
    assert len(compile_tests(tmp_path)) == 4


@pytest.mark.parametrize("target", ["c", "casadi"])
def test_a_second_export_drops_no_function(target, tmp_path):
    """Files that list functions would name those of the second export alone."""
    robot = robot_of("five_bar")
    inverse, mass = built(robot, "inverse_dynamics", "mass_matrix")
    inverse.export(tmp_path, target)
    inverse.export(tmp_path, target)  # the same again
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(FileExistsError, match="five_bar_inverse_dynamics of another export"):
        mass.export(tmp_path, target)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    export_functions([inverse, mass], tmp_path, target)


def test_readme_declares_all_results(tmp_path):
    """The lines for C and for C++ with Eigen compile."""
    (energies,) = built(robot_of("panda7"), "frame_kinematics", link="panda_hand")
    energies.export(tmp_path)
    text = (tmp_path / "README.md").read_text().split("## C++ with Eigen")[1].split("Matrices are")[0]
    header = (tmp_path / "panda_frame_kinematics.h").read_text()
    call = re.search(r"panda_frame_kinematics\((.*)\);", text).group(1)
    results = [name.removesuffix(".data()") for name in call.split(", ")][3:]
    assert len(results) > 1
    for name in results:
        size = re.search(rf"double {name}\[(\d+)\]", header).group(1)
        assert f"Eigen::Matrix<double, {size}, 1> {name};" in text


def test_compilers_end_with_the_time_limit(tmp_path, monkeypatch):
    """A compiler's driver has children, which would go on."""
    sign = tmp_path / "child"
    script = tmp_path / "cc"
    script.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {sign}\nwait\n")
    script.chmod(0o700)
    monkeypatch.setattr(targets, "TIME_LIMIT", 2.0)
    with pytest.raises(CompileError, match="more than 2 s"):
        targets.run([str(script)], tmp_path)
    state = Path("/proc", sign.read_text().strip(), "stat")
    while state.exists() and state.read_text().split()[2] != "Z":  # SIGKILL takes effect a little later
        time.sleep(0.01)


def test_command(tmp_path, capsys):
    panda = data_folder() / PANDA
    command = ["export", panda, "-o", tmp_path / "c", "--function", "frame_jacobian,mass_matrix", "--no-libm"]
    assert exit_code([*command, "--link", "panda_hand", "--name", "arm", "--json"]) == 0
    written = {path.split("/c/")[1] for path in json.loads(capsys.readouterr().out)["written"]}
    assert {"arm_frame_jacobian.c", "arm_mass_matrix.h", "CMakeLists.txt", "README.md"} <= written
    assert len(compile_tests(tmp_path / "c", libraries=())) == 2


def test_command_lists_the_arguments_of_the_code(tmp_path, capsys):
    """Without gravity, which is constant, and with parameters that are arguments."""
    command = ["export", data_folder() / PANDA, "-o", tmp_path / "c"]
    assert exit_code(command) == 0
    assert capsys.readouterr().out.splitlines()[0] == "inverse_dynamics: q, qd, qdd"
    assert exit_code([*command, "--runtime-parameters", "inertia,armature"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "inverse_dynamics: q, qd, qdd, inertia, armature"


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--function", "frame_jacobian"], 2, "--link"),
        (["--link", "panda_hand"], 2, "--link"),
        (["--function", "frame_jacobian", "--link", "nowhere"], 2, "nowhere"),
        (["--function", "nothing"], 2, "nothing"),
        (["--target", "fortran"], 2, "fortran"),
        (["--target", "casadi", "--precision", "float32"], 2, "float64"),
        (["--function", "mass_matrix", "--derivatives"], 2, "mass_matrix"),
        (["-o", "/dev/null/folder"], 3, "/dev/null"),
    ],
)
def test_exit_codes(options, code, words, tmp_path, capsys):
    panda = data_folder() / PANDA
    target = [] if "-o" in options else ["-o", tmp_path / "none"]
    assert exit_code(["export", panda, *target, *options]) == code
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "none").exists()


def test_functions_that_cannot_be_exported(tmp_path):
    robot = robot_of("panda7")
    with pytest.raises(ChoiceError, match="inverse_dynamics is there twice"):
        export_functions(built(robot, "inverse_dynamics", "inverse_dynamics"), tmp_path)
    program = dn.trace(lambda q: {"y": q * q}, {"q": ()})
    with pytest.raises(ChoiceError, match="square"):
        dn.compile(program, backend="numpy", name="square").export(tmp_path, derivatives=True)
    forward = dn.build(robot, "forward_dynamics", solver="abia", backend="numpy")
    with pytest.raises(ChoiceError, match="backend 'c'"):
        forward.export(tmp_path)
    problem = dn.sensor_problem(robot, [JointTorque(joint, std=0.1) for joint in robot.joint_names])
    with pytest.raises(ChoiceError, match="backend 'c'"):
        dn.build(robot, problem, backend="numpy").export(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_the_command_exports_what_closes_loops(tmp_path, capsys):
    """Names of all positions, a closed one, and a step of Newton's method; without derivatives of the step."""
    (tmp_path / "r.urdf").write_text(TEXTS["five_bar"])
    assert exit_code(["export", tmp_path / "r.urdf", "-o", tmp_path / "c", "--derivatives"]) == 0
    assert (
        len(compile_tests(tmp_path / "c")) == 6
    )  # results: torques, three derivatives, following and health
    loaded, robot = library(tmp_path / "c"), robot_of("five_bar")
    named = loaded.five_bar_inverse_dynamics_position_name
    assert [text(named, k).decode() for k in range(4)] == list(robot.q_names) and text(named, 4) is None
    closed = loaded.five_bar_inverse_dynamics_closed_position
    closed.restype = ctypes.POINTER(ctypes.c_double)
    q = np.array(closed()[:4])
    assert np.abs(dn.close_loops(robot, q) - q).max() < 1e-9
    nearby, following, health = q + np.array([0, 1e-3, 0, -1e-3]), np.zeros(4), np.zeros(2)
    for _ in range(3):
        call(loaded.five_bar_loop_step, nearby, following, health)
        nearby = following.copy()
    assert np.abs(nearby - q).max() < 1e-12 and health[1] < 1e-20


def test_steps_that_close_loops(tmp_path):
    """Microcontrollers close loops, too, by the step of Newton's method."""
    solver = dn.build_loop_solver(robot_of("five_bar"), backend="numpy")
    solver.step.export(tmp_path, name="five_bar", libm=False)
    assert compile_tests(tmp_path, libraries=())


def test_a_function_of_a_program(tmp_path):
    program = dn.trace(lambda t, x: {"arg": x @ x + t}, {"t": (), "x": (3,)})
    dn.compile(program, backend="numpy", name="Dot product").export(tmp_path, "casadi", derivatives=True)
    assert len(compile_tests(tmp_path)) == 1
    loaded, x = library(tmp_path), np.array([1.0, 2.0, 3.0])
    function = CasadiFunction(loaded, "jac_dynamics_dot_product_casadi")
    assert np.array_equal(function(x=x)[1]["jac_value_arg_x"], 2 * x[None])
    assert TEXTS  # robots by text have hashes, too
    assert robot_of("five_bar").urdf_digest == hashlib.sha256(TEXTS["five_bar"].encode()).hexdigest()
