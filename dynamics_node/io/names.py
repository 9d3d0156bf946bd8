"""What the columns of a table are called."""

KINDS = ("q", "qd", "qdd", "tau")


class TableError(ValueError):
    """A table that cannot be read, or lacks something; names the file and the column."""


def columns(model, kind):
    """Names of the columns of a kind."""
    coordinates = model.q_names if _of_positions(kind) else model.v_names
    return [f"{kind}.{name}" for name in coordinates]


def width(model, kind):
    return model.nq if _of_positions(kind) else model.nv


def _of_positions(kind):
    """q, or what is told of every q, as q_std."""
    return kind == "q" or kind.startswith("q_")


def joints_option(names, most=12):
    """--joints with these, as it is typed."""
    return f"--joints {' '.join(names[:most])}{' ...' if len(names) > most else ''}"


def read_by(problem):
    """All kinds that the problem reads."""
    return ("q", "qd", "qdd") if problem.kind == "inverse" else ("q", "qd", "tau")


def needed(problem, measured=False):
    """The kinds that must be there; measured: torques to compare with, too. What is done without the others:
    see `complete`."""
    return ("q", "tau") if measured or problem.kind == "forward" else ("q",)


def wanted(problem, measured=False):
    """The kinds to look for in a table."""
    return tuple(dict.fromkeys((*read_by(problem), *needed(problem, measured), "time")))


def require(package):
    """An optional package. Raises TableError saying how to get it."""
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        root = package.partition(".")[0]
        raise TableError(f"this needs {root}: pip install {root}, or 'dynamics_node[tables]'") from None
