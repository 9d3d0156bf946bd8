"""Functions inside other frameworks: CasADi, JAX and PyTorch, each imported when it is first used."""

from importlib import import_module


def required(module: str, distribution: str):
    """An optional module. Raises ImportError with the command to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        install = f"pip install 'dynamics_node[{module}]', or pip install '{distribution}'"
        raise ImportError(f"function.{module}() needs {distribution}: {install} ({error})") from None
