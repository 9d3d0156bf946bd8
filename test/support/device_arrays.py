"""An array module that behaves as CuPy's does where that differs from NumPy's: its arrays never meet NumPy's in an
operation, and it has only what is named here."""

import numpy as np

NAMES = {
    "asarray",
    "concatenate",
    "cos",
    "eye",
    "sin",
    "sqrt",
    "stack",
    "swapaxes",
    "where",
    "zeros",
    "zeros_like",
}


class DeviceArray(np.ndarray):
    """NumPy may index it, as CuPy allows; every other use of both together is a TypeError."""

    def get(self):
        """The array on the host."""
        return np.array(self.view(np.ndarray))

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        _refuse_host(inputs)
        own = [_plain(x) for x in inputs]
        into = {} if out is None else {"out": tuple(_plain(x) for x in out)}
        found = getattr(ufunc, method)(*own, **into, **options)
        return out[0] if out else _device(found)

    def __array_function__(self, function, types, args, kwargs):
        raise TypeError(f"numpy.{function.__name__} on an array of the device")

    def __setitem__(self, at, value):
        _refuse_host([value])
        super().__setitem__(at, value)


class _Linalg:
    @staticmethod
    def cholesky(A):
        _refuse_host([A])
        return _device(np.linalg.cholesky(_plain(A)))


class _Cuda:
    @staticmethod
    def is_available():
        return True


class DeviceModule:
    """To be used as `xp`, or as the module cupy."""

    linalg, cuda = _Linalg, _Cuda

    def __getattr__(self, name):
        if name not in NAMES:
            raise AttributeError(name)
        if name == "asarray":
            return lambda array, dtype=None: np.array(_plain(array), dtype=dtype).view(DeviceArray)
        return lambda *arguments, **options: _called(getattr(np, name), arguments, options)


def _called(function, arguments, options):
    flat = [x for a in arguments for x in (a if isinstance(a, (list, tuple)) else [a])]
    _refuse_host(flat)
    return _device(
        function(
            *[[_plain(x) for x in a] if isinstance(a, (list, tuple)) else _plain(a) for a in arguments],
            **options,
        )
    )


def _refuse_host(arrays):
    if any(type(a) is np.ndarray and a.ndim for a in arrays):
        raise TypeError("an array of NumPy where one of the device is needed")


def _plain(x):
    return x.view(np.ndarray) if isinstance(x, DeviceArray) else x


def _device(x):
    return x.view(DeviceArray) if isinstance(x, np.ndarray) else np.asarray(x).view(DeviceArray)
