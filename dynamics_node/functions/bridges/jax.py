"""A Function in JAX: compiled C as a custom call of XLA, or a CUDA kernel, with exact derivatives."""

from functools import cached_property, partial
from threading import Lock

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.functions.bridges.compiled_entry import CompiledEntry, text_of
from dynamics_node.optional import required

_registered: set[str] = set()
_lock = Lock()


class JaxFunction:
    """A Function in JAX: see Function.jax. Its calls are compiled by jax.jit."""

    def __init__(self, function, order: int):
        self._jax = required("jax", "function.jax()")
        self._function, self._order = function, order
        compiled = CompiledEntry.of(function, order)
        self._entry, self._call = compiled.entry, _custom_call(self._jax, compiled)
        self._in_order, self._names = compiled.in_order, compiled.names
        result = getattr(function, "result", None)
        self._result = partial(tuple.__new__, result or tuple)
        self._compiled = self._jax.jit(self._traced)

    def __reduce__(self):
        return JaxFunction, (self._function, self._order)

    def __repr__(self):
        return f"JaxFunction {self._entry.title!r}, reads {', '.join(self._names)}"

    def __call__(self, *arrays, **named):
        """The results, as of the Function: arguments (..., *shape) by position or by name."""
        return self._compiled(*arrays, **named)

    def _traced(self, *arrays, **named):
        arrays = self._arrays(arrays, named)
        shapes = [a.shape for a in self._entry.inputs]
        pairs = list(zip(arrays, shapes, strict=True))
        for name, (array, shape) in zip(self._names, pairs, strict=True):
            if array.shape[array.ndim - len(shape) :] != shape:
                raise InputError(
                    f"{name} has the shape {array.shape}, not (..., {', '.join(map(str, shape))})"
                )
        batch = np.broadcast_shapes(*(array.shape[: array.ndim - len(shape)] for array, shape in pairs))
        results = self._call(*(self._jax.numpy.broadcast_to(a, (*batch, *shape)) for a, shape in pairs))
        return results[0] if len(results) == 1 else self._result(results)

    def _arrays(self, arrays, named):
        """All arguments in order, of one type: float32 or float64."""
        jnp = self._jax.numpy
        placed = [jnp.asarray(array) for array in self._in_order(arrays, named)]
        for name, array in zip(self._names, placed, strict=True):
            if jnp.issubdtype(array.dtype, jnp.complexfloating):
                raise InputError(f"{name} is complex")
        floats = [array.dtype for array in placed if jnp.issubdtype(array.dtype, jnp.floating)]
        dtype = jnp.result_type(np.float32, *floats) if floats else jnp.result_type(float)
        return [array.astype(dtype) for array in placed]


class _Target:
    """The name of the custom call of a CompiledEntry and a type, which XLA has once for all of a process."""

    def __init__(self, jax, compiled):
        self._jax, self._compiled = jax, compiled

    def name(self, dtype):
        """Compiled and registered when it is traced for the first time."""
        folder = self._jax.ffi.include_dir()
        version = f"jax {self._jax.__version__}"
        library = self._compiled.library(dtype, text_of("handler.c"), (f"-I{folder}",), version)
        name = f"dynamics_node_{self._compiled.digest(dtype)}"
        with _lock:
            if name not in _registered:
                for platform, handler in (("cpu", library.handler), ("CUDA", library.on_a_gpu)):
                    capsule = self._jax.ffi.pycapsule(handler)
                    self._jax.ffi.register_ffi_target(name, capsule, platform=platform)
                _registered.add(name)
        return name


class _Differentiated:
    """The custom call of the derivatives of a CompiledEntry, made when one is traced for the first time."""

    def __init__(self, jax, compiled):
        self._jax, self._compiled = jax, compiled

    @cached_property
    def made(self):
        """The call, and {(result, argument): number of its result}."""
        compiled, called = self._compiled.derivative()
        numbers = {pair: k for k, pair in enumerate(called)}
        return (_custom_call(self._jax, compiled) if called else None), numbers


def _custom_call(jax, compiled):
    """f(*arrays) -> a tuple; all arrays (*batch, *shape), of one type.

    The Jacobian times tangents is plain JAX, so that JAX can turn it around for reverse mode.
    """
    entry, target, derivative = compiled.entry, _Target(jax, compiled), _Differentiated(jax, compiled)
    axes = len(entry.inputs[0].shape)

    @jax.custom_jvp
    def call(*arrays):
        batch, dtype = arrays[0].shape[: arrays[0].ndim - axes], arrays[0].dtype
        results = [jax.ShapeDtypeStruct((*batch, *a.shape), dtype) for a in entry.outputs]
        run = jax.ffi.ffi_call(target.name(dtype), results, vmap_method="broadcast_all")
        if not compiled.takes_cuda:
            return tuple(run(*arrays))
        return tuple(jax.lax.platform_dependent(*arrays, cuda=_launching(compiled, results), default=run))

    @partial(call.defjvp, symbolic_zeros=True)
    def tangents_of(primals, tangents):
        results = call(*primals)
        differentiated, numbers = derivative.made
        blocks = differentiated(*primals) if differentiated else ()
        zero = jax.custom_derivatives.SymbolicZero
        given = {a.name: t for a, t in zip(entry.inputs, tangents, strict=True) if not isinstance(t, zero)}
        sums = [jax.numpy.zeros_like(result) for result in results]
        for k, o in enumerate(entry.outputs):
            for i in entry.inputs:
                if i.name in given and (o.name, i.name) in numbers:
                    block = blocks[numbers[o.name, i.name]]
                    sums[k] = sums[k] + _times(jax, block, given[i.name], len(o.shape), len(i.shape))
        return results, tuple(sums)

    return call


def _launching(compiled, results):
    """A function of arrays on a CUDA device, called by Python for each launch, with XLA's stream."""
    from jax.experimental.buffer_callback import buffer_callback

    def launch(context, places, *arrays):
        compiled.launch(context.stream, arrays, places)

    return buffer_callback(launch, results, vmap_method="broadcast_all")


def _times(jax, block, tangent, rows, columns):
    """Derivatives (*batch, *rows, *columns) times (*batch, *columns). A sum of products is faster than
    XLA's matrix product of this size."""
    batch = tangent.ndim - columns
    tangent = tangent.reshape((*tangent.shape[:batch], *[1] * rows, *tangent.shape[batch:]))
    return jax.numpy.sum(block * tangent, axis=tuple(range(-columns, 0)))
