"""Memory of results: used again once nothing refers to it, never before."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import dynamics_node as dn
from dynamics_node.codegen import result_memory as memory

SHAPE = (1000, 50)


@pytest.fixture(autouse=True)
def no_free_blocks():
    memory._free.clear()


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_of_dropped_results_is_used_again():
    first = address(memory.new_array(SHAPE))
    array = memory.new_array((500, 100))
    assert address(array) == first and array.shape == (500, 100) and array.dtype == np.float64
    assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned


@pytest.mark.parametrize(
    "kept", [lambda a: a, lambda a: a[3:, 1], lambda a: a.T, lambda a: a.view("i8"), memoryview]
)
def test_memory_in_use_is_not_used_again(kept):
    array = memory.new_array(SHAPE)
    array[:] = 1.0
    first, user = address(array), kept(array)
    before = np.array(user)
    del array
    other = memory.new_array(SHAPE)
    other[:] = 2.0
    assert address(other) != first and np.array_equal(np.asarray(user), before)
    del user
    assert address(memory.new_array(SHAPE)) == first


def test_small_and_huge_arrays_own_their_memory():
    assert memory.new_array((3, 3)).base is None
    assert memory.new_array((memory.MOST_BYTES // 8 + 1,)).base is None and memory._free == []


def test_little_free_memory_is_kept():
    in_use = [memory.new_array(SHAPE) for _ in range(3 * memory.MOST_BLOCKS)]
    assert len({*map(address, in_use)}) == len(in_use)
    in_use.clear()
    assert len(memory._free) == memory.MOST_BLOCKS
    large = [memory.new_array((memory.MOST_BYTES // 32,)) for _ in range(8)]
    assert len({*map(address, large)}) == len(large)
    large.clear()
    assert 0 < sum(block.nbytes for block in memory._free) <= memory.MOST_BYTES


def test_results_that_outlive_the_library_end_in_silence():
    code = (
        "import builtins; from dynamics_node.codegen.result_memory import new_array;"
        f" builtins.kept = new_array({SHAPE})[3:]"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


def test_threads_have_their_own_memory():
    wrong = []

    def work(number):
        for _ in range(300):
            array = memory.new_array(SHAPE)
            array[::100] = number
            if not (array[::100] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_of_a_batch_stay_as_they_are():
    program = dn.trace(lambda x: {"y": x * 2.0, "z": np.outer(x, x)}, {"x": (8,)})
    function = dn.compile(program, "c")
    first = function(np.ones((2000, 8)))
    second = function(np.full((2000, 8), 3.0))
    assert (first[1] == 1.0).all() and (second[1] == 9.0).all()
    places = {address(first[1]), address(second[1])}
    del first, second
    assert address(function(np.zeros((2000, 8)))[1]) in places
