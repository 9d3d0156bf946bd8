"""A Function in PyTorch: compiled C or a CUDA kernel behind an autograd.Function, with exact derivatives."""

import ctypes
from functools import cache, cached_property, partial
from itertools import count
from math import prod

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.functions.bridges.compiled_entry import CompiledEntry
from dynamics_node.optional import required

_numbers = count()
_evaluations: dict[str, "_Evaluation"] = {}  # of this process, by the number that the operator gets


class TorchFunction:
    """A Function in PyTorch: see Function.torch."""

    def __init__(self, function, order: int):
        self._torch = required("torch", "function.torch()")
        self._function, self._order = function, order
        compiled = CompiledEntry.of(function, order)
        self._compiled, self._entry = compiled, compiled.entry
        self._names, self._call = compiled.names, _call(self._torch, compiled)
        self._result = partial(tuple.__new__, getattr(function, "result", None) or tuple)

    @property
    def number(self) -> str:
        """The argument by which the operator of torch.compile gets the function, in this process."""
        return self._call.number

    def __reduce__(self):
        return TorchFunction, (self._function, self._order)

    def __repr__(self):
        return f"TorchFunction {self._entry.title!r}, reads {', '.join(self._names)}"

    def __call__(self, *arrays, **named):
        """The results, as of the Function: arguments (..., *shape) by position or by name."""
        placed = self._arrays(arrays, named)
        shapes = [a.shape for a in self._entry.inputs]
        batches = [array.shape[: array.ndim - len(s)] for array, s in zip(placed, shapes, strict=True)]
        for name, array, batch, shape in zip(self._names, placed, batches, shapes, strict=True):
            if array.shape != batch + shape:
                problem = f"the shape {tuple(array.shape)}, not (..., {', '.join(map(str, shape))})"
                raise InputError(f"{name} has {problem}")
        if any(other != batches[0] for other in batches):
            batch = self._torch.broadcast_shapes(*batches)
            placed = [a.expand(*batch, *shape) for a, shape in zip(placed, shapes, strict=True)]
        results = self._call(*placed)
        return results[0] if len(results) == 1 else self._result(results)

    def _arrays(self, arrays, named) -> list:
        """All arguments in order, of one type: float32 or float64."""
        torch = self._torch
        placed = [torch.as_tensor(array) for array in self._compiled.in_order(arrays, named)]
        if not all(array.is_cpu for array in placed):
            self._require_one_device(placed)
        kinds = {array.dtype for array in placed}
        if len(kinds) == 1 and kinds <= {torch.float64, torch.float32}:
            return placed
        if any(kind.is_complex for kind in kinds):
            name = next(name for name, tensor in zip(self._names, placed, strict=True) if tensor.is_complex())
            raise InputError(f"{name} is complex")
        floats = [kind for kind in kinds if kind.is_floating_point] or [torch.get_default_dtype()]
        kind = torch.float64 if torch.float64 in floats else torch.float32
        return [array.to(kind) for array in placed]

    def _require_one_device(self, placed):
        first = placed[0].device
        for name, array in zip(self._names, placed, strict=True):
            place = f"{name} is on {array.device}"
            if array.device.type not in ("cpu", "cuda"):
                raise InputError(f"{place}: move it to the CPU, or to an NVIDIA GPU")
            if array.is_cuda and not self._compiled.takes_cuda:
                raise InputError(f"{place}: build the function with backend='cuda', or move it to the CPU")
            if array.device != first:
                raise InputError(f"{place}, and {self._names[0]} on {first}: move all to one device")


class _Evaluation:
    """The numbers of a CompiledEntry, and products with its derivatives."""

    def __init__(self, torch, compiled):
        self._torch, self._compiled = torch, compiled
        self.inputs, self.outputs = compiled.entry.inputs, compiled.entry.outputs
        self._pointers = ctypes.c_void_p * len(self.inputs), ctypes.c_void_p * len(self.outputs)
        types = {torch.float64: np.float64, torch.float32: np.float32}
        self._states = cache(lambda dtype: _states(compiled, types[dtype]))  # compiled on first use

    def empty(self, first):
        """Tensors for the results, for a first argument."""
        batch = first.shape[: first.ndim - len(self.inputs[0].shape)]
        return [first.new_empty((*batch, *a.shape)) for a in self.outputs]

    def __call__(self, arrays):
        """Results for arguments (*batch, *shape) of one type. Other threads of Python run meanwhile."""
        arrays = [array.detach().contiguous() for array in arrays]
        results = self.empty(arrays[0])
        if arrays[0].is_cuda:
            stream = self._torch.cuda.current_stream(arrays[0].device)
            self._compiled.launch(stream.cuda_stream, arrays, results)
            return results
        count = prod(arrays[0].shape[: arrays[0].ndim - len(self.inputs[0].shape)])
        read, written = self._pointers
        self._states(arrays[0].dtype)(
            count, read(*(a.data_ptr() for a in arrays)), written(*(a.data_ptr() for a in results))
        )
        return results

    @cached_property
    def _derivative(self):
        """The call of the derivatives, and (number of the result, of the argument, of the derivative)."""
        derived, called = self._compiled.derivative()
        named = [(o.name, i.name) for o in self.outputs for i in self.inputs]
        places = {pair: divmod(k, len(self.inputs)) for k, pair in enumerate(named)}
        triples = [(*places[pair], k) for k, pair in enumerate(called)]
        return (_call(self._torch, derived) if called else None), triples

    def products(self, arrays, vectors, transposed):
        """Derivatives times tangents of arguments, or times those of results from the left; None where there
        is no vector."""
        differentiated, triples = self._derivative
        blocks = differentiated(*arrays) if differentiated else ()
        sums = [None] * len(self.inputs if transposed else self.outputs)
        for o, i, k in triples:
            given, to = (o, i) if transposed else (i, o)
            if vectors[given] is not None:
                axes = len(self.outputs[o].shape), len(self.inputs[i].shape)
                term = _times(blocks[k], vectors[given], *axes, transposed)
                sums[to] = term if sums[to] is None else sums[to] + term
        return sums


def _states(compiled, dtype):
    states = compiled.library(dtype).states
    states.argtypes, states.restype = (ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p), None
    return states


@cache
def operator():
    """The operator that torch.compile sees in place of the autograd.Function, which calls C."""
    torch = required("torch", "function.torch()")

    schema = "(str number, Tensor[] arrays) -> Tensor[]"

    def states(number, arrays):
        return _evaluations[number](arrays)

    made = torch.library.custom_op("dynamics_node::states", states, mutates_args=(), schema=schema)
    made.register_fake(lambda number, arrays: _evaluations[number].empty(arrays[0]))

    def setup_context(ctx, inputs, output):
        ctx.number, arrays = inputs
        ctx.save_for_backward(*arrays)

    def backward(ctx, vectors):
        return None, _evaluations[ctx.number].products(ctx.saved_tensors, vectors, transposed=True)

    made.register_autograd(backward, setup_context=setup_context)
    return made


def _call(torch, compiled):
    """f(*arrays) -> a tuple; all arrays (*batch, *shape), of one type."""
    evaluation, number = _Evaluation(torch, compiled), str(next(_numbers))
    _evaluations[number], traced = evaluation, operator()

    class Call(torch.autograd.Function):  # type: ignore[name-defined] # torch is an argument
        @staticmethod
        def forward(*arrays):
            return tuple(evaluation(arrays))

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, *vectors):
            return tuple(evaluation.products(ctx.saved_tensors, vectors, transposed=True))

        @staticmethod
        def jvp(ctx, *vectors):
            arrays = ctx.saved_tensors
            sums = evaluation.products(arrays, vectors, transposed=False)
            like = evaluation.empty(arrays[0])
            return tuple(
                torch.zeros_like(x) if total is None else total for total, x in zip(sums, like, strict=True)
            )

        @staticmethod
        def vmap(info, in_dims, *arrays):
            moved = [
                a.expand(info.batch_size, *a.shape) if dim is None else a.movedim(dim, 0)
                for a, dim in zip(arrays, in_dims, strict=True)
            ]
            return Call.apply(*moved), (0,) * len(evaluation.outputs)

    plain = (torch.Tensor, torch.nn.Parameter)  # what traces a call has other types, without numbers

    def call(*arrays):
        if torch.compiler.is_compiling() or any(type(array) not in plain for array in arrays):
            return tuple(traced(number, list(arrays)))
        if _needs_autograd(torch, arrays):
            return Call.apply(*arrays)
        return tuple(evaluation(arrays))

    call.number = number  # type: ignore[attr-defined]
    return call


def _needs_autograd(torch, arrays):
    """Whether derivatives may be wanted, or torch.func transforms the call. An autograd.Function takes
    20 us."""
    differentiated = torch.is_grad_enabled() and any(array.requires_grad for array in arrays)
    along = torch.autograd.forward_ad._current_level >= 0
    return differentiated or along or torch._C._are_functorch_transforms_active()


def _times(block, vector, rows, columns, transposed):
    """Derivatives (*batch, *rows, *columns) times (*batch, *columns), or (*batch, *rows) times them."""
    if transposed:
        vector = vector.reshape(*vector.shape, *[1] * columns)
        return (block * vector).sum(tuple(range(-rows - columns, -columns))) if rows else block * vector
    batch = vector.ndim - columns
    vector = vector.reshape(*vector.shape[:batch], *[1] * rows, *vector.shape[batch:])
    return (block * vector).sum(tuple(range(-columns, 0)))
