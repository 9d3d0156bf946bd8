"""An Entry as C99: header and source, without a variable global, an allocation or a compiler's extension."""

from collections.abc import Iterator
from typing import NamedTuple

from dynamics_node.codegen.export.entry import DTYPES, Argument, Entry
from dynamics_node.codegen.export.names import c_string, in_comment, number
from dynamics_node.codegen.export.sincos import NUMBERS, sincos_text
from dynamics_node.codegen.export.statements import Lanes, Statements, plain_c
from dynamics_node.codegen.runner import limits_in
from dynamics_node.symbolic import Program
from dynamics_node.symbolic.program import HEALTH


def header(entry: Entry, more=()) -> str:
    """The header; more: further declarations."""
    guard = f"{entry.name.upper()}_H"
    lines = [
        *_comment(entry),
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        *(f"#define {entry.name.upper()}_{name} {size}" for name, size in entry.robot.sizes.items()),
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *["/* Returns 0, or 1 at a singular state: then no result is written. */"] * entry.can_fail,
        f"{_signature(entry)};",
        "",
    ]
    for accessor in _accessors(entry):
        lines += [f"/* {accessor.comment} */"] * bool(accessor.comment) + [f"{accessor.signature};"]
    return "\n".join([*lines, *more, "", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def source(entry: Entry, more=()) -> str:
    """The C file; more: further lines."""
    sines = [sincos_text(static_name(entry, "sincos"), entry.precision), ""]
    lines = [
        f"/* Made by dynamics_node {in_comment(entry.version)}; see {entry.name}.h. */",
        *["#include <math.h>"] * entry.libm,
        f'#include "{entry.name}.h"',
        "",
        *([] if entry.libm else sines),
        *_plain_function(entry),
        *(line for accessor in _accessors(entry) for line in accessor.definition),
        *more,
    ]
    return "\n".join(lines)


def static_name(entry: Entry, word: str):
    """Name of a static function; None for sincos of <math.h>."""
    return None if word == "sincos" and entry.libm else f"{entry.name}_{word}"


class FunctionBody(NamedTuple):
    """before: lines of static functions; lines: of the function itself, with `return 1` at a singular state;
    texts: of the entries of every result; workspace: numbers that the array w has to hold."""

    before: list[str]
    lines: list[str]
    texts: list[list[str]]
    workspace: int


def body(entry: Entry, name: str, program: Program, given) -> FunctionBody:
    """What computes a Program in a function `name` whose inputs are {name: texts of the entries}."""
    statements = Statements(program, plain_c(entry.precision), given, static_name(entry, "sincos"))
    parts, real = statements.parts(), entry.real
    before, lines = [], [line for part in parts for line in part]
    if len(parts) > 1:
        arguments = ", ".join([*(f"const {real} *{argument}" for argument in given), f"{real} *w"])
        call = ", ".join([*given, "w"])
        lines = [f"{name}_part{k}({call});" for k in range(len(parts))]
        unused = " ".join(f"(void){argument};" for argument in given)
        for k, part in enumerate(parts):
            before += [
                f"static void {name}_part{k}({arguments})",
                "{",
                f"  {unused}",
                *_indented(part),
                "}",
                "",
            ]
    outputs = statements.outputs()
    lines += _unless_singular(entry, program, outputs.pop(HEALTH) if program.limits else [])
    texts: list[list[str]] = []
    for entries in outputs.values():
        texts.append([])
        for text in entries:
            if "[" in text and "w[" not in text:  # an argument, which results may overwrite
                lines.append(f"const {real} r{len(lines)} = {text};")
                text = f"r{len(lines) - 1}"
            texts[-1].append(text)
    quiet = [f"(void){argument};" for argument in given if argument not in statements.read]
    return FunctionBody(before, [*quiet, *lines], texts, statements.workspace)


def _unless_singular(entry, program, health):
    """The line that leaves a function at a singular state; health: texts of the entries."""
    if not health:
        return []
    limits = limits_in(program, DTYPES[entry.precision])
    within = [f"{x} <= {number(most, entry.precision)}" for x, most in zip(health, limits, strict=True)]
    return [f"if (!({' && '.join(within)})) return 1;"]


def _by_lanes(entry) -> FunctionBody:
    """What computes the LaneProgram of an Entry."""
    lanes = Lanes(entry, static_name(entry, "sincos"))
    health = lanes.texts.pop(HEALTH) if lanes.program.limits else []
    lines = [*lanes.lines, *_unless_singular(entry, lanes.program, health)]
    return FunctionBody(lanes.before, lines, list(lanes.texts.values()), lanes.workspace)


def _indented(lines):
    return [f"  {line}" for line in lines]


def _plain_function(entry):
    if entry.lanes is None:
        made = body(entry, entry.name, entry.program, {a.name: _entries(a) for a in entry.inputs})
    else:
        made = _by_lanes(entry)
    lines = [f"{entry.real} w[{made.workspace}];"] * bool(made.workspace) + made.lines
    for argument, entries in zip(entry.outputs, made.texts, strict=True):
        lines += [f"(void){argument.name};"] * (not argument.size)  # of a robot without joints
        lines += [f"{place} = {text};" for place, text in zip(_entries(argument), entries, strict=True)]
    lines += ["return 0;"] * entry.can_fail
    return [*made.before, _signature(entry), "{", *_indented(lines), "}", ""]


def _entries(argument: Argument):
    return [f"{argument.name}[{k}]" for k in range(argument.size)]


def _signature(entry):
    arguments = [f"const {entry.real} {a.name}[{max(1, a.size)}]" for a in entry.inputs]
    arguments += [f"{entry.real} {a.name}[{max(1, a.size)}]" for a in entry.outputs]
    return f"{'int' if entry.can_fail else 'void'} {entry.name}({', '.join(arguments)})"


def _comment(entry):
    """The first comment of the header."""
    names = ", ".join(a.name for a in entry.inputs)
    lines = [
        f"{in_comment(entry.title)}. Made by dynamics_node {in_comment(entry.version)}.",
        "",
        f"{', '.join(a.name for a in entry.outputs)} = f({names}), SI units, row-major arrays.",
        *map(in_comment, entry.robot.notes),
    ]
    if not entry.libm:
        lines.append(f"Angles beyond {NUMBERS[entry.precision].largest:g} rad give NaN.")
    for argument in (*entry.inputs, *entry.outputs):
        shape = " x ".join(map(str, argument.shape)) or "1"
        first, *rest = argument.text or ("",)
        lines += [
            "",
            in_comment(f"{argument.name} ({shape}): {first}"),
            *(f"  {in_comment(t)}" for t in rest),
        ]
    return [f"/* {lines[0]}", *(f"   {line}".rstrip() for line in lines[1:-1]), f"   {lines[-1]} */"]


# --- accessors ----------------------------------------------------------------------------------------------


class Accessor(NamedTuple):
    """A small function beside the exported one: comment before its declaration, lines of its definition."""

    comment: str
    signature: str
    definition: list[str]


def _accessors(entry) -> Iterator[Accessor]:
    """Those of names and hashes; of positions, for a robot with loops; of inertial parameters."""
    yield _constant(
        "Names of the velocities, in order; 0 beyond.", entry, "int ", "n_joints", len(entry.robot.joints), ""
    )
    yield _names("", entry, "joint_name", entry.robot.joints)
    comment = "SHA-256 of the URDF with all options, and of its text alone; version of dynamics_node."
    yield _constant(comment, entry, "const char *", "hash", c_string(entry.digest))
    yield _constant("", entry, "const char *", "urdf_hash", c_string(entry.robot.urdf_digest))
    yield _constant("", entry, "const char *", "version", c_string(entry.version), "")
    if entry.robot.positions:
        comment = "Names of the positions, in order; 0 beyond. A position at which the loops are closed."
        yield _names(comment, entry, "position_name", entry.robot.positions)
        yield _array("", entry, "closed_position", entry.start["q"])
    for name, values in entry.parameters.items():
        yield _array(f"The values of `{name}` of the robot itself.", entry, name, values)
    if "inertia" in entry.parameters:
        comment = "Names of the bodies, the rows of `inertia`; 0 beyond."
        yield _names(comment, entry, "body_name", entry.robot.bodies)
        yield _payload(entry)


def _constant(comment, entry, kind, name, value, *after):
    """A number or a string of a type; after: lines."""
    signature = f"{kind}{entry.name}_{name}(void)"
    return Accessor(comment, signature, [f"{signature} {{ return {value}; }}", *after])


def _array(comment, entry, name, values):
    """An array of numbers."""
    texts = [number(x, entry.precision) for x in values.ravel().tolist()]
    signature = f"const {entry.real} *{entry.name}_{name}(void)"
    rows = [f"    {', '.join(texts[k : k + 10])}," for k in range(0, len(texts), 10)]
    head = [signature, "{", f"  static const {entry.real} values[] = {{"]
    return Accessor(comment, signature, [*head, *rows, "  };", "  return values;", "}", ""])


def _names(comment, entry, name, texts):
    """One of several names."""
    signature = f"const char *{entry.name}_{name}(int i)"
    return Accessor(comment, signature, strings(signature, texts))


def strings(signature, texts):
    """Lines of a function of an index i that returns one of the strings, 0 beyond."""
    if not texts:
        return [signature, "{", "  (void)i;", "  return 0;", "}", ""]
    return [
        signature,
        "{",
        "  static const char *const strings[] = {",
        *(f"    {c_string(text)}," for text in texts),
        "  };",
        f"  return i >= 0 && i < {len(texts)} ? strings[i] : 0;",
        "}",
        "",
    ]


_PAYLOAD = """{
  REAL *const phi = inertia + 10 * body;
  const REAL x = com[0], y = com[1], z = com[2];
  phi[0] += mass;
  phi[1] += mass * com[0];
  phi[2] += mass * com[1];
  phi[3] += mass * com[2];
  phi[4] += moments[0] + mass * (y * y + z * z);
  phi[5] += moments[1] - mass * x * y;
  phi[6] += moments[2] + mass * (x * x + z * z);
  phi[7] += moments[3] - mass * x * z;
  phi[8] += moments[4] - mass * y * z;
  phi[9] += moments[5] + mass * (x * x + y * y);
}
"""


def _payload(entry):
    """What adds a payload to inertial parameters."""
    real, size = entry.real, 10 * len(entry.robot.bodies)
    comment = """Adds a rigid payload to a body of `inertia`: mass in kg, com in m and the moments of inertia
   about it (xx, xy, yy, xz, yz, zz) in kg m^2, in the axes of the body."""
    first = f"{real} inertia[{size}], int body, {real} mass, const {real} com[3]"
    signature = f"void {entry.name}_add_payload({first},\n  const {real} moments[6])"
    return Accessor(comment, signature, [signature, _PAYLOAD.replace("REAL", real)])
