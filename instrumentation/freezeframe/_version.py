"""The version of this library. The package's metadata is made from it."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
