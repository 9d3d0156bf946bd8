"""A source FMU of FMI 3.0 for co-simulation: a block without states whose outputs follow its inputs."""

import io
import zipfile
from html import escape
from importlib.resources import files as package_files
from string import Template

from dynamics_node.codegen.export.entry import Entry
from dynamics_node.codegen.export.names import in_comment
from dynamics_node.codegen.export.source import header, source

_DESCRIPTION = """<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="3.0" modelName={name} instantiationToken={token} description={title}
  generationTool={tool}>
  <CoSimulation modelIdentifier={name} canHandleVariableCommunicationStepSize="true"/>
  <DefaultExperiment startTime="0" stopTime="1" stepSize="0.001"/>
  <ModelVariables>
    <Float64 name="time" valueReference="0" causality="independent" variability="continuous"/>
{variables}
  </ModelVariables>
  <ModelStructure>
{structure}
  </ModelStructure>
</fmiModelDescription>
"""
_BUILD = """<?xml version="1.0" encoding="UTF-8"?>
<fmiBuildDescription fmiVersion="3.0">
  <BuildConfiguration modelIdentifier={name}>
    <SourceFileSet language="C99">
      <SourceFile name="{file}.c"/>
      <SourceFile name="fmu.c"/>
    </SourceFileSet>
{libraries}  </BuildConfiguration>
</fmiBuildDescription>
"""


def archive(entry: Entry) -> bytes:
    """The bytes of an FMU of a function."""
    buffer = io.BytesIO()
    texts = {
        "modelDescription.xml": _description(entry),
        "sources/buildDescription.xml": _build(entry),
        "sources/fmu.c": _code(entry),
        f"sources/{entry.name}.c": source(entry),
        f"sources/{entry.name}.h": header(entry),
    }
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _quoted(text):
    """The text as the value of an attribute."""
    return f'"{escape(text)}"'


def _build(entry):
    libraries = '    <Library name="m"/>\n' if entry.libm else ""
    return _BUILD.format(name=_quoted(entry.name), file=entry.name, libraries=libraries)


def _description(entry):
    variables, structure = [], []
    for n, argument in enumerate((*entry.inputs, *entry.outputs), start=1):
        is_input = n <= len(entry.inputs)
        causality = "input" if is_input else "output"
        line = f'    <Float64 name={_quoted(argument.name)} valueReference="{n}" causality="{causality}"'
        if is_input:
            line += f' start="{" ".join(map(repr, _start(entry, argument)))}"'
        else:
            structure.append(f'    <Output valueReference="{n}"/>')
        sizes = "".join(f'<Dimension start="{size}"/>' for size in argument.shape)
        variables.append(f"{line}>{sizes}</Float64>")
    structure += [line.replace("<Output", "<InitialUnknown") for line in structure]
    return _DESCRIPTION.format(
        name=_quoted(entry.name),
        token=_quoted(entry.digest),
        title=_quoted(in_comment(entry.title)),
        tool=_quoted(f"dynamics_node {entry.version}"),
        variables="\n".join(variables),
        structure="\n".join(structure),
    )


def _start(entry, argument):
    """Values of an input before it is set."""
    return entry.start[argument.name].ravel().tolist()


def _code(entry):
    arguments = (*entry.inputs, *entry.outputs)
    begin = [0]
    for argument in arguments:
        begin.append(begin[-1] + argument.size)
    places = ", ".join(f"own->values + {at}" for at in begin[:-1])
    call = f"{entry.name}({places})"
    template = package_files(__package__).joinpath("fmu.c").read_text()
    return Template(template).substitute(
        name=entry.name,
        version=in_comment(entry.version),
        inputs=len(entry.inputs),
        outputs=len(entry.outputs),
        size=begin[-1],
        begin=", ".join(map(str, begin)),
        start=", ".join(repr(x) for argument in entry.inputs for x in _start(entry, argument)),
        call=f"if ({call}) return DISCARD;" if entry.can_fail else f"{call};",
    )
