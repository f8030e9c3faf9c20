"""The values that detectors, surrogates and the redactor exchange.

A detector never sees the key, and a surrogate maker never sees the text around the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from freezeframe_redaction.prf import Prf
from freezeframe_schemas.span import AttributeValue


class Candidate(NamedTuple):
    """A detector's finding: an exact span of the scan view, and its kind of replacement.

    `kind` tells the surrogate maker the form (``"nanp"``, ``"jwt"``); `explain` prints it.
    `shown` is the span to report if it is wider than the replaced one (a URL around its credentials).
    `joint` is the break of a line inside the value, with indentation, which its surrogate has as well.
    """

    start: int
    end: int
    class_: str
    kind: str = ""
    shown: tuple[int, int] | None = None
    joint: tuple[int, int] | None = None


CLAIM = "*"
"""Class of a span that is a surrogate: it blocks every other candidate."""
EXAMINED = ""
"""Class of a span that holds nothing: the trigger need not look at it again."""
Find = Callable[[str, int, int, int], "tuple[Candidate, ...]"]
"""``find(text, low, high, at)``: verify a trigger that ended at `at`, in the leaf ``text[low:high]``, in a fixed window."""
Replace = Callable[[Prf, str, str], str]
"""``replace(prf, value, kind)``: the surrogate of a view value."""
Canonical = Callable[[str, str], str]
"""``canonical(value, kind)``: the form that is equal for equal values; also defined on surrogates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A text with its finding, and a near miss without one; shown by ``--explain`` and checked by a test."""

    text: str
    value: str
    near_miss: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """One kind of value: cheap triggers for the engine, and the check that decides."""

    name: str
    class_: str
    triggers: tuple[str, ...]
    """Vectorscan expressions; about one match per candidate. One without a word in it names its lane.

    The engine reads one byte per character: a letter beyond Latin-1 (or ``\\xe9``; a capital ``\\xc9``) is any such letter.
    """
    find: Find
    examples: tuple[Example, ...]
    others: frozenset[str] = frozenset()
    """Further classes that it finds: it is used if a policy wants any of them."""
    row: str = ""
    """Text of its row in a table of rules, for `--explain`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurrogateClass:
    """Rule for replacing the values of one class."""

    name: str
    replace: Replace
    canonical: Canonical
    priority: int
    """Precedence of overlapping candidates: the lower number wins, then the longer span."""
    keys: tuple[str, ...] = ()
    """Keys whose values are of this class (``{"vin": ...}``), beyond those that `key_context` knows."""
    minimal: bool = False
    """The policy `minimal` has it: credentials and payment data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The place of one finding, without the value; offsets are characters of the original text."""

    class_: str
    start: int
    end: int
    detector: str = ""


def _no_surrogates() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """Result of redacting a value."""

    value: AttributeValue
    findings: tuple[Finding, ...] = ()
    """Offsets into the text given; in a nested value, into the leaf that held the finding."""
    surrogates: Mapping[str, str] = field(default_factory=_no_surrogates)
    """Surrogate -> class."""
