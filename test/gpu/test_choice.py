"""The choice of a kernel, without a device: what is tried, that the fastest is taken, and the note of it."""

import math

import pytest
from gpu_programs import swinging
from robots import ROBOTS

import dynamics_node as dn
from dynamics_node.algorithms import dynamics_programs
from dynamics_node.codegen.cuda import choice
from dynamics_node.codegen.cuda.choice import choose, orders_of
from dynamics_node.codegen.printer import Variant, kernel
from dynamics_node.errors import CompileError
from dynamics_node.symbolic import depth_first

PLAIN = Variant()
ORDERS = {"trace": swinging(), "limbs": swinging()}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Timer:
    """Seconds of kernels: what `seconds` says of a Variant and of how many were measured before."""

    def __init__(self, seconds):
        self.seconds, self.measured = seconds, []

    def __call__(self, kernels):
        times = []
        for one in kernels:
            times.append(self.seconds(one.variant, len(self.measured)))
            self.measured.append(one.variant)
        return times


def chosen(timer, base=PLAIN, device="a card", orders=ORDERS):
    return choose(orders, kernel, base, timer, device)


@pytest.mark.parametrize(
    ("changed", "layout"),
    [
        ({}, "columns"),
        ({"block": 256}, "columns"),
        ({"least_blocks": 4}, "rows"),
        ({"shared_memory": 0}, "rows"),
        ({"block": 64, "spill_to_shared": True}, "columns"),
    ],
)
def test_the_fastest_is_taken(changed, layout):
    base = Variant("double", layout)
    best = base._replace(**changed)
    timer = Timer(lambda variant, number: 1.0 if variant == best else 2.0)
    fastest = chosen(timer, base)
    assert fastest == kernel(swinging(), best)
    assert len(timer.measured) == len(ORDERS) + 1 + len(list(choice.variations(base)))
    assert len(set(timer.measured)) == 1 + len(list(choice.variations(base)))


def test_other_ways_are_tried_of_the_best_order():
    other = depth_first(swinging())
    texts = []

    def write(program, variant):
        texts.append(program is other)
        return kernel(program, variant)

    choose({"trace": swinging(), "limbs": other}, write, Variant(), Timer(lambda v, n: -n), "a card")
    assert texts[:3] == [False, False, True] and all(texts[3:])  # the first text is that of the note


def test_what_was_chosen_is_noted_by_device():
    timer = Timer(lambda variant, number: variant.block)
    first = chosen(timer)
    assert first.variant.block == 64
    again = Timer(None)
    assert chosen(again) == first and again.measured == []
    other = Timer(lambda variant, number: -variant.block)
    assert chosen(other, device="another card").variant.block == 256
    assert chosen(other, Variant("double")).variant.block == 256


def test_kernels_that_do_not_run_are_left_out():
    timer = Timer(lambda variant, number: 1.0 if variant.least_blocks == 8 else math.inf if number else 2.0)
    assert chosen(timer).variant.least_blocks == 8
    with pytest.raises(CompileError, match="none of 2 kernels runs on a card"):
        chosen(Timer(lambda variant, number: math.inf), Variant("double"))


def test_programs_that_are_too_long(monkeypatch):
    monkeypatch.setattr(choice, "MOST_OPERATIONS", 3)
    with pytest.raises(CompileError, match=r"\d+ operations.*too many"):
        chosen(None)


def test_every_order_is_tried():
    program = swinging()
    assert orders_of(program, None, {}).keys() == {"own, traced", "own, depth first"}
    assert orders_of(program, program, {}).keys() == {"own, traced", "own, limbs", "own, depth first"}


def test_rivals_with_many_more_operations_are_not_tried():
    robot = ROBOTS["solo12"].model()
    ways = dynamics_programs(robot, dn.forward_dynamics(robot))
    recursion, through_matrix = ways["aba"], ways["crba + solve"]
    assert 1.0 < len(through_matrix.ops) / len(recursion.ops) < 1.25
    orders = orders_of(recursion, None, {"matrix": (through_matrix, None)})
    assert [name for name in orders if "matrix" in name] == ["matrix, traced", "matrix, depth first"]
    assert orders["matrix, traced"] is through_matrix
    (short,) = dynamics_programs(robot, dn.inverse_dynamics(robot)).values()
    assert not any("matrix" in name for name in orders_of(short, None, {"matrix": (through_matrix, None)}))
