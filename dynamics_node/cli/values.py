"""Types of the values of options."""

import argparse
import math
from importlib.util import find_spec
from pathlib import Path

from dynamics_node.errors import TableError
from dynamics_node.io import check_plot, check_table
from dynamics_node.optional import install_command
from dynamics_node.text import similar
from dynamics_node.trajectory.animation import NEEDS_VISER

TABLES = (".npz", ".csv", ".parquet", ".zarr")


def names(text):
    """Names separated by commas."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name between its commas")
    return words


def numbers(text):
    """Numbers separated by commas."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 0,-0.5,1e-3") from None


def one_of(*choices):
    """Names separated by commas, of some that exist."""

    def chosen(text):
        for name in names(text):
            if name not in choices:
                raise argparse.ArgumentTypeError(f"unknown {name!r}; {similar(name, choices)}")
        return names(text)

    return chosen


def positive(text):
    """A finite number above zero, whose square is one, too."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    if not 1e-100 < value < 1e100:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 1e-100 and 1e100")
    return value


def count(text):
    """A whole number from 1 on."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def file_to_write(*suffixes):
    """The path of a file with one of the suffixes, in a folder that exists."""

    def path_of(text):
        path = Path(text)
        if suffixes and path.suffix not in suffixes:
            raise argparse.ArgumentTypeError(f"{text!r} ends in none of {', '.join(suffixes)}")
        if not path.absolute().parent.is_dir():
            raise argparse.ArgumentTypeError(f"folder {str(path.parent)!r} does not exist")
        return path

    return path_of


def table_to_write(text):
    """The path of a table, whose writer is installed."""
    path = file_to_write(*TABLES)(text)
    try:
        check_table(path)
    except TableError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def folder_to_write(text):
    """The path of a folder, which may not exist yet."""
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a file, not a folder")
    return path


def plot_to_write(text):
    """The path of a plot."""
    try:
        check_plot(text)
    except TableError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Path(text)


def page_to_write(text):
    """The path of a page that plays a motion."""
    if find_spec("viser") is None:
        raise argparse.ArgumentTypeError(f"{NEEDS_VISER} needs viser: {install_command('viser')}")
    return file_to_write(".html", ".htm")(text)
