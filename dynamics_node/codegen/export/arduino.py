"""An Arduino library: library.properties, src and an example."""

from dynamics_node.codegen.export.entry import Entry
from dynamics_node.codegen.export.names import in_comment, number
from dynamics_node.codegen.export.source import header, source

_PROPERTIES = """name={prefix}
version={version}
author=dynamics_node
maintainer=dynamics_node
sentence=Dynamics of one robot, made from its URDF.
paragraph=Functions: {names}
category=Data Processing
url=https://github.com
architectures=*
includes={prefix}.h
"""
_SKETCH = """/* Prints the result at one state, and the time of a call. */
#include <{prefix}.h>

{inputs}
{outputs}

void setup()
{{
  Serial.begin(115200);
}}

void loop()
{{
  const unsigned long begin = micros();
  {call};
  const unsigned long end = micros();
  for (int i = 0; i < {size}; ++i) Serial.println({result}[i], 6);
  Serial.println(end - begin);
  delay(1000);
}}
"""
_README = """# {prefix}

An Arduino library, made by `dynamics export --target arduino`. Copy this folder to `libraries` of your
sketchbook, and open File > Examples > {prefix}. `--precision single` suits boards whose floating-point unit
has float alone.

"""


def files(prefix: str, entries: list[Entry]) -> dict[str, str]:
    """{path: text} of the library."""
    made = {
        "library.properties": _PROPERTIES.format(
            prefix=prefix, version=in_comment(entries[0].version), names=", ".join(e.name for e in entries)
        ),
        f"src/{prefix}.h": "".join(f'#include "{e.name}.h"\n' for e in entries),
        "README.md": _README.format(prefix=prefix)
        + "".join(f"* `{e.name}`: {in_comment(e.title)}\n" for e in entries),
    }
    for entry in entries:
        made[f"src/{entry.name}.h"] = header(entry)
        made[f"src/{entry.name}.c"] = source(entry)
        made[f"examples/{entry.name}/{entry.name}.ino"] = _sketch(prefix, entry)
    return made


def _sketch(prefix, entry):
    inputs = []
    for argument in entry.inputs:
        numbers = ", ".join(
            number(x, entry.precision) for x in entry.states[argument.name][0].ravel().tolist()
        )
        inputs.append(f"{entry.real} {argument.name}[{max(1, argument.size)}] = {{{numbers}}};")
    outputs = [f"{entry.real} {a.name}[{max(1, a.size)}];" for a in entry.outputs]
    return _SKETCH.format(
        prefix=prefix,
        inputs="\n".join(inputs),
        outputs="\n".join(outputs),
        call=f"{entry.name}({', '.join(a.name for a in (*entry.inputs, *entry.outputs))})",
        size=entry.outputs[0].size,
        result=entry.outputs[0].name,
    )
