"""Zarr groups as tables: any chunks, and nothing that a stranger may have put into them."""

import contextlib
import shutil

import numpy as np
import pytest
from robots import ROBOTS, random_states
from state_tables import save_zarr

import dynamics_node as dn
from dynamics_node.errors import TableError
from dynamics_node.io import open_table, table_writer

zarr = pytest.importorskip("zarr", reason="Zarr groups: pip install zarr")
numcodecs = pytest.importorskip("numcodecs")

ROWS = 1000


@pytest.fixture(scope="module")
def panda():
    return ROBOTS["panda7"].model()


@pytest.fixture
def positions(panda):
    return random_states(panda, ROWS, seed=61)[0]


def opened(path, model, **choices):
    return open_table(path, model, dn.inverse_dynamics(model), zero_velocity=True, **choices)


@pytest.mark.parametrize("choices", [{}, {"shards": (300, 7)}, {"compressors": None}, {"fill_value": 0.5}])
def test_chunks_of_a_zarr_group(tmp_path, panda, positions, choices):
    """Whatever the chunks, of the file and of the table."""
    q = positions.astype("f4")
    q[200:400] = 0.5  # not stored
    save_zarr(tmp_path / "in.zarr", {"q": q}, **choices)
    for chunk in (1, 30, 130, 250, 2 * ROWS):
        table = opened(tmp_path / "in.zarr", panda, chunk=chunk)
        parts = [part["q"] for part in table.chunks()]
        assert table.rows == ROWS and max(map(len, parts)) <= chunk
        assert np.array_equal(np.concatenate(parts), q)
    some = opened(tmp_path / "in.zarr", panda, groups=range(3, 5))
    assert some.rows == 200 and np.array_equal(np.concatenate([c["q"] for c in some.chunks()]), q[300:500])


def test_second_version_of_zarr_is_read(tmp_path, panda, positions):
    zarr.create_group(str(tmp_path / "in.zarr"), zarr_format=2).create_array("q", data=positions)
    (part,) = opened(tmp_path / "in.zarr", panda).chunks()
    assert np.array_equal(part["q"], positions)


def replace_text(path, old, new):
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def link(path, target):
    path.unlink()
    path.symlink_to(target)


WRONG_GROUPS = {
    "no group": (lambda q: (q.parent / "zarr.json").unlink(), "in.zarr is not a Zarr group: "),
    "no array": (lambda q: (q / "zarr.json").unlink(), "in.zarr has an array q that cannot be read: "),
    "subgroup": (lambda q: (q / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}'),
                 "q is not an array"),
    "absent": (lambda q: q.rename(q.with_name("p")), "in.zarr has no q; there are p"),
    "truth": (lambda q: zarr.create_array(str(q), data=np.ones((3, 7), bool), overwrite=True),
              "q must be numeric, not bool"),
    "width": (lambda q: replace_text(q / "zarr.json", "7\n", "6\n"), r"q must have shape \(3, 7\)"),
    "codec": (lambda q: replace_text(q / "zarr.json", "zstd", "nothing"), "array q that .*nothing"),
    "long": (lambda q: (q / "zarr.json").write_text(" " * 1_000_001), "q/zarr.json has more than 1000000"),
    "nested": (lambda q: (q / "zarr.json").write_text("[" * 100_000), "has an array q that cannot be read: "),
    "chunk": (lambda q: replace_text(q / "zarr.json", "100,", "100000000,"), "a chunk of q take 5600000000 b"),
    "broken": (lambda q: (q / "c" / "0" / "0").write_bytes(b"nonsense"), "has an array q that cannot be read: "),
    "link": (lambda q: link(q / "c" / "0" / "0", "/dev/zero"), "q/c/0/0 is no regular file: .* no links"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_GROUPS)
def test_invalid_zarr_groups_are_rejected(tmp_path, panda, name):
    change, words = WRONG_GROUPS[name]
    save_zarr(tmp_path / "in.zarr", {"q": np.ones((3, 7))})
    change(tmp_path / "in.zarr" / "q")
    with pytest.raises(TableError, match=words):
        list(opened(tmp_path / "in.zarr", panda).chunks())


@pytest.mark.parametrize(
    ("codec", "words"),
    [("Pickle", "'pickle'"), ("Base64", "^[^:]*in.zarr: q has the codec 'base64'; choose from blosc, ")],
)
def test_other_codecs_of_a_zarr_group_are_rejected(tmp_path, panda, codec, words):
    codec = getattr(numcodecs, codec)()
    group = zarr.create_group(str(tmp_path / "in.zarr"), zarr_format=2)
    group.create_array("q", shape=(3, 7), dtype="f8", compressors=codec)
    with pytest.raises(TableError, match=words):
        opened(tmp_path / "in.zarr", panda)


def test_removed_group_is_not_made_again(tmp_path, panda):
    """By a task that writes when another one has failed."""
    with contextlib.suppress(TableError), table_writer(tmp_path / "out.zarr", panda, "tau", False) as write:
        (unfinished,) = tmp_path.iterdir()
        shutil.rmtree(unfinished)
        write(np.zeros((20_000, 7)), None)
        pytest.fail("it is written")
    assert not list(tmp_path.iterdir())


def test_results_have_whole_chunks(tmp_path, panda, monkeypatch):
    """Whatever the pieces in which they are written."""
    monkeypatch.setattr("dynamics_node.io.zarr_tables.ROWS", 100)
    tau, time = np.arange(7.0 * ROWS).reshape(ROWS, 7), np.arange(float(ROWS))
    with table_writer(tmp_path / "out.zarr", panda, "tau", True) as write:
        for part in np.split(np.arange(ROWS), [1, 1, 150, 470, 999]):
            write(tau[part], time[part])
        assert not (tmp_path / "out.zarr").exists()
    group = zarr.open_group(str(tmp_path / "out.zarr"), mode="r")
    assert group["tau"].chunks == (100, 7) and np.array_equal(group["tau"][:], tau)
    assert group["time"].chunks == (100,) and np.array_equal(group["time"][:], time)
    with (
        pytest.raises(TableError, match="out.zarr exists: remove it"),
        table_writer(tmp_path / "out.zarr", panda, "tau", True),
    ):
        pass
