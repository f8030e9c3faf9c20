"""Forms of vendors' keys: a head specific to the vendor, and the form of the rest (``rules/vendors.toml``).

The detector reads a key by it (`detectors.secrets`), and its surrogate keeps the head (`surrogates.make`).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from freezeframe_redaction.rules.read import Rules


class Vendor(NamedTuple):
    """One family of keys."""

    name: str
    head: str
    """Expression of the part that identifies the vendor."""
    tail: str
    """Expression of the secret itself; begins with a class of characters and its count."""
    example: str
    fires: str = ""
    """Trigger, if the head cannot serve as one."""

    @property
    def form(self) -> str:
        """Expression of the whole key."""
        ends = "(?![A-Za-z0-9])" if _COUNTED.search(self.tail) else ""
        return self.head + self.tail + ends

    @property
    def trigger(self) -> str:
        """Return the trigger: the head and a few characters.

        The check counts the rest and examines the text before it; the engine would take longer for both, at every byte.
        """
        if self.fires:
            return self.fires
        first = _FIRST.match(self.tail)
        assert first is not None, self.name
        return rf"{self.head}{first[1]}{{{min(int(first[2]), _FEW)}}}"


_FIRST: Final = re.compile(r"(\[[^\]]+\])\{([0-9]+)")
_COUNTED: Final = re.compile(r"\{[0-9]+\}$")
"""A tail of exactly this many characters."""
_FEW: Final = 4

_RULES: Final = Rules("vendors")
VENDORS: Final = tuple(Vendor(**{**row, "tail": _RULES.filled(row["tail"])}) for row in _RULES.table("vendors"))
HEADS: Final = {vendor.name: re.compile(vendor.head) for vendor in VENDORS}
"""The part of a vendor's key that a surrogate keeps."""
SEPARATORS: Final = {
    vendor.name: "".join(sorted(set(re.sub(r"\[[^\]]*\]|\{[^}]*\}|\\(?=\W)|\(\?[:<!=]+", "", vendor.tail)) & set(".-/:_@")))
    for vendor in VENDORS
}
"""The separators that the form of a key demands: they keep their places, as programs split keys on them."""
