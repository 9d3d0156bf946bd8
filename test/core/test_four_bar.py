"""The reproduction of paper 2 passes, and fails for another mechanism; its reference solution conserves energy."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="its plot: pip install matplotlib")

import four_bar
import four_bar_truth as truth


def test_reproduction_passes_and_draws(tmp_path, capsys, monkeypatch):
    plot = tmp_path / "four_bar.png"
    monkeypatch.setattr(sys, "argv", ["four_bar.py", "--seconds", "0.5", "--plot", str(plot)])
    assert four_bar.main() == 0
    output = capsys.readouterr().out
    assert "(0.002361)" in output and "\npassed" in output
    assert plot.stat().st_size > 10_000
    if find_spec("viser"):
        assert plot.with_suffix(".html").stat().st_size > 10_000


def test_reproduction_fails_for_another_mechanism(monkeypatch, capsys):
    monkeypatch.setattr(truth, "GRAVITY", np.array([0.0, -9.81]))
    monkeypatch.setattr(truth, "Q", truth.mass_and_weight()[1])
    assert four_bar.reproduce(seconds=0.2, plot="") == 1
    assert "FAILED: window 2, dependent" in capsys.readouterr().out


def test_reference_conserves_lengths_and_energy():
    q, qd = truth.free_motion(np.linspace(0.0, 2.0, 201))
    P1, P2 = q[:, :2], q[:, 2:]
    rods = zip((P1 - truth.A, P2 - P1, P2 - truth.D), truth.LENGTHS, strict=True)
    assert max(np.abs(np.linalg.norm(rod, axis=1) - length).max() for rod, length in rods) < 1e-9
    energy = 0.5 * np.einsum("ki,ij,kj->k", qd, truth.M, qd) - q @ truth.Q
    assert np.abs(energy - energy[0]).max() < 1e-8 * np.abs(energy).max()


def test_reference_torque_accelerates_the_crank():
    rate = 0.7
    q = truth.START
    # P1 from the crank's rate, P2 from the lengths of the other rods
    v1 = rate * np.array([-q[1], q[0]])
    v2 = np.linalg.solve(np.array([q[2:] - q[:2], q[2:] - truth.D]), [(q[2:] - q[:2]) @ v1, 0.0])
    qd = np.concatenate([v1, v2])
    torque = truth.crank_torque(q, qd, 3.0)
    qdd = truth.acceleration(q, qd, torque)
    assert (-q[1] * qdd[0] + q[0] * qdd[1]) == pytest.approx(3.0)
