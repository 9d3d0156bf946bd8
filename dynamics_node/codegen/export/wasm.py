"""A WebAssembly module, compiled by clang, and the JavaScript that calls it."""

import json
import shutil
from pathlib import Path

from dynamics_node.codegen.errors import CompileError
from dynamics_node.codegen.export.entry import Entry
from dynamics_node.codegen.export.names import in_comment
from dynamics_node.codegen.export.shared import run

FLAGS = (
    *("--target=wasm32", "-std=c99", "-O2", "-nostdlib", "-ffreestanding"),
    *("-Wl,--no-entry", "-Wl,--export=__heap_base"),
)
_SCRIPT = """// Functions of {prefix}.wasm: `const {{ {first} }} = await load(bytes)`, with the bytes
// of the file, then `{first}(...arrays)` returns an array for every result, or null at a singular state.
const FUNCTIONS = {functions};

export async function load(bytes) {{
  const {{ instance }} = await WebAssembly.instantiate(bytes);
  const {{ memory, __heap_base }} = instance.exports;
  memory.grow(1);
  return Object.fromEntries(Object.entries(FUNCTIONS).map(([name, {{ inputs, outputs }}]) => {{
    const places = [];
    let at = __heap_base.value + 16 & -16;
    for (const [, size] of [...inputs, ...outputs]) {{
      places.push(new {array}(memory.buffer, at, size));
      at += places.at(-1).byteLength + 16 & -16;
    }}
    const call = instance.exports[name], given = places.slice(0, inputs.length);
    return [name, (...arrays) => {{
      given.forEach((place, k) => place.set(arrays[k]));
      const failed = call(...places.map((place) => place.byteOffset));
      return failed ? null : places.slice(inputs.length).map((place) => place.slice());
    }}];
  }}));
}}
"""
_README = """# {prefix}

WebAssembly, made by `dynamics export --target wasm`, and {prefix}.mjs, which calls it in a browser or
Node.js. In a browser the bytes are `await (await fetch("{prefix}.wasm")).arrayBuffer()`.

    import {{ readFile }} from "node:fs/promises"
    import {{ load }} from "./{prefix}.mjs"
    const {{ {first} }} = await load(await readFile("{prefix}.wasm"))
    const [{result}] = {first}({arguments})

"""


def files(prefix: str, entries: list[Entry]) -> dict[str, str]:
    """{path: text} beside the module."""
    first = entries[0]
    functions = {
        e.name: {side: [[a.name, max(1, a.size)] for a in own] for side, own in _sides(e)} for e in entries
    }
    script = _SCRIPT.format(
        prefix=prefix,
        first=first.name,
        functions=json.dumps(functions),
        array={"double": "Float64Array", "single": "Float32Array"}[first.precision],
    )
    words = {"result": first.outputs[0].name, "arguments": ", ".join(a.name for a in first.inputs)}
    readme = _README.format(prefix=prefix, first=first.name, **words)
    rows = [f"* `{e.name}`: {in_comment(e.title)}\n" for e in entries]
    return {f"{prefix}.mjs": script, "README.md": readme + "".join(rows)}


def _sides(entry):
    return (("inputs", entry.inputs), ("outputs", entry.outputs))


def build_module(folder: Path, prefix: str, names) -> Path:
    """Compile the C files of a folder into <prefix>.wasm. Raises CompileError."""
    clang = shutil.which("clang")
    if clang is None or not (shutil.which("wasm-ld") or list(Path(clang).resolve().parent.glob("wasm-ld*"))):
        raise CompileError("target wasm needs clang and its linker: sudo apt install clang lld")
    module = folder / f"{prefix}.wasm"
    exported = [f"-Wl,--export={name}" for name in names]
    run([clang, *FLAGS, *exported, "-o", module.name, *(f"{name}.c" for name in names)], folder)
    return module
