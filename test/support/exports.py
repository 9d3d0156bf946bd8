"""Exported functions: compiled by a compiler, and called with NumPy arrays."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
LARGE = ctypes.c_longlong


def require_tool(*names):
    """Skip where a tool is missing, or does not start: rustup's cargo needs a toolchain in the home folder."""
    for name in names:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is missing; .ci/cross installs most tools")
        if subprocess.run([name, "--version"], capture_output=True).returncode:
            pytest.skip(f"{name} does not start: {name} --version fails")


def compile_tests(folder, compiler="cc", flags=("-O1",), libraries=("-lm",), under=()):
    """Compile and run all test programs of an exported folder; the lines that they print."""
    lines = []
    for test in sorted((folder / "test").glob("*_test.c")):
        name = test.stem.removesuffix("_test")
        program = folder / f"{name}.out"
        sources = [folder / f"{name}.c", test]
        run(compiler, *WARNINGS, *flags, "-I", folder, *sources, "-o", program, *libraries)
        lines += run(*under, program).splitlines()
    assert lines
    return lines


def run(*command, **options):
    """What a command prints; fails with all of it if the command does."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, errors="replace", **options)
    assert done.returncode == 0, f"{command[0]} ends with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def library(folder, *flags):
    """The C files of a folder as a library."""
    path = folder / "functions.so"
    run("cc", *WARNINGS, "-O1", "-fPIC", "-shared", *flags, *folder.glob("*.c"), "-o", path, "-lm")
    return ctypes.CDLL(str(path))


def call(function, *arrays):
    """The plain entry with arrays; what it returns."""
    return function(*(ctypes.c_void_p(array.ctypes.data) for array in arrays))


def text(function, *arguments):
    """What a function that returns a string returns."""
    function.restype = ctypes.c_char_p
    return function(*arguments)


class CasadiFunction:
    """A function of CasADi's C interface, called as CasADi does."""

    def __init__(self, library, name):
        self.name, self._function = name, getattr(library, name)
        self.inputs, self.outputs = self._side(library, "in"), self._side(library, "out")
        sizes = [LARGE() for _ in range(4)]
        assert getattr(library, f"{name}_work")(*map(ctypes.byref, sizes)) == 0
        assert [size.value for size in sizes[:2]] == [len(self.inputs), len(self.outputs)]
        self._work = np.full(sizes[3].value + 1, np.nan)

    def _side(self, library, side):
        """{name: (rows, columns, row of every entry, column of every entry)}, column by column."""
        count = getattr(library, f"{self.name}_n_{side}")
        name, sparsity = (getattr(library, f"{self.name}_{what}_{side}") for what in ("name", "sparsity"))
        count.restype, name.restype, sparsity.restype = LARGE, ctypes.c_char_p, ctypes.POINTER(LARGE)
        blocks = {}
        for k in range(count()):
            pattern = sparsity(LARGE(k))
            rows, columns = pattern[0], pattern[1]
            ends = pattern[2 : 3 + columns] if pattern[2] == 0 else [rows * n for n in range(columns + 1)]
            stored = (
                pattern[3 + columns : 3 + columns + ends[-1]] if pattern[2] == 0 else [*range(rows)] * columns
            )
            own = np.repeat(np.arange(columns), np.diff(ends))
            blocks[name(LARGE(k)).decode()] = rows, columns, np.array(stored, dtype=int), own
        assert name(LARGE(len(blocks))) is None and not sparsity(LARGE(-1))
        return blocks

    def __call__(self, without=(), **arrays):
        """(what it returns, {result: matrix}); inputs that are left out are NULL, results in `without` too."""
        given = {name: np.asfortranarray(array, dtype=float).ravel("F") for name, array in arrays.items()}
        assert set(given) <= set(self.inputs)
        results = {name: np.full(len(block[2]), 7e77) for name, block in self.outputs.items()}
        arg = [_address(given.get(name)) for name in self.inputs]
        res = [_address(None if name in without else array) for name, array in results.items()]
        pointers = [(ctypes.c_void_p * (len(own) + 1))(*own, None) for own in (arg, res)]
        code = self._function(*pointers, None, ctypes.c_void_p(self._work.ctypes.data), 0)
        matrices = {}
        for name, (rows, columns, row, column) in self.outputs.items():
            matrices[name] = np.zeros((rows, columns))
            matrices[name][row, column] = results[name]
        return code, matrices


def _address(array):
    return None if array is None else array.ctypes.data
