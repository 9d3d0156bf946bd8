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
    *("-Wl,--no-entry", "-Wl,--export=__heap_base", "-Wl,--stack-first"),
)
STACK = 65536  # bytes besides the locals of a function
_SCRIPT = """// Functions of {prefix}.wasm: `const {{ {first} }} = await load(bytes)`, with the bytes
// of the file, then `{first}(...arrays)` returns an array for every result, or null at a singular state.
// It throws a RangeError for an array of another size.
const FUNCTIONS = {functions};

export async function load(bytes) {{
  const {{ instance }} = await WebAssembly.instantiate(bytes);
  const {{ memory, __heap_base }} = instance.exports;
  memory.grow({pages});
  return Object.fromEntries(Object.entries(FUNCTIONS).map(([name, {{ inputs, outputs }}]) => {{
    const places = [];
    let at = __heap_base.value + 16 & -16;
    for (const [, size] of [...inputs, ...outputs]) {{
      places.push(new {array}(memory.buffer, at, size));
      at += places.at(-1).byteLength + 32 & -16; // also of an empty array
    }}
    const call = instance.exports[name], given = places.slice(0, inputs.length);
    return [name, (...arrays) => {{
      given.forEach((place, k) => {{
        const size = arrays[k]?.length;
        if (size !== place.length) {{
          throw new RangeError(`${{name}}: ${{inputs[k][0]}} has ${{place.length}} numbers, not ${{size}}`);
        }}
        place.set(arrays[k]);
      }});
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
    const [{results}] = {first}({arguments})

"""


def files(prefix: str, entries: list[Entry]) -> dict[str, str]:
    """{path: text} beside the module."""
    first = entries[0]
    functions = {e.name: {side: [[a.name, a.size] for a in own] for side, own in _sides(e)} for e in entries}
    needed = max(sum(8 * a.size + 32 for a in (*e.inputs, *e.outputs)) for e in entries)
    script = _SCRIPT.format(
        prefix=prefix,
        first=first.name,
        functions=json.dumps(functions),
        pages=1 + needed // 65536,
        array={"double": "Float64Array", "single": "Float32Array"}[first.precision],
    )
    words = {
        "results": ", ".join(a.name for a in first.outputs),
        "arguments": ", ".join(a.name for a in first.inputs),
    }
    readme = _README.format(prefix=prefix, first=first.name, **words)
    rows = [f"* `{e.name}`: {in_comment(e.title)}\n" for e in entries]
    return {f"{prefix}.mjs": script, "README.md": readme + "".join(rows)}


def _sides(entry):
    return (("inputs", entry.inputs), ("outputs", entry.outputs))


def build_module(folder: Path, prefix: str, entries: list[Entry]) -> Path:
    """Compile the C files of a folder into <prefix>.wasm. Raises CompileError."""
    clang = shutil.which("clang")
    if clang is None or not (shutil.which("wasm-ld") or list(Path(clang).resolve().parent.glob("wasm-ld*"))):
        raise CompileError("target wasm needs clang and its linker: sudo apt install clang lld")
    module = folder / f"{prefix}.wasm"
    exported = [f"-Wl,--export={entry.name}" for entry in entries]
    stack = STACK + 8 * max(len(entry.program.ops) + len(entry.program.inputs) for entry in entries)
    linked = [f"-Wl,-z,stack-size={-16 * (-stack // 16)}", "-o", module.name]
    run([clang, *FLAGS, *exported, *linked, *(f"{entry.name}.c" for entry in entries)], folder)
    return module
