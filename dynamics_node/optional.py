"""Optional packages: an error about a missing one gives the command that installs it."""

import os
import re
from importlib import import_module, metadata
from typing import Any

ENVIRONMENT = "DYNAMICS_DEV"  # a variable of `./dev run`, whose environment has a pip of its own


def required(module: str, purpose: str) -> Any:
    """An optional module. purpose: what needs it, as the subject of `needs`. Raises ImportError with the
    command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{purpose} needs {package}: {install_command(package)} ({error})") from None


def install_command(*packages: str) -> str:
    """`pip install` of packages, with the lower bounds of this package."""
    pip = "./dev run -- pip" if os.environ.get(ENVIRONMENT) else "pip"
    return f"{pip} install {' '.join(map(_requirement, packages))}"


def _requirement(package):
    """The package with its lower bound, quoted for a shell; without a bound where there is no metadata."""
    try:
        lines = metadata.requires("dynamics_node") or []
    except metadata.PackageNotFoundError:
        lines = []
    for line in lines:
        text = line.partition(";")[0].strip()
        if re.split(r"[^\w.-]", text)[0] == package and text != package:
            return f"'{text}'"
    return package
