"""The version of this library. The package's metadata is made from it."""

__version__ = "0.1.0"
