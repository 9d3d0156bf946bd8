"""NVIDIA's own tools where they are installed, each around a short run of this bundle; and the card's
clocks."""

import shutil
import subprocess
import sys
from pathlib import Path

_RUN = Path(__file__).with_name("run.py")
_METRICS = (
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio",
    "lts__t_bytes.sum",
    "dram__bytes.sum",
)
_CLOCKS = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.max.sm",
    "clocks.mem",
    "power.draw",
    "temperature.gpu",
)


def sanitized(check, seconds):
    """A row of compute-sanitizer's memcheck, racecheck, initcheck or synccheck over all kernels, some
    states of each."""
    found = _answer(["compute-sanitizer", "--tool", check, "--error-exitcode", "7"], ["--bits-only"], seconds)
    return {"tool": check, **found}


def profiled(kernel, seconds):
    """A row of ncu: how busy the schedulers are, waits for instructions, bytes from L2 and from memory."""
    found = _answer(
        ["ncu", "--metrics", ",".join(_METRICS), "--csv", "--launch-count", "1"], ["--once", kernel], seconds
    )
    return {"kernel": kernel, **found}


def _answer(tool, arguments, seconds):
    """ok: None where the tool is absent."""
    if not shutil.which(tool[0]):
        return {"ok": None, "told": f"{tool[0]} is absent"}
    command = [*tool, sys.executable, str(_RUN), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"ok": None, "told": f"not done in {seconds} s"}
    return {"ok": done.returncode == 0, "told": (done.stdout + done.stderr)[-2000:]}


def clocks():
    """What nvidia-smi says of the first device; None where it is absent."""
    if not shutil.which("nvidia-smi"):
        return None
    query = ["nvidia-smi", f"--query-gpu={','.join(_CLOCKS)}", "--format=csv,noheader,nounits", "--id=0"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=60)
    if done.returncode:
        return None
    return dict(zip(_CLOCKS, (word.strip() for word in done.stdout.split(",")), strict=False))
