"""A no_std crate in Rust, with a test at the reference states."""

from dynamics_node.codegen.export.entry import DTYPES, Entry
from dynamics_node.codegen.export.names import in_comment, number
from dynamics_node.codegen.export.project import TOLERANCE
from dynamics_node.codegen.export.sincos import coefficients
from dynamics_node.codegen.export.statements import Statements, plain_c
from dynamics_node.codegen.printer.dialect import Dialect
from dynamics_node.codegen.runner import limits_in
from dynamics_node.symbolic.program import HEALTH

_CARGO = """[package]
name = "{prefix}"
version = "{version}"
edition = "2021"
description = "Dynamics of one robot, made from its URDF by dynamics_node"

[lib]
path = "src/lib.rs"
"""
_README = """# {prefix}

A `no_std` crate without dependencies, made by `dynamics export --target rust`. `cargo test` compares it with
the NumPy interpreter. Without optimization, a function has all its values on the stack: derivatives of a
humanoid need megabytes of it.

"""
_SINCOS = """
/// Sine and cosine; angles beyond {largest} rad give NaN.
fn sincos(x: {real}) -> ({real}, {real}) {{
    if !(x >= -{largest} && x <= {largest}) {{
        return ({real}::NAN, {real}::NAN);
    }}
    let quarters = x * {quarters};
    let k = (if quarters < 0.0 {{ quarters - 0.5 }} else {{ quarters + 0.5 }}) as i32;
    let n = k as {real};
    let r = {reduced};
    let z = r * r;
    let s = r + r * z * ({sine});
    let c = 1.0 - z * 0.5 + z * z * ({cosine});
    let (a, b) = if k & 1 == 1 {{ (c, s) }} else {{ (s, c) }};
    (if k & 2 == 2 {{ -a }} else {{ a }}, if (k + 1) & 2 == 2 {{ -b }} else {{ b }})
}}
"""


_STACK = "256 << 20"  # bytes of a test's thread: debug builds keep all values of a function there


class Rust(Dialect):
    """Rust has no hexadecimal literals of fractions."""

    def literal(self, value):
        return number(value, "single" if self.single else "double", "")

    def line(self, operation, text):
        operands = map(text, operation.operands)
        written = self.operations[operation.kind].format(*operands).replace(" + -", " - ")
        return f"let {self.local(operation.values[0])}: {self.number} = {written};"


class RustStatements(Statements):
    """The lines in Rust, where each local opens a scope: in many of them a compiler's stack overflows."""

    longest = 800

    def both(self, angle, s, c):
        names = [self.dialect.local(n) if n >= 0 else "_" for n in (s, c)]
        return [f"let ({names[0]}, {names[1]}) = sincos({angle});"]


def files(prefix: str, entries: list[Entry]) -> dict[str, str]:
    """{path: text} of the crate."""
    lines = [
        f"//! Dynamics of one robot, made from its URDF by dynamics_node {in_comment(entries[0].version)}.",
        "#![no_std]",
        "#![allow(clippy::all)]",
        "",
        "/// The state has no result.",
        "#[derive(Debug, Clone, Copy, PartialEq, Eq)]",
        "pub struct Singular;",
        _SINCOS.format(**coefficients(entries[0].precision, "")),
    ]
    for entry in entries:
        lines += _function(entry)
    tests = {f"tests/{e.name}.rs": _test(prefix, e) for e in entries}
    rows = "".join(f"* `{e.name}`: {in_comment(e.title)}\n" for e in entries)
    return {
        "Cargo.toml": _CARGO.format(prefix=prefix, version=in_comment(entries[0].version)),
        "src/lib.rs": "\n".join(lines),
        "README.md": _README.format(prefix=prefix) + rows,
        **tests,
    }


def _function(entry):
    real = {"double": "f64", "single": "f32"}[entry.precision]
    given = {a.name: [f"{a.name}[{k}]" for k in range(a.size)] for a in entry.inputs}
    operations = {**plain_c(entry.precision).operations, "reciprocal": "1.0 / {}"}
    dialect = Rust(real, operations, entry.precision == "single")
    statements = RustStatements(entry.program, dialect, given, "sincos")
    parts = statements.parts()
    outputs = statements.outputs()
    result = " -> Result<(), Singular>" if entry.can_fail else ""
    arguments = [f"{a.name}: &[{real}; {max(1, a.size)}]" for a in entry.inputs]
    arguments += [f"{a.name}: &mut [{real}; {max(1, a.size)}]" for a in entry.outputs]
    lines = [f"/// {in_comment(entry.title)}.", "///"]
    for a in (*entry.inputs, *entry.outputs):
        first, *rest = a.text or ("",)
        lines += [f"/// * {a.name}: {in_comment(first)}", *(f"///   {in_comment(t)}" for t in rest)]
    lines += [f"pub fn {entry.name}({', '.join(arguments)}){result} {{"]
    if len(parts) > 1:
        lines.append(f"    let mut w: [{real}; {statements.workspace}] = [0.0; {statements.workspace}];")
    for part in parts:
        block = len(parts) > 1
        lines += ["    {"] * block + [f"    {line}" for line in part] + ["    }"] * block
    if entry.can_fail:
        checks = zip(outputs.pop(HEALTH), limits_in(entry.program, DTYPES[entry.precision]), strict=True)
        within = " && ".join(f"{text} <= {number(limit, entry.precision, '')}" for text, limit in checks)
        lines += [f"    if !({within}) {{", "        return Err(Singular);", "    }"]
    for a, texts in zip(entry.outputs, outputs.values(), strict=True):
        lines += [f"    {a.name}[{k}] = {text};" for k, text in enumerate(texts)]
    if entry.can_fail:
        lines.append("    Ok(())")
    names = [("hash", entry.digest), ("urdf_hash", entry.urdf_digest)]
    unused = [f"    let _ = {a.name};" for a in entry.inputs]
    at = next(k for k, line in enumerate(lines) if line.startswith("pub fn"))
    lines[at + 1 : at + 1] = unused
    constants = [f'pub const {entry.name.upper()}_{key.upper()}: &str = "{text}";' for key, text in names]
    return [*lines, "}", "", *constants, ""]


def _test(prefix, entry):
    real = {"double": "f64", "single": "f32"}[entry.precision]
    lines = [f"//! {entry.name} at {entry.count} states of the NumPy interpreter.", f"use {prefix}::*;", ""]
    for name, array in (*entry.states.items(), *entry.results.items()):
        rows = array.reshape(entry.count, -1).tolist()
        lines.append(f"const {name.upper()}: [[{real}; {len(rows[0]) or 1}]; {entry.count}] = [")
        lines += [f"    [{', '.join(number(x, entry.precision, '') for x in row)}]," for row in rows]
        lines.append("];")
    lines += [
        "",
        "#[test]",
        "fn equals_the_interpreter() {",
        f"    let thread = std::thread::Builder::new().stack_size({_STACK});",
        "    thread.spawn(compare).unwrap().join().unwrap();",
        "}",
        "",
        "fn compare() {",
        f"    let mut worst = [[0.0; 2]; {len(entry.outputs)}];",
    ]
    lines.append(f"    for k in 0..{entry.count} {{")
    lines += [
        f"        let mut {a.name}: [{real}; {max(1, a.size)}] = [0.0; {max(1, a.size)}];"
        for a in entry.outputs
    ]
    arguments = [f"&{a.name.upper()}[k]" for a in entry.inputs] + [f"&mut {a.name}" for a in entry.outputs]
    lines.append(f"        {entry.name}({', '.join(arguments)}){'.unwrap()' if entry.can_fail else ''};")
    for n, a in enumerate(entry.outputs):
        lines += [
            f"        for i in 0..{a.size} {{",
            f"            let right = {a.name.upper()}[k][i];",
            f"            assert!({a.name}[i].is_finite());",
            f"            worst[{n}][0] = {real}::max(worst[{n}][0], ({a.name}[i] - right).abs());",
            f"            worst[{n}][1] = {real}::max(worst[{n}][1], right.abs());",
            "        }",
        ]
    tolerance = number(TOLERANCE[entry.precision], entry.precision, "")
    return "\n".join(
        [
            *lines,
            "    }",
            "    for [off, size] in worst {",
            f"        assert!(off <= {tolerance} * size);",
            "    }",
            "}",
            "",
        ]
    )
