"""One command on a machine with an NVIDIA GPU: python3 run.py. It needs NumPy and the driver, nothing else.

Writes gpu.json beside itself, part by part: the device, what it can do at best, whether all kernels give
the bits that they give without a device, what compute-sanitizer says, medians for 1e3 to 4e6 states, the
figures of paper 5, what ncu counts. Given back to where the bundle was made, `./dev gpu save` keeps it.
"""

import argparse
import sys
import time
from pathlib import Path

import bits
import ceilings
import chains
import timing
import tools
from kernels import Bundle, OnDevice
from record import Record

from dynamics_node.codegen.cuda.device import Device
from dynamics_node.codegen.cuda.driver import LIBRARY, Driver
from dynamics_node.codegen.errors import CudaError

HERE = Path(__file__).parent
CHECKS = ("memcheck", "racecheck", "initcheck", "synccheck")


def arguments(given=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--driver", default=LIBRARY, help="the library of the driver")
    parser.add_argument(
        "--minutes", type=float, default=9.0, help="no new measurement is begun after so long"
    )
    parser.add_argument("--most", type=int, default=timing.COUNTS[-1], help="states of a launch, at most")
    parser.add_argument("--groups", type=int, default=100_000, help="chains of a launch, at most")
    parser.add_argument(
        "--bits-only", action="store_true", help="run every kernel once and compare; write nothing"
    )
    parser.add_argument(
        "--once", metavar="KERNEL", help="run one kernel once with a million states; write nothing"
    )
    return parser.parse_args(given)


class Day:
    """What one run does, in order."""

    def __init__(self, options, folder=HERE):
        self.options, self.until = options, time.monotonic() + 60 * options.minutes
        self.bundle = Bundle(folder)
        self.driver = Driver(options.driver)
        self.device = Device(self.driver)
        images = (
            (kernel, self.bundle.image(kernel.entry, self.device.capability))
            for kernel in self.bundle.kernels
        )
        self.runnable = [(kernel, image) for kernel, image in images if image is not None]
        if not self.runnable:
            raise SystemExit(
                f"no cubin of this bundle runs on compute capability {self.device.capability / 10:.1f}"
            )

    def described(self):
        """The device in the words of the driver, and of nvidia-smi where that is."""
        device = self.device
        return {
            "name": device.name, "capability": device.capability, "multiprocessors": device.processors,
            "driver": list(device.driver_version), "smi": tools.clocks(),
        }  # fmt: skip

    def run(self, record):
        record.put("device", self.described())
        with self.device.at_work():
            self.clock = timing.Clock(self.driver)
            self._all(record)
            self.clock.close()
        record.put("clocks_after", tools.clocks())
        record.put("complete", True)

    def _all(self, record):
        self._ceilings(record)
        for kernel, image in self.runnable:
            record.add("bits", bits.compared(kernel, self.device, image))
        for check in CHECKS:
            record.add("sanitizer", tools.sanitized(check, 120))
        for count in (count for count in timing.COUNTS if count <= self.options.most):
            for kernel, image in self.runnable:
                if not self._late(record, kernel.name, count):
                    record.add("times", timing.timed(kernel, self.device, self.clock, image, count))
        self._chains(record)
        for kernel, _ in self.runnable[:5]:
            record.add("ncu", tools.profiled(kernel.name, 60))

    def _chains(self, record):
        """Figures of paper 5."""
        for entry, groups in chains.points(self.bundle, self.options.groups):
            if not self._late(record, entry["name"], groups):
                record.add("chains", chains.timed(entry, groups, self.bundle, self.device, self.clock))

    def _late(self, record, kernel, count):
        """Whether no time is left for a measurement; then that is noted."""
        late = time.monotonic() > self.until
        if late:
            record.add("left_out", {"kernel": kernel, "count": count, "reason": "no time left"})
        return late

    def _ceilings(self, record):
        entries = self.bundle.index["ceilings"]
        images = {
            precision: self.bundle.image(entry, self.device.capability)
            for precision, entry in entries.items()
        }
        width, rounds = entries["float"]["width"], entries["float"]["rounds"]
        for row in ceilings.measured(self.device, self.clock, images, width, rounds, 8 * self.options.most):
            record.add("ceilings", row)

    def bits_only(self):
        with self.device.at_work():
            return all([bits.compared(kernel, self.device, image)["ok"] for kernel, image in self.runnable])

    def once(self, name):
        with self.device.at_work():
            kernel, image = next(pair for pair in self.runnable if pair[0].name == name)
            running = OnDevice(kernel, self.device, image, min(10**6, self.options.most))
            running.launch()
            self.device.wait(running.stream)


def main(given=None, folder=HERE):
    """0 where all kernels are right."""
    options = arguments(given)
    try:
        day = Day(options, folder)
        if options.once:
            day.once(options.once)
            return 0
        if options.bits_only:
            return 0 if day.bits_only() else 1
        record = Record(Path(folder) / "gpu.json", bundle=day.bundle.index["digest"], complete=False)
        day.run(record)
    except CudaError as error:
        print(error, file=sys.stderr)
        return 2
    wrong = [row["kernel"] for row in record.parts["bits"] if not row["ok"]]
    wrong += [f"chains of {row['links']}" for row in record.parts.get("chains", ()) if not row["ok"]]
    print(
        f"written: {record.path}" + (f"; wrong: {', '.join(wrong)}" if wrong else "; all kernels are right")
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
