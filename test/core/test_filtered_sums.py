"""Torques and regressors with one low-pass filter: against SciPy's filter, for any chunks, and covariances."""

import numpy as np
import pytest
from identified import Truth, in_chunks, torque_rmse
from robots import ROBOTS
from scipy.signal import butter, lfilter, sosfiltfilt
from two_links import ARM

import dynamics_node as dn
from dynamics_node.errors import IdentificationError
from dynamics_node.identification import RegressorModel, Sums, base_parameters, identify, weighted
from dynamics_node.identification.filtering import ORDER, weights
from dynamics_node.io import differentiate
from dynamics_node.io.differentiate import Derivatives, differentiated

CUTOFF = 10.0
ANGLES = Derivatives("q", np.arange(2), np.zeros(2, dtype=bool), {"qd": 1, "qdd": 2})


@pytest.fixture(scope="module")
def arm():
    return Truth(dn.parse_robot(ARM))


@pytest.fixture(scope="module")
def base(arm):
    return base_parameters(arm.linear)


def sums_of(arm, base, recordings, size=10_000, fit=None, cutoff=CUTOFF):
    total = Sums(arm.linear, base, cutoff)
    for recording in recordings:
        sums = Sums(arm.linear, base, cutoff)
        for chunk in in_chunks(recording, size)():
            sums.add(chunk, fit)
        total.append(sums)
    return total


def test_filter_equals_that_of_accelerations():
    assert differentiate.ORDER == ORDER
    h = weights(CUTOFF / 250.0)
    x = np.random.default_rng(0).normal(size=2000)
    expected = sosfiltfilt(butter(ORDER, CUTOFF, fs=250.0, output="sos"), x)
    filtered = np.convolve(x, h, "same")
    assert len(h) == 2 * 75 + 1 and np.abs(h.sum() - 1) < 1e-3
    assert np.std((filtered - expected)[200:-200]) < 2e-3 * np.std(expected)


def filtered_rows(arm, base, recording, every, size):
    """Filtered rows (k, nv, r + 1) of a recording without gaps, one weighted sum at a time."""
    W = arm.linear.matrix(*(recording[kind] for kind in ("q", "qd", "qdd")))[:, :, base.chosen]
    rows = np.concatenate([W, recording["tau"][..., None]], axis=-1)
    h = weights(CUTOFF * np.median(np.diff(recording["time"])))
    starts = range(0, len(rows) - size + 1, every)
    return np.array([np.tensordot(h, rows[start : start + size], (0, 0)) for start in starts])


def test_sums_equal_those_of_filtered_rows(arm, base):
    """In one chunk, or row by row."""
    recording = arm.recording(1, time=np.arange(0.0, 6.0, 0.01))
    rows = filtered_rows(arm, base, recording, 5, 61)
    S = np.einsum("kja,kjb->jab", rows, rows)
    for size in (10_000, 77, 1):
        sums = sums_of(arm, base, [recording], size)
        assert np.allclose(sums.total()[0], S, rtol=1e-9, atol=1e-9 * S.max())
        assert np.array_equal(sums.count.sum(axis=0), [len(rows)] * 2) and sums.rows == 600
    assert sums.count[:, 0].max() >= 20  # stretches have at least 20 rows


def test_gaps_and_nonfinite_rows_separate_pieces(arm, base):
    recording = arm.recording(1, time=np.arange(0.0, 6.0, 0.01))
    pieces = [slice(0, 150), slice(151, 340), slice(340, 600)]
    holes = {kind: rows.copy() for kind, rows in recording.items()}
    holes["tau"][150] = np.nan
    holes["time"][340:] += 3.0
    rows = np.concatenate(
        [filtered_rows(arm, base, {k: v[piece] for k, v in recording.items()}, 5, 61) for piece in pieces]
    )
    S = np.einsum("kja,kjb->jab", rows, rows)
    for size in (10_000, 150, 151, 64):
        sums = sums_of(arm, base, [holes], size)
        assert np.allclose(sums.total()[0], S, rtol=1e-9, atol=1e-9 * S.max()) and sums.skipped == 1
    twice = sums_of(arm, base, [recording, {**recording, "time": recording["time"] - 50.0}])
    assert np.allclose(twice.total()[0], 2 * sums_of(arm, base, [recording]).total()[0])


def test_true_parameters_fit_filtered_rows_of_uneven_stamps(arm, base):
    """Both sides have the same weights, so no stamp has to be exact."""
    random = np.random.default_rng(2)
    time = np.arange(0.0, 6.0, 0.01) + 0.004 * random.random(600)
    recording = arm.recording(1, noise=0.0, time=time)
    sums = sums_of(arm, base, [recording], 64)
    z = np.append(base.values(arm.parameters), -1.0)
    assert np.all(z @ sums.total()[0] @ z <= 1e-13 * sums.total()[0][:, -1, -1])


def test_torques_above_the_cutoff_are_removed(arm, base):
    recording = arm.recording(1, noise=0.0, time=np.arange(0.0, 12.0, 0.004))
    chatter = 0.7 * np.sin(2 * np.pi * 40.0 * recording["time"])[:, None]
    noisy = {**recording, "tau": recording["tau"] + chatter}
    start, right = base.values(arm.linear.described), base.values(arm.parameters)
    raw, filtered = (weighted(sums_of(arm, base, [noisy], cutoff=c), start) for c in (None, CUTOFF))
    assert raw.spread.min() > 0.4 and filtered.spread.max() < 0.01
    assert np.all(np.abs(filtered.x - right) <= 3 * raw.std) and np.all(filtered.std < 0.2 * raw.std)


def test_robust_weights(arm, base):
    """Weights of filtered rows are at most 1, and lower for outliers."""
    recording = arm.recording(1, time=np.arange(0.0, 6.0, 0.01))
    plain = sums_of(arm, base, [recording])
    right = base.values(arm.parameters)
    close, far = (sums_of(arm, base, [recording], fit=(right, np.full(2, s))) for s in (1e3, 1e-3))
    assert np.allclose(close.total()[0], plain.total()[0]) and np.array_equal(close.count, plain.count)
    assert np.all(far.count.sum(axis=0) < 0.5 * plain.count.sum(axis=0))


def noisy(arm, seed):
    """Positions with white noise, and torques with noise of correlation time 20 ms, at 250 Hz."""
    random = np.random.default_rng(seed)
    clean = arm.recording(1, noise=0.0, time=np.arange(0.0, 20.0, 0.004))
    last = np.exp(-0.004 / 0.02)
    white = random.normal(size=(500 + len(clean["time"]), 2))
    noise = 0.1 * lfilter([np.sqrt(1 - last**2)], [1, -last], white, axis=0)[500:]
    q = clean["q"] + 1e-4 * random.normal(size=clean["q"].shape)
    return {"time": clean["time"], "q": q, "tau": clean["tau"] + noise}


def test_covariances_cover_the_truth(arm, base):
    """The truth is within three standard deviations; for white noise in 99.7 % of all cases."""
    right, start = base.values(arm.parameters), base.values(arm.linear.described)
    inside = {None: [], CUTOFF: []}
    for seed in range(12):
        parts = list(differentiated([noisy(arm, seed)], ANGLES, CUTOFF))
        chunk = {kind: np.concatenate([part[kind] for part in parts]) for kind in parts[0]}
        for cutoff, hits in inside.items():
            solution = weighted(sums_of(arm, base, [chunk], cutoff=cutoff), start)
            hits.append(np.abs(solution.x - right) < 3 * solution.std)
    assert np.mean(inside[None]) > 0.95 and np.mean(inside[CUTOFF]) > 0.95


def test_recordings_that_cannot_be_filtered(arm, base):
    recording = arm.recording(1, time=np.arange(0.0, 6.0, 0.01))
    with pytest.raises(ValueError, match="30 Hz.*25 Hz"):
        sums_of(arm, base, [recording], cutoff=30.0)
    timeless = sums_of(arm, base, [{**recording, "time": np.full(600, np.nan)}])
    assert not timeless.count.any() and not timeless.total()[0].any()
    del recording["time"]
    with pytest.raises(ValueError, match="time"):
        Sums(arm.linear, base, CUTOFF).add(recording)


def test_identification_with_a_cutoff():
    """As good as the truth on an unseen motion."""
    arm = Truth(ROBOTS["ur5"].model())
    fit = identify(arm.robot, [in_chunks(arm.recording(k)) for k in (1, 2)], backend="numpy", cutoff=10.0)
    rmse = torque_rmse(arm, fit.parameters, arm.recording(9, noise=0.0))
    assert rmse.max() < 0.02 and fit.better and fit.cutoff == 10.0
    still = arm.recording(1, moving=[])
    with pytest.raises(IdentificationError, match="nothing moves"):
        identify(arm.robot, [in_chunks(still)], backend="numpy", cutoff=10.0)
    assert RegressorModel(fit.robot, backend="numpy").described.shape == fit.parameters.shape


def test_empty_chunks_change_nothing(arm, base):
    recording = arm.recording(1, time=np.arange(0.0, 6.0, 0.01))
    empty = {kind: rows[:0] for kind, rows in recording.items()}
    plain, sums = sums_of(arm, base, [recording]), Sums(arm.linear, base, CUTOFF)
    for chunk in (empty, {kind: rows[:300] for kind, rows in recording.items()}, empty):
        sums.add(chunk)
    sums.add({kind: rows[300:] for kind, rows in recording.items()})
    assert np.allclose(sums.total()[0], plain.total()[0]) and sums.rows == plain.rows
