"""`./dev gpu bundle`: all that a machine with a GPU needs to try and to time the kernels, in the folder .gpu.

That machine needs Python, NumPy and NVIDIA's driver: cubins are compiled here, and what the results are, to
the bit, is known from the C build of the same texts. gpu_day/run.py does the rest there.
"""

import hashlib
import json
import shutil
import sys
from importlib.resources import files
from pathlib import Path

import gpu_chains
import numpy as np
from gpu_kernels import (
    PRECISIONS,
    PROBLEMS,
    ROBOTS,
    Case,
    Way,
    bytes_of_state,
    chosen,
    compiled,
    programs,
    robots,
)
from gpu_predict import digest, predictions

sys.path.append(str(Path(__file__).resolve().parents[1] / "test" / "support"))

from text_in_c import built

from dynamics_node.codegen.cuda.nvrtc import find_nvrtc
from dynamics_node.symbolic import interpret

HERE = Path(__file__).parent
FOLDER = HERE.parent / ".gpu"
ARCHS, MOST_BYTES = (80, 90, 100, 120), 10e6
STATES = 200  # for comparisons; the last one is beyond what the sine can do
_PRODUCT = ("errors", "cuda/driver", "cuda/device")  # modules of codegen that need nothing else
_WIDTH, _ROUNDS = 256, 64  # of the ceilings: threads of a block, rounds of a chain


def all_cases():
    """(Case, Way, fields of the Variant besides) of a whole bundle: what the backend takes, the same by
    rows and with exact reciprocals, and ways that it did not take."""
    for robot in ROBOTS:
        for problem in PROBLEMS:
            for precision in PRECISIONS:
                case = Case(robot, problem, precision)
                yield case, chosen(case), {}
            rows = Case(robot, problem, "float", "rows")
            yield rows, chosen(rows), {}
    for precision in PRECISIONS:
        case = Case("panda", "forward", precision)
        yield case, chosen(case), {"exact_reciprocal": True}
        yield case, Way("trace", 128, 3), {}
    case = Case("talos", "forward", "float")
    yield case, Way("limbs", 128), {}
    yield case, Way("limbs", 32, 0, True), {}


class Bundle:
    """What is written: the index of kernels, and all arrays by their keys."""

    def __init__(self, image=None):
        """image(text, arch): a cubin, by default NVRTC's."""
        self.image = image or (lambda text, arch: find_nvrtc().cubin(text, arch).image)
        self.index = {"nvrtc": list(find_nvrtc().version), "kernels": [], "chains": []}
        self.data, self.texts = {}, {}

    def add(self, case, way, more):
        """One kernel, with the states of its robot and what comes out of it."""
        one = compiled(case, way, **more)
        key = digest(one.kernel.text)
        self._results(case, one.kernel, key, self._states(case))
        exact = bool(more.get("exact_reciprocal"))
        self.index["kernels"].append({
            "name": f"{case.name}, {way.name}{', exact reciprocals' if exact else ''}", "case": list(case),
            "robot": case.robot, "problem": case.problem, "precision": case.precision, "layout": case.layout,
            "exact": exact, "digest": key, "function": one.kernel.name, "block": way.block,
            "arguments": [list(argument) for argument in one.kernel.arguments],
            "bytes": bytes_of_state(one.kernel), "cubins": self._cubins(key, one.kernel.text),
            "predictions": predictions(one),
        })  # fmt: skip

    def add_ceilings(self, rounds=_ROUNDS):
        source = (HERE / "gpu_day" / "ceilings.cu").read_text()
        dialects = files("dynamics_node.codegen.printer").joinpath("dialects.h").read_text()
        self.index["ceilings"] = {}
        for precision in PRECISIONS:
            numbers = {"FLOAT64": int(precision == "double"), "WIDTH": _WIDTH, "ROUNDS": rounds}
            numbers |= dict.fromkeys(("LEAST_BLOCKS", "EXACT_RECIPROCAL", "SPILL_TO_SHARED"), 0)
            text = (
                "".join(f"#define {name} {number}\n" for name, number in numbers.items()) + dialects + source
            )
            cubins = self._cubins(digest(text), text)
            self.index["ceilings"][precision] = {"cubins": cubins, "width": _WIDTH, "rounds": rounds}

    def add_chains(self, links=gpu_chains.LINKS):
        for entry, arrays, kernel in gpu_chains.entries(links):
            self.index["chains"].append({**entry, "cubins": self._cubins(digest(kernel.text), kernel.text)})
            self.data |= {f"{entry['name']}/{name}": array for name, array in arrays.items()}

    def _cubins(self, key, text):
        """{arch: key}"""
        if key not in self.texts:
            self.texts[key] = text
            for arch in ARCHS:
                self.data[f"{key}/{arch}"] = np.frombuffer(self.image(text, arch), np.uint8)
        return {str(arch): f"{key}/{arch}" for arch in ARCHS}

    def _states(self, case):
        """{input: array}, the same for every kernel of a robot; the last state is beyond what the sine can
        do."""
        model = robots.robot(case.robot)
        q, qd, u = robots.random_states(model, STATES)
        q[-1, -1] = 1e9
        states = {"q": q, "qd": qd, "qdd": u, "tau": u, "gravity": np.asarray(model.gravity)}
        self.data |= {f"{case.robot}/{name}": array for name, array in states.items()}
        return states

    def _results(self, case, kernel, key, states):
        """The bits of the C build, and the Program in float64."""
        program = next(iter(programs(case.robot, case.problem).values()))
        inputs = {name: states[name] for name in program.inputs}
        shapes = {name: array.shape for name, array in program.outputs.items() if name != "health"}
        typed = {name: array.astype(kernel.variant.dtype) for name, array in inputs.items()}
        true = interpret(program, **inputs)
        for name, array in built(kernel, "-O0")(STATES, typed, shapes).items():
            self.data[f"{key}/{name}"] = array.reshape(STATES, -1)
            reference = true[name].reshape(STATES, -1).copy()
            reference[-1] = np.nan
            self.data[f"{case.robot}/{case.problem}/{name}"] = reference

    def write(self, folder=FOLDER):
        """Everything, anew. Raises SystemExit where it is too large to be carried."""
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "texts").mkdir(parents=True)
        for source in (HERE / "gpu_day").glob("*.py"):
            shutil.copy(source, folder)
        _copy_product(folder)
        for key, text in self.texts.items():
            (folder / "texts" / f"{key}.cu").write_text(text)
        np.savez_compressed(folder / "data.npz", **self.data)
        content = json.dumps(self.index)
        self.index["digest"] = hashlib.sha256(content.encode()).hexdigest()[:16]
        (folder / "kernels.json").write_text(json.dumps(self.index, indent=1) + "\n")
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if size > MOST_BYTES:
            raise SystemExit(
                f"{folder} has {size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f}: leave kernels out"
            )
        print(f"written: {folder}, {size / 1e6:.1f} MB, {len(self.index['kernels'])} kernels")


def _copy_product(folder):
    """The driver as the backend has it, in a package with nothing else."""
    package = folder / "dynamics_node" / "codegen"
    (package / "cuda").mkdir(parents=True)
    for parent in (package / "cuda", package, package.parent):
        (parent / "__init__.py").touch()
    for name in _PRODUCT:
        shutil.copy(HERE.parent / "dynamics_node" / "codegen" / f"{name}.py", package / f"{name}.py")


def write():
    bundle = Bundle()
    bundle.add_ceilings()
    bundle.add_chains()
    for case, way, more in all_cases():
        bundle.add(case, way, more)
        print(bundle.index["kernels"][-1]["name"], flush=True)
    bundle.write()
