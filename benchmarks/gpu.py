"""Kernels for GPUs, without one: what they take, and what a model of the cards makes of that.

Counts (registers, spills, instructions) are facts of the compiler, and targets are on them alone. Rates are
marked "predicted, never run"; where a device has run the bundle (`./dev gpu bundle`, then `./dev gpu
save`), its figures stand beside them.
"""

import gpu_bundle
import gpu_limits
import gpu_saved
import harness
from gpu_kernels import ARCH, LONG, PRECISIONS, PROBLEMS, ROBOTS, Case, chosen, compiled
from gpu_predict import PREDICTED, predictions

TARGETS = {  # counts of kernels for compute capability 9.0, at most
    ("panda", "forward", "float"): {"registers": 64, "spilled": 0, "sass": 1089},
    ("talos", "forward", "float"): {"spilled": 0},
    ("panda", "inverse", "double"): {"spilled": 0},
    ("panda", "forward", "double"): {"spilled": 0},
    ("solo12", "inverse", "double"): {"spilled": 0},
    ("solo12", "forward", "double"): {"spilled": 0},
    (LONG, "forward", "float"): {"registers": 64, "spilled": 0},
    (LONG, "forward", "double"): {"spilled": 0},
}
_UNITS = {"registers": "", "spilled": "bytes", "sass": ""}


def kernels():
    """(Case, Way, Compiled) as the backend chooses them."""
    for robot in ROBOTS:
        for problem in PROBLEMS:
            for precision in PRECISIONS:
                case = Case(robot, problem, precision)
                way = chosen(case)
                yield case, way, compiled(case, way)


def rolled_kernels():
    """(Case, Compiled) of a long robot: of loops the model of a scheduler predicts no rate."""
    for precision in PRECISIONS:
        case = Case(LONG, "forward", precision)
        yield case, compiled(case, chosen(case))


def count_rows(case, one):
    """Targets on what the compiler says."""
    for what, most in TARGETS.get(case[:3], {}).items():
        name = f"{case.name} sm_{ARCH}, {what}"
        yield harness.Row(name, one.counts[what], _UNITS[what], "lower", target=most)


def rate_rows(case, way, one, measured):
    """(Row, details) for every card: the measured rate, None without a device, beside the predicted one."""
    for card, found in predictions(one).items():
        rate = measured.rate(one.kernel.text, card) if measured else None
        row = harness.Row(
            f"{case.name} on {card}", None if rate is None else rate / 1e9, "G/s", "higher",
            "model", found["expected"] / 1e9, reason=PREDICTED if rate is None else f"by {measured.device}",
        )  # fmt: skip
        device = None if rate is None else measured.device
        yield row, {"name": row.name, "way": way.name, "device": device, "measured": rate, "predicted": found}


def bench(measured, save):
    rows, details = [], []
    for case, way, one in kernels():
        rows += count_rows(case, one)
        for row, detail in rate_rows(case, way, one, measured):
            rows.append(row)
            details.append(detail)
    for case, one in rolled_kernels():
        rows += count_rows(case, one)
    versions = harness.versions("numpy", "nvidia-cuda-nvrtc", "nvidia-cuda-nvdisasm")
    device = measured.device if measured else None
    harness.finish(
        "gpu", rows, versions, save, device=device, kernels=details, run=measured.run if measured else None
    )


def main():
    parser = harness.arguments("gpu")
    others = parser.add_mutually_exclusive_group()
    others.add_argument("--limits", action="store_true", help=f"only write {gpu_limits.TABLE.name} anew")
    others.add_argument("--bundle", action="store_true", help="only write .gpu, for a machine with a GPU")
    others.add_argument("--keep", action="store_true", help="save what such a machine left in .gpu")
    options = parser.parse_args()
    if options.limits:
        gpu_limits.write()
    elif options.bundle:
        gpu_bundle.write()
    elif options.keep:
        bench(gpu_saved.taken(), save=True)
    else:
        bench(gpu_saved.read(), options.save)


if __name__ == "__main__":
    main()
