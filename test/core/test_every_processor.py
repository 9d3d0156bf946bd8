"""The same Programs on every processor: BLAS and NumPy of child processes run as on other ones."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
from parallel_robots import chain

from dynamics_node.algorithms import economical_robot
from dynamics_node.symbolic import angle_of, sine_cosine

DIGESTS = Path(__file__).parents[1] / "support" / "digests.py"
ROBOTS = ("generic_tree+", "free_body", "geared_arm", "five_bar+", "differential", "humanoid")
PROCESSORS = ("Nehalem", "Sandybridge", "Haswell", "SkylakeX")  # Zen multiplies with the code of Haswell
OLD = {  # NumPy and the C library without the instructions of later processors
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL FMA3 AVX2 AVX512F AVX512CD AVX512_SKX",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable,-AVX512F",
}


def run_as(processor, *arguments):
    """A Python process whose BLAS takes this machine for another processor."""
    environment = {"OPENBLAS_CORETYPE": processor, "OPENBLAS_NUM_THREADS": "1"}
    environment |= OLD if processor == PROCESSORS[0] else {}
    command = [sys.executable, "-W", "ignore", *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)


def digests(processor):
    process = run_as(processor, str(DIGESTS), *ROBOTS)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def has_instructions_of(processor):
    """Whether this machine can multiply as the processor does: AVX-512 is missing on many."""
    process = run_as(processor, "-c", "import numpy as np; assert (np.eye(99) @ np.eye(99)).sum() == 99")
    assert process.returncode in (0, -signal.SIGILL), process.stderr
    return process.returncode == 0


def test_programs_and_their_source_are_equal_on_every_processor():
    processors = [name for name in PROCESSORS if name != "SkylakeX" or has_instructions_of(name)]
    with ThreadPoolExecutor(2) as pool:
        results = dict(zip(processors, pool.map(digests, processors), strict=True))
    first = results[PROCESSORS[0]]
    for robot in ROBOTS:
        assert len(first[robot]) >= (9 if robot.endswith("+") else 4)
        for processor, other in results.items():
            assert other[robot] == first[robot], (robot, processor)


def test_inertias_are_symmetric_to_the_last_digit():
    reduced, _ = economical_robot(chain(5))
    for model in (chain(5), reduced):
        assert (model.inertias == model.inertias.transpose(0, 2, 1)).all()


def test_angles_are_rounded_correctly():
    """Against decimal series; angle_of returns the angle of a sine and cosine to the last digits."""
    for angle in np.random.default_rng(1).uniform(-9, 9, 100).tolist():
        assert sine_cosine(angle) == (_series(angle, 1), _series(angle, 0))
        turn = angle_of(*sine_cosine(angle)) - angle
        assert abs(turn - 2 * np.pi * round(turn / (2 * np.pi))) < 1e-15
    assert angle_of(1.0, 0.0) == np.pi / 2 and angle_of(0.0, -1.0) == np.pi


def _series(angle, n):
    """The float nearest to the sum of angle^n / n! over every second n with alternating signs."""
    with localcontext(prec=60):
        x, total, term = Decimal(angle), Decimal(0), Decimal(angle) ** n
        while abs(term) > Decimal(10) ** -50:
            total, n = total + term, n + 2
            term = -term * x * x / (n * (n - 1))
        return float(total)
