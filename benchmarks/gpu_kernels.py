"""The kernels of today: what the backend chooses for the robots of the benchmarks, compiled without a
device."""

import importlib.util
from functools import cache
from pathlib import Path
from typing import NamedTuple

import dynamics_node as dn
from dynamics_node.algorithms import cheapest, dynamics_programs, recursive_programs, reordered
from dynamics_node.codegen.cuda.choice import (
    Chosen,
    Orders,
    Trial,
    choose,
    instructions,
    orders_of,
    processor_of,
)
from dynamics_node.codegen.cuda.nvrtc import find_nvrtc
from dynamics_node.codegen.printer import Kernel, Variant, kernel

_found = importlib.util.spec_from_file_location("benchmark_robots", Path(__file__).with_name("robots.py"))
robots = importlib.util.module_from_spec(_found)  # by its file: tests have a module `robots` of their own
_found.loader.exec_module(robots)

ARCH = 90  # what is shown and chosen for
ROBOTS = ("panda", "solo12", "talos")
LONG, LINKS = "chain64", 64  # a robot whose Program is rolled up
PROBLEMS = {"inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics}
PRECISIONS = ("float", "double")
SAME = ("gravity",)  # in all states


class Case(NamedTuple):
    """What a kernel is asked for."""

    robot: str
    problem: str
    precision: str
    layout: str = "columns"

    @property
    def name(self):
        return f"{self.robot} {self.problem} {self.precision} {self.layout}"


class Way(NamedTuple):
    """How its kernel is written: the order of its operations and what differs from Variant's own choices."""

    order: str = "trace"
    block: int = 128
    least_blocks: int = 0
    spill_to_shared: bool = False

    def variant(self, case, **more):
        choices = self._asdict() | more
        del choices["order"]
        return Variant(case.precision, case.layout, **choices)

    @property
    def name(self):
        bounds = f"({self.block}, {self.least_blocks})"
        return f"{self.order} {bounds}{' spilled to shared memory' if self.spill_to_shared else ''}"


class Compiled(NamedTuple):
    """A kernel on one architecture: its cubin, what a thread takes of it, and its instructions; moved: bytes
    that a thread spills to memory."""

    kernel: Kernel
    image: bytes
    registers: int
    spilled: int
    moved: int
    shared: int
    code: list

    @property
    def counts(self):
        """What the table of limits holds; spilled: bytes stored and loaded."""
        return {
            "registers": self.registers,
            "spilled": self.spilled,
            "shared": self.shared,
            "sass": len(self.code),
        }


@cache
def model_of(name):
    """The robot of a case."""
    return robots.random_chain(LINKS) if name == LONG else robots.robot(name)


@cache
def programs(name, problem):
    """{order: Program} of the recursions, the one that costs least first."""
    model = model_of(name)
    ways = (dynamics_programs if name == LONG else recursive_programs)(model, PROBLEMS[problem](model))
    best, program = cheapest(ways)
    rivals = {way: (other, reordered(model, other)) for way, other in ways.items() if way != best}
    return orders_of(program, reordered(model, program), rivals)


def written(case, way, **more):
    """The Kernel of a case; more: other fields of its Variant."""
    program = programs(case.robot, case.problem)[way.order]
    return kernel(program, way.variant(case, **more), SAME, model_of(case.robot).quaternion_places)


def chosen(case, arch=ARCH):
    """The Way that the backend takes."""

    def write(program, variant):
        return kernel(program, variant, SAME, model_of(case.robot).quaternion_places)

    orders = Orders(programs(case.robot, case.problem), write)
    found = choose(orders, Variant(case.precision, case.layout), find_nvrtc(), arch)
    variant = found.kernel.variant
    return Way(found.order, variant.block, variant.least_blocks, variant.spill_to_shared)


def compiled(case, way, arch=ARCH, **more):
    """Compiled, from the cache of cubins where it was before. Raises CompileError."""
    one = written(case, way, **more)
    image = find_nvrtc().cubin(one.text, arch)
    trial = Trial(Chosen(one, way.order, image), processor_of(arch))
    registers, shared, code = trial.taken.registers, trial.taken.shared, instructions(image.image, one.name)
    return Compiled(one, image.image, registers, trial.spilled, trial.moved, shared, code)


def bytes_of_state(one):
    """What a launch reads and writes of a state."""
    sizes = (argument.size for argument in one.arguments if argument.kind in ("array", "output"))
    return sum(sizes) * one.variant.dtype.itemsize
