"""DLPack, the exchange of arrays by PyCapsules, through ctypes:
https://dmlc.github.io/dlpack/latest/c_api.html"""

import ctypes
import itertools
from typing import Any, NamedTuple

import numpy as np

CUDA, CUDA_MANAGED = 2, 13  # kinds of devices
_FLOAT = 2  # kind of numbers
_NAME = b"dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("axes", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))

_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _DESTRUCTOR)(
    ("PyCapsule_New", _api)
)
# A capsule that is being destroyed must not be referred to: its address is passed.
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)


class Tensor(NamedTuple):
    """What a capsule says; strides: in bytes, None where the array is C-contiguous; holds: the capsule, by
    whose life the memory lives."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: np.dtype | None
    holds: Any


def read(capsule) -> Tensor:
    """The tensor of a capsule, which stays ours: its owner frees the memory when the capsule is gone. dtype
    is None for what are not plain floats. Raises ValueError for no such capsule."""
    if not _valid(id(capsule), _NAME):
        raise ValueError("what __dlpack__ returned is no capsule of a tensor")
    tensor = _Managed.from_address(_pointer(id(capsule), _NAME)).tensor
    shape = tuple(tensor.shape[k] for k in range(tensor.axes))
    plain = tensor.code == _FLOAT and tensor.lanes == 1 and tensor.bits in (32, 64)
    size = tensor.bits // 8
    strides = tuple(tensor.strides[k] * size for k in range(tensor.axes)) if tensor.strides else None
    address = (tensor.data or 0) + tensor.offset
    return Tensor(address, shape, strides, np.dtype(f"f{size}") if plain else None, capsule)


class _Lent(NamedTuple):
    managed: _Managed
    parts: tuple  # shape and strides
    owner: object


_lent: dict[int, _Lent] = {}
_numbers = itertools.count(1)


def write(address: int, shape, strides, dtype: np.dtype, device: int, owner: object):
    """A capsule of memory on a CUDA device; strides: in bytes; owner: lives as long as somebody reads it."""
    axes = len(shape)
    parts = (ctypes.c_int64 * axes)(*shape), (ctypes.c_int64 * axes)(*(s // dtype.itemsize for s in strides))
    number = next(_numbers)
    tensor = _Tensor(address, CUDA, device, axes, _FLOAT, dtype.itemsize * 8, 1, *parts, 0)
    managed = _Managed(tensor, number, _given_back)
    _lent[number] = _Lent(managed, parts, owner)
    return _new(ctypes.addressof(managed), _NAME, _unused)


# Readers may outlive this module, at the end of the process: what is called then refers to no global name,
# and its entries for C stay.


@_DELETER
def _given_back(managed, lent=_lent):
    lent.pop(managed.contents.context, None)


@_DESTRUCTOR
def _unused(capsule, valid=_valid, pointer=_pointer, name=_NAME, kind=_Managed, reference=ctypes.pointer):
    """Whoever takes the tensor renames the capsule, and calls the deleter in the end."""
    if valid(capsule, name):
        managed = kind.from_address(pointer(capsule, name))
        managed.deleter(reference(managed))


for _entry in (_given_back, _unused):
    _api.Py_IncRef(ctypes.py_object(_entry))
