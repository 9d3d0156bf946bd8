"""The Function of a Program: what `compile` returns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.codegen import make_runner
from dynamics_node.functions.arguments import plain_signature
from dynamics_node.functions.choices import Backend, Precision
from dynamics_node.functions.function import Function
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import Program


@explains_wrong_calls
def compile(
    program: Program,
    backend: Backend = "auto",
    name: str = "function",
    precision: Precision = "float64",
    defaults: Mapping[str, ArrayLike] | None = None,
) -> Function[Any]:
    """Compile a Program: a Function of its inputs, over any batch.

    Parameters
    ----------
    program : Program
        The result of `trace`. If it has limits, states that exceed them have no result.
    backend : str
        'c', 'numpy', 'cuda', or 'auto': 'c' if it works, and a GPU if it pays.
    name : str
        Name of the function in messages.
    precision : str
        'float64' or 'float32', see Function.
    defaults : dict, optional
        {name: array (*shape)} of the last inputs, which are then optional.

    Returns
    -------
    Function
        f(*arrays): arguments (..., *shape) by position or by name. It returns an array, or a tuple of
        several.

    Raises
    ------
    CompileError
        For backend c without a compiler.
    DeviceError
        For backend cuda without a device.

    Examples
    --------
    >>> program = dn.trace(lambda x: {"square": x @ x, "twice": 2 * x}, {"x": (2,)})
    >>> f = dn.compile(program, backend="numpy")
    >>> f([3.0, 4.0])
    (array(25.), array([6., 8.]))
    """
    signature = plain_signature(name, program.inputs)
    values = {key: np.asarray(value, dtype=precision) for key, value in (defaults or {}).items()}
    return Function(
        signature=signature,
        runner=make_runner(program, backend),
        defaults=values,
        precision=precision,
    )
