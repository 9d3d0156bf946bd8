"""The version of the package, by itself: layers of the library import it."""

__version__ = "0.1.0"
