"""What the columns of a table are called."""

KINDS = ("q", "qd", "qdd", "tau")


class TableError(ValueError):
    """A table that cannot be read, or lacks something; names the file and the column."""


def columns(model, kind):
    """Names of the columns of a kind."""
    coordinates = model.q_names if kind == "q" else model.v_names
    return [f"{kind}.{name}" for name in coordinates]


def width(model, kind):
    return model.nq if kind == "q" else model.nv


def needed(problem):
    """The kinds that must be there; what else the problem reads is zero where it is not."""
    return ("q",) if problem.kind == "inverse" else ("q", "tau")


def read_by(problem):
    """All kinds that the problem reads."""
    return ("q", "qd", "qdd") if problem.kind == "inverse" else ("q", "qd", "tau")


def require(package):
    """An optional package. Raises TableError saying how to get it."""
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        root = package.partition(".")[0]
        raise TableError(f"this needs {root}: pip install {root}, or 'dynamics_node[tables]'") from None
