"""Functions: named arrays over a Runner, the base of all compiled and numeric functions of the library."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.codegen import (
    ArrayError,
    Runner,
    WithFallback,
    finite_states,
    on_device,
)
from dynamics_node.codegen.export import Target
from dynamics_node.display import titled
from dynamics_node.errors import InputError, SolutionError
from dynamics_node.functions.arguments import Arguments, Signature
from dynamics_node.functions.checks import written_to
from dynamics_node.functions.exporting import export_functions
from dynamics_node.names import no_argument
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import LaneProgram, Program

if TYPE_CHECKING:
    import casadi

    from dynamics_node.functions.bridges.jax import JaxFunction
    from dynamics_node.functions.bridges.torch import TorchFunction

Result = TypeVar("Result")
Errors = Literal["raise", "nan"]
ERRORS = get_args(Errors)
QUICK = ("_one_state", "_new", "_at_once")  # builtin functions of this process


@dataclass(frozen=True, eq=False, kw_only=True)
class Function(Generic[Result]):
    """Named arrays in, named arrays out: the result of `build` and `compile`. Picklable.

    A call returns one array, or a tuple of several. Arguments are arrays (..., *shape) in SI units, by
    position or by name; leading axes are a batch and broadcast.

    Parameters
    ----------
    signature : Signature
        Names, shapes and entries of the arguments.
    runner : Runner
        The backend's executable Program.
    why : callable, optional
        The arrays (count, ...) of some states -> why one of them has no result, in words, or None.
    precision : str
        'float64', or 'float32' for arguments and results. Compiled code then computes many states in float32.
        Small numbers of states, and those that need more digits, are computed in float64.
    defaults : dict
        {name: array} of the last inputs, which are optional.
    result : type, optional
        The NamedTuple of several results, by default a tuple.

    Attributes
    ----------
    dtype : numpy.dtype
        Type of the results.

    Examples
    --------
    >>> mass_matrix = dn.build(robot, "mass_matrix", backend="numpy")
    >>> mass_matrix
    RobotFunction 'mass_matrix'
      robot      panda, nq 7, nv 7
      algorithm  mass_matrix
      reads      q (7,)
      returns    mass_matrix (7, 7)
      backend    numpy, float64
    >>> q = np.zeros((3, robot.nq))
    >>> q[1, 4] = np.nan
    >>> np.isnan(mass_matrix(q, errors="nan")).any(axis=(1, 2))
    array([False,  True, False])
    """

    signature: Signature
    runner: Runner
    why: Callable | None = None
    precision: str = "float64"
    defaults: dict[str, np.ndarray] = field(default_factory=dict)
    result: type[tuple] | None = None
    dtype: np.dtype = field(init=False, repr=False)
    _one_state: Callable = field(init=False, repr=False)
    _new: Callable = field(init=False, repr=False)
    _axes_of_many: int = field(init=False, repr=False)
    _names: tuple[str, ...] = field(init=False, repr=False)
    _rest: tuple = field(init=False, repr=False)
    _result: type[tuple] = field(init=False, repr=False)
    _single: bool = field(init=False, repr=False)
    _takes_arrays = True  # whether calls with arrays alone may reach compiled code before Python

    def __new__(cls, *arguments, runner=None, precision="float64", **named):
        """An instance of the class that compiled code derives from this one, where there is one."""
        derive = _derives(runner) if cls._takes_arrays and precision == "float64" else None
        return object.__new__(derive(cls) if derive else cls)

    def __post_init__(self):
        """Store `call_one` and `call_new` of the runner as attributes: Python looks these up fastest."""
        one, new = _declined, _nothing
        if self.precision == "float64":
            one, new = self.runner.call_one, self.runner.call_new
        first = next(iter(self.runner.inputs.values()), ())
        self._keep(_one_state=one, _new=new, _axes_of_many=1 + len(first), dtype=np.dtype(self.precision))
        self._keep(_names=tuple(self.runner.inputs), _rest=tuple(self.defaults.values()))
        self._keep(_result=self.result or tuple, _single=len(self.runner.outputs) == 1)
        if self._takes_arrays:
            self._call_at_once()

    def __repr__(self):
        return titled(f"{type(self).__name__} {self.signature.name!r}", **self._summary())

    def _summary(self):
        """Rows of the repr."""
        names = self.runner.outputs if self.result is None else self.result._fields  # type: ignore[attr-defined]
        returns = dict(zip(names, self.runner.outputs.values(), strict=True))
        shapes = {"reads": self.runner.inputs, "returns": returns}
        rows = {row: [f"{name} {shape}" for name, shape in named.items()] for row, named in shapes.items()}
        return {**rows, "backend": f"{self.runner.backend}, {self.precision}"}

    def _keep(self, **attributes):
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    def _call_at_once(self):
        """Let calls with nothing but arrays and `out` reach compiled code before Python."""
        reach = getattr(type(self), "_reach", None)
        if reach is None:
            return
        builtins = (self._one_state, self._new)
        if all(isinstance(function, BuiltinFunctionType) for function in builtins):
            names = tuple(map(sys.intern, self._names))  # the call compares addresses
            self._keep(_at_once=(*builtins, self._result, names, *self._rest))
        reach(self)

    def __call__(
        self,
        *arrays: ArrayLike | None,
        out: np.ndarray | tuple[np.ndarray, ...] | None = None,
        errors: Errors = "raise",
        **named: ArrayLike | None,
    ) -> Result:
        """Compute the results.

        Parameters
        ----------
        *arrays, **named : array_like (..., *shape)
            The inputs by position or by name, over one batch; None for the default.
        out : ndarray or tuple of ndarray, optional
            An array for every result. It is written during the computation: its content is undefined if the
            call raises.
        errors : str
            'raise', or 'nan': NaN for states without a result.

        Returns
        -------
        ndarray or tuple (..., *shape)
            `out` if it is given.

        Raises
        ------
        InputError
            For an invalid argument, naming argument and entry.
        SolutionError
            If there is no finite result.
        TypeError
            For a wrong number of arguments, or an unknown name.
        """
        require_errors(errors)
        if named:
            arrays = self._placed(arrays, named)
        elif 0 < (missing := len(self._names) - len(arrays)) <= len(self._rest):
            arrays += self._rest[-missing:]
        if out is None:
            results = self._new(self._result, *arrays)
            if results is not None:
                return results
            results = self._states(arrays, None, errors)
            new: Any = results[0] if self._single else tuple.__new__(self._result, results)
            return new
        places = out if isinstance(out, tuple) else (out,)
        if self._one_state(*arrays, *places) is not None:
            self._states(arrays, places, errors)
        written: Any = places[0] if self._single else places
        return written

    def _placed(self, arrays, named):
        """All arguments in the order of the inputs."""
        placed = list(arrays)
        for name in self._names[len(arrays) :]:
            value = named.pop(name, None)
            value = self.defaults.get(name) if value is None else value
            if value is not None:
                placed.append(value)
        for name in named:
            if name in self._names:
                raise TypeError(f"{self.signature.name} got {name} by position and by name")
            raise no_argument(self.signature.name, name, (*self._names, "out", "errors"))
        return tuple(placed)

    def _complete(self, arrays):
        """The arrays with defaults in place of None. Raises TypeError for a wrong number."""
        names = self._names
        if len(arrays) != len(names):
            required = ", ".join(names[: len(names) - len(self._rest)])
            takes = f"{required} and optionally {', '.join(self.defaults)}" if self._rest else required
            counted = "1 argument is" if len(arrays) == 1 else f"{len(arrays)} arguments are"
            raise TypeError(f"{self.signature.name} takes {takes}: {counted} given")
        pairs = zip(names, arrays, strict=True)
        return tuple(self.defaults.get(name) if array is None else array for name, array in pairs)

    def __reduce__(self):
        return _restored, (getattr(type(self), "_plain", type(self)), self.__getstate__())

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in QUICK}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def program(self) -> Program | LaneProgram | None:
        """The compiled Program; None for an algorithm at call time."""
        return self.runner.program

    def compile(self, batches: bool = False) -> None:
        """Compile in advance, so that the first call is as fast as the others.

        Parameters
        ----------
        batches : bool
            Whether to compile the code for many states as well.

        Returns
        -------
        None

        Raises
        ------
        CompileError
            If the compiler fails.
        """
        self.runner.prepare(batches)

    @explains_wrong_calls
    def export(
        self,
        folder: str | Path,
        target: Target = "c",
        *,
        name: str | None = None,
        precision: Literal["float64", "float32"] | None = None,
        derivatives: bool = False,
        second_derivatives: bool = False,
        libm: bool = True,
    ) -> list[Path]:
        """Write the function as source code for other systems, see docs/how-to/export.md.

        Runtime parameters are arguments of the exported function; gravity is constant.

        Parameters
        ----------
        folder : str or Path
            The folder of the files, which may not exist yet.
        target : str
            'c': C99; 'casadi': C with the interface of CasADi; 'shared': the same as a shared library;
            'fmu': FMI 3.0.
        name : str, optional
            Prefix of all names, by default that of the robot.
        precision : str, optional
            'float64' or 'float32', by default that of the function.
        derivatives, second_derivatives : bool
            Whether to export derivatives, too: for CasADi of every function, else those of `derivatives`.
        libm : bool
            Whether sine and cosine come from `<math.h>`; otherwise the code needs no library.

        Returns
        -------
        list of Path
            The written files.

        Raises
        ------
        ChoiceError
            For an unknown target or precision, or a function without derivatives.
        CompileError
            If a target needs a compiler that is absent or fails.
        OSError
            If a file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> gravity_torque = dn.build(robot, "gravity_torque", backend="numpy")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(path.name for path in gravity_torque.export(folder))[:3]
        ['CMakeLists.txt', 'README.md', 'panda_gravity_torque.c']
        """
        return export_functions(
            [self],
            folder,
            target,
            name=name,
            precision=precision,
            derivatives=derivatives,
            second_derivatives=second_derivatives,
            libm=libm,
        )

    def casadi(self, order: Literal[0, 1, 2] = 1) -> "casadi.Function":
        """Return the function as a `casadi.Function` with exact derivatives, see docs/how-to/frameworks.md.

        Inputs and results have the names and the order of this function; gravity is constant. A matrix that
        is an argument is transposed: CasADi's memory is column-major. At a singular state a call raises
        RuntimeError. Pickled functions load where the compile cache of this user is.

        Parameters
        ----------
        order : int
            The order of derivatives: 1, or 2 for exact Hessians, or 0.

        Returns
        -------
        casadi.Function

        Raises
        ------
        ImportError
            Without CasADi: pip install casadi.
        CompileError
            Without a C compiler.
        ChoiceError
            For a function that runs no Program, and another order.
        """
        from dynamics_node.functions.bridges.casadi import to_casadi  # an optional dependency

        return to_casadi(self, order)

    def jax(self, order: Literal[0, 1, 2] = 1) -> "JaxFunction":
        """Return the function for JAX with exact derivatives, see docs/how-to/frameworks.md.

        It takes the same arguments over any batch, by position or by name. It works inside `jax.jit`,
        `jax.grad`, `jax.jvp` and `jax.vmap`. The type of the results is that of the arguments, float64 or
        float32. Gravity is constant. The results of a state without a result are NaN. It runs on the CPU; a
        function of backend 'cuda' runs where the arguments are, also on a GPU.

        Parameters
        ----------
        order : int
            The order of derivatives: 1, or 2 for exact Hessians, or 0.

        Returns
        -------
        callable
            f(*arrays) -> array, or a tuple of several. Picklable.

        Raises
        ------
        ImportError
            Without JAX: pip install jax.
        ChoiceError
            For a function that runs no Program, and another order.
        """
        from dynamics_node.functions.bridges.jax import JaxFunction  # an optional dependency

        return JaxFunction(self, order)

    def torch(self, order: Literal[0, 1, 2] = 1) -> "TorchFunction":
        """Return the function for PyTorch with exact derivatives, see docs/how-to/frameworks.md.

        It takes the same arguments over any batch, by position or by name. It works with `backward`,
        `torch.func` and `torch.compile`. The type of the results is that of the arguments, float64 or
        float32. Gravity is constant. The results of a state without a result are NaN. It takes tensors on the
        CPU; a function of backend 'cuda' also those on a GPU, and returns tensors there.

        Parameters
        ----------
        order : int
            The order of derivatives: 1, or 2 for exact Hessians, or 0.

        Returns
        -------
        callable
            f(*arrays) -> tensor, or a tuple of several. Picklable.

        Raises
        ------
        ImportError
            Without PyTorch: pip install torch.
        ChoiceError
            For a function that runs no Program, and another order.
        """
        from dynamics_node.functions.bridges.torch import TorchFunction  # an optional dependency

        return TorchFunction(self, order)

    def dask(self, *arrays: Any, errors: Errors = "raise", **named: Any) -> Any:
        """Return the lazy results for dask arrays: a task for every chunk, see docs/how-to/cluster.md.

        A worker receives the function once. It loads compiled code from its cache, or compiles it once.

        Parameters
        ----------
        *arrays, **named : dask or NumPy array (..., *shape)
            The inputs, as in a call. Leading axes broadcast, and their chunks may differ.
        errors : str
            'raise', or 'nan': NaN for states without a result.

        Returns
        -------
        dask.array.Array or tuple (..., *shape)
            An array, or the tuple of several, as of a call. Only leading axes are chunked.

        Raises
        ------
        ImportError
            Without dask: pip install 'dask[array]' distributed.
        InputError
            For an array of a wrong shape, and an unknown `errors`.
        TypeError
            For a wrong number of arguments, or an unknown name.
        CompileError
            If the compiler fails.

        Examples
        --------
        >>> import dask.array as da
        >>> mass_matrix = dn.build(robot, "mass_matrix", backend="numpy")
        >>> M = mass_matrix.dask(da.zeros((1000, robot.nq), chunks=(250, -1)))
        >>> M.shape, M.numblocks
        ((1000, 7, 7), (4, 1, 1))
        >>> M[999].compute().shape  # one chunk is computed
        (7, 7)
        """
        from dynamics_node.functions.bridges.dask import over_chunks  # an optional dependency

        if named or 0 < len(self._names) - len(arrays) <= len(self._rest):
            arrays = self._placed(arrays, named)
        return over_chunks(self, self._complete(arrays), errors)

    # --- many states, or other arrays -----------------------------------------------------------------------

    def _states(self, arrays, out, errors):
        """The results (..., *shape) in a tuple, without the fast path; arrays: all inputs."""
        arrays = self._complete(arrays)
        results = None if out is None else self._new(tuple, *arrays)
        if results is None and self.precision == "float64" and isinstance(self.runner, WithFallback):
            results = self.runner.call_again(*arrays)
        if results is None:
            results = self._many(arrays, out)
        if results is None and any(map(on_device, arrays)):
            return self._on_device(arrays, out, errors)
        if results is None:
            results = self._checked(arrays, errors)
        elif isinstance(results, np.ndarray):
            results = (results,)
        if out is None:
            return tuple(results)
        return tuple(written_to(result, place) for result, place in zip(results, out, strict=True))

    def _many(self, arrays, out):
        """The results by `call_batch`, without checks in Python; None if it cannot."""
        first = arrays[0] if arrays else None
        if not isinstance(first, np.ndarray) or first.ndim != self._axes_of_many:
            return None
        return self.runner.call_batch(len(first), arrays, self.dtype, out)

    def _on_device(self, arrays, out, errors):
        """The results for arrays on a GPU: there, of their type, layout and library. A state without a
        result is NaN; with errors='raise' the call waits, and the message has the number of the first such
        state."""
        there = getattr(self.runner, "on_device", None)
        if there is None:
            lying = ", ".join(name for name, a in zip(self._names, arrays, strict=True) if on_device(a))
            reason = f"on a GPU, and this function runs by {self.runner.backend}"
            raise InputError(f"{lying}: arrays {reason}: build it with backend='cuda'")
        try:
            results, bad = there(arrays, out, errors == "raise")
        except ArrayError as error:
            raise InputError(str(error)) from None
        if bad is not None:
            reason = "an input that is not finite or out of range, or equations that are singular there"
            raise SolutionError(f"state {bad} has no result: {reason}; errors='nan' makes it NaN")
        return results

    def _checked(self, arrays, errors):
        runner = self.runner
        arguments = Arguments(self.signature, dict(zip(self._names, arrays, strict=True)), self.dtype)
        results: list[np.ndarray] = []
        good = False
        if runner.checks:
            results, good = runner.run_checked(arguments.count, list(arguments.rows().values()), self.dtype)
        if not good:
            results = self._careful(arguments, errors)
        shaped = [array.reshape((*arguments.batch, *array.shape[1:])) for array in results]
        return [array.astype(self.dtype, copy=False) for array in shaped]

    def _careful(self, arguments, errors):
        """The results over all states, with double precision; raises for the first bad state, or sets bad
        states to NaN."""
        if errors == "raise":
            arguments.require_valid()
            chosen, rows = np.ones(arguments.count, dtype=bool), arguments.rows()
        else:
            chosen = arguments.good()
            rows = arguments.rows(chosen)
        rows = {name: array.astype(np.float64, copy=False) for name, array in rows.items()}
        solved = self._run(np.count_nonzero(chosen), rows, errors)
        if errors == "raise":
            if not (good := finite_states(solved)).all():
                bad = int(np.flatnonzero(~good)[0])
                one = {n: a if a.ndim == self._axes(n) else a[bad] for n, a in rows.items()}
                raise SolutionError(self._why(one, "the equations have no finite solution at this state"))
            return solved
        results = [np.full((arguments.count, *array.shape[1:]), np.nan) for array in solved]
        for target, array in zip(results, solved, strict=True):
            target[chosen] = array
        return results

    def _run(self, count, rows, errors):
        """Run a numeric algorithm; if it fails because of one state, state by state."""
        try:
            return self.runner.run_checked(count, list(rows.values()))[0]
        except np.linalg.LinAlgError as error:
            if errors == "raise":
                raise SolutionError(self._why(rows, f"no solution at this state: {error}")) from None
        return self._one_by_one(count, rows)

    def _one_by_one(self, count, rows):
        results = [np.full((count, *shape), np.nan) for shape in self.runner.outputs.values()]
        for k in range(count):
            one = [a if a.ndim == self._axes(name) else a[k : k + 1] for name, a in rows.items()]
            try:
                solved, _ = self.runner.run_checked(1, one)
            except np.linalg.LinAlgError:
                continue
            for target, array in zip(results, solved, strict=True):
                target[k] = array[0]
        return results

    def _axes(self, name):
        return len(self.signature.inputs[name][0])

    def _why(self, rows, otherwise):
        """A function that computes the reason for a state without a solution; it copies the arrays, which may
        change."""
        if self.why is None:
            return otherwise
        find, copies = self.why, {name: array.copy() for name, array in rows.items()}
        return lambda: find(**copies) or otherwise


def require_errors(errors):
    """Raise InputError for anything but a value of `errors`."""
    if errors not in ERRORS:
        raise InputError(f"errors must be {' or '.join(map(repr, ERRORS))}, not {errors!r}")


def _derives(runner):
    """A Runner's `called_at_once`, which derives a class with a call in C; None without compiled code."""
    return getattr(runner, "called_at_once", None)


def _restored(cls, state):
    """A Function from what `__reduce__` keeps of it."""
    function = cls.__new__(cls, runner=state["runner"], precision=state["precision"])
    function.__setstate__(state)
    return function


def _declined(*arrays):
    return False


def _nothing(*arrays):
    return None
