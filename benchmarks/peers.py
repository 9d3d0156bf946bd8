"""Peers that need a build: Pinocchio's C++ core, and C code that CasADi generates from it.

The build is in .dev/peers. It needs the headers of Eigen, some minutes and gigabytes of memory.
"""

import ctypes
import hashlib
import importlib.util
import json
import subprocess
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parent / "core"
FOLDER = Path(__file__).parent.parent / ".dev" / "peers"
EIGEN = ("/usr/include/eigen3", "/usr/local/include/eigen3")
DEFINES = (  # of Pinocchio's CMake targets
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
)


class Absent(Exception):
    """The reason why a peer is absent."""


def pinocchio_core(model):
    """us per call of the C++ core for a pinocchio.Model: {"rnea", "aba", "crba", "drnea", "daba"}, the last
    two of derivatives. Raises Absent."""
    program = _built("pinocchio_core", ("-O3", "-march=native"))
    done = subprocess.run([program], input=_as_text(model), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def pinocchio_contacts(model, frames, rows):
    """us per call of the C++ core for forward dynamics with contacts at the origins of frames, by number, of
    3 or 6 rows each. Raises Absent."""
    program = _built("pinocchio_contacts", ("-O3", "-march=native"))
    places = [model.frames[frame] for frame in frames]
    numbers = [
        str(x) for f in places for x in (f.parentJoint, *f.placement.rotation.flat, *f.placement.translation)
    ]
    command = [program, str(rows), *numbers]
    done = subprocess.run(command, input=_as_text(model), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["constraintDynamics"]


def casadi_functions(model, name):
    """{"rnea", "aba", and with a fixed base "drnea", "daba"}: call(q, qd, u, out), a loop over states in C
    that CasADi generates; out of derivatives: (3, nv, nv). Raises Absent."""
    casadi = importlib.util.find_spec("casadi")
    if casadi is None:
        raise Absent("needs CasADi: ./dev setup bench")
    folder = Path(casadi.origin).parent
    flags = ("-O1", f"-isystem{folder}/include", f"-L{folder}", f"-Wl,-rpath,{folder}", "-lcasadi")
    program = _built("casadi_export", flags)
    subprocess.run([program, name], input=_as_text(model), text=True, check=True, cwd=FOLDER)
    source, library = FOLDER / f"{name}.c", FOLDER / f"{name}.so"
    source.write_text(source.read_text() + (SOURCES / "casadi_loop.c").read_text())
    fixed = model.nq == model.nv
    flags = ["-O3", "-march=native", "-fPIC", "-shared", *["-DWITH_DERIVATIVES"] * fixed]
    _run(["cc", *flags, "-o", library, source, "-lm"], "a C compiler")
    loaded = ctypes.CDLL(str(library))
    kinds = ("rnea", "aba", *("drnea", "daba") * fixed)
    return {kind: _looped(getattr(loaded, f"{kind}_loop")) for kind in kinds}


def _looped(function):
    function.argtypes = [ctypes.c_long] * 3 + [ctypes.c_void_p] * 4
    function.restype = None

    def call(q, qd, u, out):
        function(len(q), q.shape[1], qd.shape[1], *(a.ctypes.data for a in (q, qd, u, out)))

    return call


@cache
def _built(name, flags):
    """The path of a program of SOURCES, built if necessary."""
    import pinocchio

    include = next(
        (p / "include" for p in Path(pinocchio.__file__).parents if (p / "include/pinocchio").is_dir()), None
    )
    if include is None:
        raise Absent("this Pinocchio has no headers")
    eigen = next((folder for folder in (*EIGEN, *_casadi_eigen()) if Path(folder).is_dir()), None)
    if eigen is None:
        raise Absent("needs Eigen: sudo apt install libeigen3-dev")
    source = SOURCES / f"{name}.cpp"
    texts = "".join(file.read_text() for file in (source, *sorted(SOURCES.glob("*.hpp"))))
    key = hashlib.sha256(f"{texts}{flags}{pinocchio.__version__}".encode()).hexdigest()[:16]
    program = FOLDER / f"{name}-{key}"
    if not program.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        print(f"building {name} (once; some minutes)", flush=True)
        includes = (f"-isystem{include}", f"-isystem{eigen}")
        command = ["g++", "-w", "-std=c++17", "-DNDEBUG", *DEFINES, *includes, source, "-o", program, *flags]
        _run(command, "g++, Eigen and Boost")
    return program


def _casadi_eigen():
    """The Eigen headers of CasADi's wheel."""
    casadi = importlib.util.find_spec("casadi")
    return [] if casadi is None else [Path(casadi.origin).parent / "include/eigen3"]


def _run(command, needed):
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    except OSError as error:
        raise Absent(f"needs {needed}: {error}") from None
    if done.returncode:
        line = next((line for line in done.stderr.splitlines() if "error" in line), "it failed")
        raise Absent(f"needs {needed}: {line[:200]}")


def _as_text(model):
    """The model as text for core/read_model.hpp."""
    lines = []
    for k in range(1, model.njoints):
        P, inertia = model.jointPlacements[k], model.inertias[k]
        numbers = [*P.rotation.flat, *P.translation, inertia.mass, *inertia.lever, *inertia.inertia.flat]
        lines.append(
            " ".join([str(model.parents[k]), model.joints[k].shortname(), *map(repr, map(float, numbers))])
        )
    return "\n".join(lines) + "\n"
