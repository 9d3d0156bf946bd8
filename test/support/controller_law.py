"""FeedforwardLaw of dynamics_controllers in this process, compiled with the host's C++ compiler."""

import ctypes
import shutil
import subprocess
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dynamics_controllers"
HERE = PACKAGE / "test"
PLAIN = (
    "exported_function.cpp",
    "feedforward_law.cpp",
    "loop_closure.cpp",
    "robot_function.cpp",
)  # sources without ROS
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
NAN = float("nan")


class Law(IntEnum):
    """As in feedforward_law.hpp."""

    EFFORT = 0
    FEEDFORWARD = 1
    COMPUTED_TORQUE = 2


class Status(IntEnum):
    OK = 0
    HOLDING = 1
    FAILED = 2


def compiled(folder, name, *sources, flags=()):
    """A program or library of C or C++ sources, and objects, in the folder; skips the test without a compiler."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler: sudo apt install g++")
    out, objects = folder / name, []
    for source in sources:
        if source.suffix == ".o":
            objects.append(source)
            continue
        objects.append(folder / f"{name}.{source.stem}.o")
        dialect = ("-x", "c", "-std=c99") if source.suffix == ".c" else ("-std=c++17",)
        include = f"-I{PACKAGE / 'include'}"
        _run(compiler, *dialect, "-O0", "-fPIC", *WARNINGS, *flags, include, "-c", source, "-o", objects[-1])
    kind = ["-shared"] if out.suffix == ".so" else []
    _run(compiler, *kind, *objects, "-o", out, "-ldl", "-lm", "-pthread")
    return out


def _run(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class LawLibrary:
    """The law, compiled once for all workers."""

    def __init__(self, once):
        sources = [*(PACKAGE / "src" / name for name in PLAIN), HERE / "law_in_python.cpp"]
        folder = once("control_law", lambda folder: compiled(folder, "law.so", *sources))
        self.objects = [folder / f"law.so.{source.stem}.o" for source in sources[:-1]]
        self.c = ctypes.CDLL(str(folder / "law.so"))
        for name in ("failure", "joint", "urdf_hash", "joints_fault", "description_fault", "exported"):
            getattr(self.c, name).restype = ctypes.c_char_p
        self.c.create.restype = ctypes.c_void_p
        for name in ("limited_torques", "limited_joint", "invalid_states", "invalid_joint"):
            getattr(self.c, name).restype = ctypes.c_ulong

    def law(self, library, law, n, *, gravity=True, friction=False, hold_time=0.05, **joints):
        """A FeedforwardLaw of an exported library with n joints; joints: fields of JointSettings, numbers or
        arrays (n,). Raises ValueError with the message of the law."""
        fields = dict(p=0, d=0, armature=0, viscous=0, coulomb=0, effort_limit=np.inf, continuous=0) | joints
        rows = np.stack([np.broadcast_to(np.asarray(v, float), n) for v in fields.values()], axis=1).copy()
        pointer = self.c.create(
            str(library).encode(), int(law), int(gravity), int(friction), ctypes.c_double(hold_time),
            rows.ctypes.data_as(ctypes.c_void_p), n,
        )  # fmt: skip
        if not pointer:
            raise ValueError(self.c.failure().decode())
        return FeedforwardLaw(self.c, pointer, n)

    def exported(self, command, description, joints, seconds=60.0):
        """Joints of the function that the command exports. Raises ValueError with the message."""
        words = [str(word).encode() for word in (command, description, joints)]
        names = self.c.exported(*words, int(1000 * seconds))
        if names is None:
            raise ValueError(self.c.failure().decode())
        return names.decode().split(",")


class FeedforwardLaw:
    """update(q, qd, ...): status and torques (n,); arrays that are left out are NaN."""

    def __init__(self, c, pointer, n):
        self._c, self._law, self._n = c, ctypes.c_void_p(pointer), n
        self._arrays = [np.full(n, NAN) for _ in range(7)]
        self._pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in self._arrays]

    def __del__(self):
        self._c.destroy(self._law)

    def update(self, q, qd, effort=NAN, position=NAN, velocity=NAN, acceleration=NAN, period=0.002):
        for array, value in zip(
            self._arrays, (q, qd, effort, position, velocity, acceleration, NAN), strict=True
        ):
            array[:] = value
        *read, written = self._pointers
        status = self._c.update(self._law, *read, ctypes.c_double(period), written)
        return Status(status), self._arrays[-1].copy()

    def attach(
        self, body, mass, center, moments, rotation=((1, 0, 0), (0, 1, 0), (0, 0, 1)), position=(0, 0, 0)
    ):
        """Add a payload, in a frame with this pose on the body, to the nominal inertia from the next update on."""
        upper = np.asarray(moments, float)[np.triu_indices(3)]
        numbers = np.concatenate([np.ravel(v) for v in ([mass], center, upper, rotation, position)])
        if self._c.attach(self._law, body, numbers.ctypes.data_as(ctypes.c_void_p)):
            raise ValueError(self._c.failure().decode())

    def fault(self, joints=None, urdf_hash=None):
        """The message for a robot with other joints or another description, or None."""
        if joints is not None:
            text = self._c.joints_fault(self._law, ",".join(joints).encode())
        else:
            text = self._c.description_fault(self._law, urdf_hash.encode())
        return text and text.decode()

    def set_gains(self, p, d):
        """Gains of all joints from the next update on. Raises ValueError with the message."""
        gains = np.stack([np.broadcast_to(np.asarray(v, float), self._n) for v in (p, d)], axis=1).copy()
        if self._c.set_gains(self._law, gains.ctypes.data_as(ctypes.c_void_p), 2 * self._n):
            raise ValueError(self._c.failure().decode())

    def reset(self):
        self._c.reset(self._law)

    @property
    def joints(self):
        return [self._c.joint(self._law, k).decode() for k in range(self._n)]

    @property
    def urdf_hash(self):
        return self._c.urdf_hash(self._law).decode()

    @property
    def limited_torques(self):
        return self._c.limited_torques(self._law)

    @property
    def limited_joint(self):
        return self._c.limited_joint(self._law)

    @property
    def invalid_joint(self):
        return self._c.invalid_joint(self._law)

    @property
    def invalid_states(self):
        return self._c.invalid_states(self._law)
