"""The first day with a device, rehearsed: the bundle is written, runs on the fake driver, and what it
leaves is taken."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support import fake_cuda
from with_nvrtc import nvrtc, without

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))

pytest.importorskip("pinocchio", reason="robots: pip install example-robot-data pin")
NVRTC = nvrtc()
if fake_cuda.headers() is None:
    without("no cuda.h: pip install nvidia-cuda-runtime")

import gpu_bundle
import gpu_saved
from gpu_kernels import Case, Way

FORWARD = Case("panda", "forward", "float")
KERNELS = (
    (FORWARD, Way(), {}),
    (FORWARD, Way(), {"exact_reciprocal": True}),
    (Case("panda", "inverse", "double", "rows"), Way(), {}),
)
MODULES = ("run", "bits", "ceilings", "chains", "kernels", "record", "timing", "tools")
LINKS = 3


class Fake(fake_cuda.Fake):
    """The kernel of chains is no C: what NVRTC makes of it is run by NumPy, once for every number of chains."""

    def __init__(self):
        super().__init__()
        self.ran = set()

    def _launch(self, image, size, name, blocks, threads, parameters):
        text, types = self._described(image, size, name)
        if "int corrections" not in text:
            return super()._launch(image, size, name, blocks, threads, parameters)
        values = [kind.from_address(parameters[k]) for k, kind in enumerate(types)]
        try:
            if blocks not in self.ran:
                self.ran.add(blocks)
                self._interpret(NVRTC.ptx(text, 90).encode(), name.decode(), blocks, threads, values)
        except Exception as error:
            self.faults.append(repr(error))
            return fake_cuda.LOST
        return 0


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of a small bundle with images that the fake knows, and {image: text}."""
    texts = {}

    def image(text, arch):
        found = fake_cuda.cubin_of(text, "states copy chains")
        texts[found] = text
        return found

    folder = tmp_path_factory.mktemp("there") / "gpu"
    bundle = gpu_bundle.Bundle(image)
    bundle.add_ceilings(rounds=2)
    bundle.add_chains([LINKS])
    for case, way, more in KERNELS:
        bundle.add(case, way, more)
    bundle.write(folder)
    return folder, texts


@pytest.fixture
def there(written, monkeypatch):
    """(folder, Fake, run.py's module, its options) where the bundle is."""
    folder, texts = written
    (folder / "gpu.json").unlink(missing_ok=True)
    fake = Fake()
    fake.texts |= texts
    monkeypatch.syspath_prepend(str(folder))
    run = importlib.import_module("run")
    no_tools = SimpleNamespace(which=lambda name: None)  # wherever this is
    monkeypatch.setattr(run.tools, "shutil", no_tools)
    yield folder, fake, run, ["--driver", str(fake.path), "--most", "10000", "--groups", "0"]
    for name in MODULES:
        sys.modules.pop(name, None)


def test_the_whole_day(there):
    folder, fake, run, options = there
    assert run.main([*options, "--groups", "1"], folder) == 0, fake.faults
    found = json.loads((folder / "gpu.json").read_text())
    assert (
        found["complete"]
        and found["device"]["name"] == "fake device 0"
        and found["device"]["capability"] == 90
    )
    assert [row["ceiling"] for row in found["ceilings"]] == [
        "copy",
        "multiply-adds float",
        "multiply-adds double",
    ]
    assert [row["ok"] for row in found["bits"]] == [True] * 3
    assert [row["judged_by"] for row in found["bits"]] == ["error", "bits", "error"]
    assert all(row["differ"] == 0 for row in found["bits"]), "the fake divides exactly"
    assert {row["count"] for row in found["times"]} == {1000, 10_000}
    for row in found["times"]:
        assert row["states_per_second"] == pytest.approx(row["count"] / 0.5e-3), "half a millisecond a launch"
    assert all(row["ok"] is None and "absent" in row["told"] for row in found["sanitizer"] + found["ncu"])
    assert [(row["links"], row["groups"]) for row in found["chains"]] == [(LINKS, 1)]
    assert all(row["ok"] and row["ms"] == 0.5 for row in found["chains"]), "as ABA"
    assert fake.held == {} or set(fake.held) <= {"module", "context"}, "memory is given back"
    measured = gpu_saved.taken(folder)
    assert measured.device == "fake device 0"
    text = next(path.read_text() for path in (folder / "texts").glob(f"{found['times'][0]['digest']}.cu"))
    assert measured.rate(text, "fake device") == pytest.approx(10_000 / 0.5e-3)
    assert measured.rate(text, "H100") is None and measured.rate("another text", "fake device") is None


def test_wrong_bits_are_found_and_not_kept(there, monkeypatch):
    folder, fake, run, options = there
    exact = next(kernel for kernel in run.Bundle(folder).kernels if kernel.entry["exact"])
    text = (folder / "texts" / f"{exact.entry['digest']}.cu").read_text()
    image = next(image for image, of in fake.texts.items() if of == text)
    fake.texts[image] = text.replace("#define FMA __builtin_fmaf", "#define FMA(a, b, c) ((a) * (b) + (c))")
    assert fake.texts[image] != text
    assert run.main(options, folder) == 1
    rows = json.loads((folder / "gpu.json").read_text())["bits"]
    assert [row["kernel"] for row in rows if not row["ok"]] == [exact.name]
    with pytest.raises(SystemExit, match="wrong results"):
        gpu_saved.taken(folder)


def test_what_a_loss_of_the_device_leaves_is_what_was_done(there):
    folder, fake, run, options = there
    assert run.main(options, folder) == 0
    whole = json.loads((folder / "gpu.json").read_text())
    fake.fail(fake.calls * 4 // 5, fake_cuda.LOST, lasts=True)
    assert run.main(options, folder) == 2
    fake.fail(-1)
    found = json.loads((folder / "gpu.json").read_text())
    assert not found["complete"]
    assert all(found[part] == whole[part] for part in ("device", "ceilings", "bits"))
    assert 0 < len(found["times"]) < len(whole["times"])
    assert gpu_saved.taken(folder).device == "fake device 0"


def test_without_time_nothing_is_measured(there):
    folder, fake, run, options = there
    assert run.main([*options, "--minutes", "0"], folder) == 0
    left = json.loads((folder / "gpu.json").read_text())["left_out"]
    assert {row["reason"] for row in left} == {"no time left"} and len(left) == 2 * len(KERNELS)
    with pytest.raises(SystemExit, match="without times"):
        gpu_saved.taken(folder)


def test_another_bundle_and_none_are_refused(there, tmp_path):
    folder, fake, run, options = there
    with pytest.raises(SystemExit, match=r"run\.py on a machine with a GPU"):
        gpu_saved.taken(folder)
    (folder / "gpu.json").write_text(json.dumps({"bundle": "other"}))
    with pytest.raises(SystemExit, match="of another bundle"):
        gpu_saved.taken(folder)
    with pytest.raises(SystemExit, match="dev gpu bundle"):
        gpu_saved.taken(tmp_path)


def test_it_needs_numpy_and_a_driver_alone(written, tmp_path):
    """Away from here, with nothing of this package on the path: without a driver it says so."""
    folder, _ = written
    numpy = str(Path(np.__file__).parents[1])
    command = f"import sys; sys.path[:0] = [{str(folder)!r}]; import run, dynamics_node; print(dynamics_node.__file__, *sorted(m.partition('.')[0] for m in sys.modules))"
    environment = {"PYTHONPATH": numpy, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.stdout.startswith(str(folder)), done.stderr
    assert set(done.stdout.split()).isdisjoint({"scipy", "pinocchio", "rclpy", "cupy"})
    alone = subprocess.run(
        [sys.executable, str(folder / "run.py"), "--driver", str(tmp_path / "libcuda.so.1")],
        capture_output=True, text=True, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert alone.returncode == 2 and "no NVIDIA driver" in alone.stderr
