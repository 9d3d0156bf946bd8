"""What stands beside the exported functions: CMake, a test program with reference states, and a README."""

import re

from dynamics_node.codegen.export.entry import Entry
from dynamics_node.codegen.export.names import in_comment, number

TOLERANCE = {"float64": 1e-12, "float32": 1e-5}  # of an entry, relative to the largest of all states

_CMAKE = """cmake_minimum_required(VERSION 3.16)
project({prefix} VERSION {version} LANGUAGES C)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

add_library({prefix} {sources})
add_library({prefix}::{prefix} ALIAS {prefix})
set_target_properties({prefix} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
target_include_directories({prefix} PUBLIC
  $<BUILD_INTERFACE:${{CMAKE_CURRENT_SOURCE_DIR}}> $<INSTALL_INTERFACE:include>)
target_compile_options({prefix} PRIVATE
  $<$<C_COMPILER_ID:GNU,Clang,AppleClang>:-ffp-contract=fast;-fno-math-errno>)
{libm}
include(CTest)
if(BUILD_TESTING)
{tests}endif()

install(TARGETS {prefix} EXPORT {prefix}
  ARCHIVE DESTINATION lib LIBRARY DESTINATION lib RUNTIME DESTINATION bin)
install(FILES {headers} DESTINATION include)
install(EXPORT {prefix} NAMESPACE {prefix}:: FILE {prefix}Config.cmake DESTINATION lib/cmake/{prefix})
include(CMakePackageConfigHelpers)
write_basic_package_version_file({prefix}ConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${{CMAKE_CURRENT_BINARY_DIR}}/{prefix}ConfigVersion.cmake DESTINATION lib/cmake/{prefix})
"""
_LIBM = """find_library(MATH m)
if(MATH)
  target_link_libraries({prefix} PUBLIC m)
endif()
"""
_TEST = """  add_executable({name}_test test/{name}_test.c)
  set_target_properties({name}_test PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
  target_link_libraries({name}_test PRIVATE {prefix})
  add_test(NAME {name} COMMAND {name}_test)
"""


def cmake(prefix: str, entries: list[Entry]) -> str:
    """CMakeLists.txt with a library, an exported target and the tests."""
    names = [entry.name for entry in entries]
    return _CMAKE.format(
        prefix=prefix,
        version=".".join(re.findall(r"\d+", entries[0].version)[:3]),
        sources=" ".join(f"{name}.c" for name in names),
        headers=" ".join(f"{name}.h" for name in names),
        libm=_LIBM.format(prefix=prefix) if any(entry.libm for entry in entries) else "",
        tests="".join(_TEST.format(name=name, prefix=prefix) for name in names),
    )


def test_program(entry: Entry) -> str:
    """A C program that compares results at the reference states with the interpreter's, and fails if they
    differ."""
    count, real, tolerance = entry.count, entry.real, number(TOLERANCE[entry.precision], entry.precision)
    lines = [
        f"/* {entry.name} at {count} states, compared with the interpreter of dynamics_node. */",
        "#include <stdio.h>",
        f'#include "{entry.name}.h"',
        "",
        f"enum {{ STATES = {count} }};",
    ]
    for name, array in ((n, a) for arrays in (entry.states, entry.results) for n, a in arrays.items()):
        lines.append(f"static const {real} {name}_of[STATES][{max(1, array[0].size)}] = {{")
        rows = array.reshape(count, -1).tolist()
        lines += [f"  {{{', '.join(number(x, entry.precision) for x in row) or 0}}}," for row in rows]
        lines.append("};")
    arguments = [f"{a.name}_of[k]" for a in entry.inputs] + [a.name for a in entry.outputs]
    call = f"{entry.name}({', '.join(arguments)})"
    singular = 'printf("state %d is singular\\n", k); return 1;'
    lines += [
        "",
        f"static {real} size({real} x) {{ return x < 0 ? -x : x; }}",
        "",
        "int main(void)",
        "{",
        f"  {real} error[{len(entry.outputs)}] = {{0}}, scale[{len(entry.outputs)}] = {{0}};",
        "  int failed = 0;",
        "  for (int k = 0; k < STATES; ++k) {",
        *(f"    {real} {a.name}[{max(1, a.size)}];" for a in entry.outputs),
        f"    {f'if ({call}) {{ {singular} }}' if entry.can_fail else f'{call};'}",
    ]
    for n, a in enumerate(entry.outputs):
        lines += [
            f"    for (int i = 0; i < {a.size}; ++i) {{",
            f"      const {real} off = size({a.name}[i] - {a.name}_of[k][i]);",
            f"      if (!(off <= error[{n}])) error[{n}] = off;",
            f"      if (size({a.name}_of[k][i]) > scale[{n}]) scale[{n}] = size({a.name}_of[k][i]);",
            "    }",
        ]
    lines.append("  }")
    for n, a in enumerate(entry.outputs):
        lines += [
            f'  printf("{entry.name}: {a.name} differs by %.3g of %.3g\\n",',
            f"    (double)error[{n}], (double)scale[{n}]);",
            f"  failed |= !(error[{n}] <= {tolerance} * scale[{n}]);",
        ]
    return "\n".join([*lines, "  return failed;", "}", ""])


def readme(prefix: str, entries: list[Entry], target: str) -> str:
    """README.md of the folder."""
    first = entries[0]
    call = ", ".join(a.name for a in (*first.inputs, *first.outputs))
    declared = "\n".join(
        f"    {first.real} {a.name}[{max(1, a.size)}];" for a in (*first.inputs, *first.outputs)
    )
    matrices = "\n".join(
        f"    Eigen::Matrix<{first.real}, {max(1, a.size)}, 1> {a.name};" for a in first.outputs
    )
    rows = "\n".join(f"| `{e.name}` | {in_comment(e.title)} |" for e in entries)
    return f"""# {prefix}

Made by `dynamics export --target {target}`; the headers describe arguments, order and units. All functions
are reentrant, allocate nothing, and have no global but constants.

| function | |
|---|---|
{rows}

## Test

    cmake -B build && cmake --build build && ctest --test-dir build

compares every function with {first.count} states of the NumPy interpreter.

## C

    #include "{first.name}.h"
{declared}
    {first.name}({call});

Compile the `.c` files with your program{", and link with `-lm`" if first.libm else ""}. With GCC and
-std=c99 add -ffp-contract=fast: it fuses products into sums. Or with CMake:

    find_package({prefix})  # after cmake --install; or add_subdirectory
    target_link_libraries(controller {prefix}::{prefix})

## C++ with Eigen

{matrices}
    {first.name}({", ".join(f"{a.name}.data()" for a in (*first.inputs, *first.outputs))});

Matrices are row-major: `Eigen::Matrix<{first.real}, R, C, Eigen::RowMajor>`.
{_CASADI_README.format(name=first.name, prefix=prefix) if target in ("casadi", "shared") else ""}
## Simulink

In a C Caller block, name `{first.name}.h` and `{first.name}.c` under Simulation Target > Custom Code, and
choose `{first.name}`; arguments that are not `const` are outputs.
"""


_CASADI_README = """
## CasADi

    import casadi
    f = casadi.external("{name}_casadi", "lib{prefix}.so")

`cmake --build build` makes the library with `-DBUILD_SHARED_LIBS=ON`; `--target shared` has made it already.
Derivatives (`--derivatives`, `--second-derivatives`) are used without further words.

## acados

Use `f` in the expressions of the model, and compile `{name}.c` with `-Dcasadi_int=int` into the solver.
"""
