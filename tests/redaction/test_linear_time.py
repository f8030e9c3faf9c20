"""No text, document or span, however hostile, takes more than time in proportion to its length.

Measured as CPU time of this thread, because engines in C whose steps no one can count do most of the work: an input four times
as long may take eight times as long. What is linear takes four times, what is quadratic sixteen; the least of several runs is
taken, so a busy machine does not decide.
"""

from __future__ import annotations

import base64
import gc
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from bare_spans import bare_span

from freezeframe_redaction import Aliaser, Cast, Redactor, TenantKey, load_policy
from freezeframe_redaction.detectors import ALL
from freezeframe_redaction.model import Candidate, Detector, Example
from freezeframe_redaction.triggers.engine import resolve_overlaps
from freezeframe_schemas import genai
from freezeframe_schemas.span import Event, SpanRecord

KEY = TenantKey(id="test/1", secret=b"k" * 32)
POLICY = load_policy()
_TIMES = 4
_MAX_RATIO = 8.0
"""Times as long for an input `_TIMES` as long; between 4 (linear) and 16 (quadratic)."""
_CHEAP_S = 0.02
"""Work that takes less at the larger size is not worth a second look."""

Work = Callable[[Any], object]
Make = Callable[[int], Any]


def _redact(value: Any) -> object:
    return Redactor(POLICY, KEY).redact(value)


def _redact_span_twice(span: SpanRecord) -> object:
    """The second time, a small part of the whole, its texts are recalled."""
    redactor = Redactor(POLICY, KEY)
    return redactor.redact_span(span), redactor.redact_span(span)


def _redact_again(text: str) -> object:
    """Like a replay: every surrogate in the text is known beforehand."""
    redacted = Redactor(POLICY, KEY).redact(text)
    return Redactor(POLICY, KEY, surrogates=redacted.surrogates).redact(redacted.value)


def _alias(text: str) -> object:
    redacted = Redactor(POLICY, KEY).redact(text)
    return Aliaser(POLICY, redacted.surrogates).alias(str(redacted.value))


@pytest.fixture(autouse=True, scope="module")
def _what_there_is_already() -> None:
    """Exclude what other tests left from the collections below: there are thousands, each through the whole heap.

    It stays excluded afterwards, like all that tests/conftest.py excludes.
    """
    gc.collect()
    gc.freeze()


def _cost(work: Work, value: Any, runs: int) -> float:
    """Return the CPU seconds of the fastest run, without those of the garbage collector."""
    least = float("inf")
    for _ in range(runs):
        gc.collect()
        gc.disable()
        try:
            before = time.thread_time()
            work(value)
            least = min(least, time.thread_time() - before)
        finally:
            gc.enable()
        if least < _CHEAP_S:
            break
    return least


def _is_linear(work: Work, make: Make, size: int) -> bool:
    small, large = make(size), make(_TIMES * size)
    if (cost := _cost(work, large, 1)) < _CHEAP_S:
        return True
    base = 0.0
    for _ in range(3):
        base = max(base, _cost(work, small, 2))
        if cost <= _MAX_RATIO * base:
            return True
        cost = min(cost, _cost(work, large, 1))
    return cost <= _MAX_RATIO * base


# -- every detector -----------------------------------------------------------------------------------------------------


def _repeat(unit: str, length: int) -> str:
    return unit * max(1, length // len(unit))


def _units(example: Example) -> Iterator[str]:
    """Yield what is worth repeating: the whole, the words before the value, and values cut off or left open."""
    text, value = example.text, example.value
    at = max(text.find(value), 0)
    head = text[:at] or text[: len(text) // 2]
    yield head + value[:-1] + "\x00"
    for unit in (text, head, value, value[:-1], value[: len(value) // 2], value[:4], example.near_miss):
        yield from (unit + end for end in ("", " ", "\n", ",", "-", '"', "'"))


def _fillings(example: Example) -> Iterator[Make]:
    """Yield texts that are one example with something long in it."""
    text, value = example.text, example.value
    at = max(text.find(value), 0)
    middle = at + len(value) // 2
    for char in (*" \n\"'<>/-_.,aA1é李", value[:1], value[-1:]):
        yield lambda length, char=char: text[:at] + _repeat(char, length) + text[at + len(value) :]
        yield lambda length, char=char: text[:middle] + _repeat(char, length) + text[middle:]


@pytest.mark.long
@pytest.mark.parametrize("family", sorted({detector.find.__module__ for detector in ALL}))
def test_no_detector_takes_more_than_linear_time(family: str) -> None:
    """Of each example, the words before its value, and the value without its end, over and over: all near misses."""
    slow: list[str] = []
    seen: set[str] = set()
    for detector in ALL:
        unit = next(_units(detector.examples[0]))
        if detector.find.__module__ == family and unit not in seen:
            seen.add(unit)
            if not _is_linear(_redact, lambda length, unit=unit: _repeat(unit, length), 1_000):
                slow.append(f"{detector.name}: {unit!r}")
    assert slow == []


@pytest.mark.soak
@pytest.mark.timeout(36_000)
@pytest.mark.parametrize("detector", ALL, ids=lambda detector: detector.name)
def test_no_detector_takes_more_than_linear_time_whatever_is_repeated(detector: Detector) -> None:
    slow: list[str] = []
    for example in detector.examples:
        for unit in dict.fromkeys(unit for unit in _units(example) if unit):
            if not _is_linear(_redact, lambda length, unit=unit: _repeat(unit, length), 2_000):
                slow.append(repr(unit))
        slow.extend(repr(make(3)) for make in _fillings(example) if not _is_linear(_redact, make, 2_000))
    assert slow == []


@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_nor_do_pieces_of_several_examples_in_turn() -> None:
    """Seeded: another detector begins with what one left half read."""
    rnd = random.Random(20)
    pieces = sorted({unit for detector in ALL for example in detector.examples for unit in _units(example) if unit})
    slow: list[str] = []
    for _ in range(2_000):
        unit = "".join(rnd.sample(pieces, rnd.randint(2, 4)))
        if not _is_linear(_redact, lambda length, unit=unit: _repeat(unit, length), 5_000):
            slow.append(repr(unit))
    assert slow == []


# -- every door ---------------------------------------------------------------------------------------------------------


def _letters(number: int) -> str:
    """Return five letters, different ones for each number below twelve million."""
    word = ""
    for _ in range(5):
        number, rest = divmod(number, 26)
        word += chr(97 + rest)
    return word


def _mail(number: int) -> str:
    return f"u.{_letters(number)}@corp-mail.io"


def _person(number: int) -> str:
    return f"My name is Z{_letters(7 * number)}ova W{_letters(7 * number + 3)}man."


def _span(attributes: dict[str, Any], events: tuple[Event, ...] = ()) -> SpanRecord:
    return bare_span(attributes, events=events)


def _streamed(count: int) -> SpanRecord:
    """An answer of so many chunks, of a character each."""
    text = ("mail jane@corp-mail.io. My name is Maria Kovalenko. " * count)[:count]
    chunks = ["data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": char}}]}) + "\n\n" for char in text]
    return _span(
        {
            genai.RESPONSE_BODY: "".join(chunks),
            genai.RESPONSE_CHUNK_SIZES: tuple(map(len, chunks)),
            genai.RESPONSE_HEADERS: json.dumps([["content-type", "text/event-stream"]]),
        }
    )


def _wrapped(text: str, times: int, wrap: Callable[[str], str]) -> str:
    for _ in range(times):
        text = wrap(text)
    return text


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_TEXTS: dict[str, tuple[int, Make]] = {
    "e-mails in a list": (1000, lambda n: json.dumps([f"mail {_mail(i)} x" for i in range(n)])),
    "the same e-mail in a list": (2000, lambda n: json.dumps(["mail jane@corp-mail.io x"] * n)),
    "e-mails in one text": (1500, lambda n: " ".join(map(_mail, range(n)))),
    "e-mails in JSON in JSON": (1000, lambda n: json.dumps([json.dumps({"mail": _mail(i)}) for i in range(n)])),
    "e-mails six JSONs deep": (40, lambda n: _wrapped(" ".join(map(_mail, range(n))), 6, lambda text: json.dumps([text]))),
    "e-mails as keys": (700, lambda n: json.dumps({_mail(i): i for i in range(n)})),
    "keys": (1500, lambda n: json.dumps({"k" + _letters(i): "a" for i in range(n)})),
    "repeated keys": (1500, lambda n: "{" + ",".join(f'"mail":"{_mail(i)}"' for i in range(n)) + "}"),
    "names in a list": (300, lambda n: json.dumps([_person(i) for i in range(n)])),
    "names in one text": (500, lambda n: " ".join(_person(i) for i in range(n))),
    "names that begin alike": (300, lambda n: json.dumps([f"My name is Ann O'{_letters(i).title()}." for i in range(n)])),
    "one name in a list": (1000, lambda n: json.dumps(["My name is Maria Kovalenko."] * n)),
    "names without spaces": (500, lambda n: json.dumps([f"我叫李{chr(0x4E00 + i)}。" for i in range(n)], ensure_ascii=False)),
    "numbers": (200, lambda n: json.dumps([{"phone": 4155552671 + i} for i in range(n)])),
    "nested lists": (20_000, lambda n: "[" * n + '"jane@corp-mail.io"' + "]" * n),
    "nested objects": (20_000, lambda n: '{"a":' * n + '"jane@corp-mail.io"' + "}" * n),
    "lists without an end": (20_000, lambda n: "[" * n + '"jane@corp-mail.io"'),
    "escapes": (1000, lambda n: '["' + "\\u006aane@corp-mail.io \\/ " * n + '"]'),
    "lone surrogates": (1000, lambda n: '["' + "\\ud800 jane@corp-mail.io " * n + '"]'),
    "invisible characters": (1000, lambda n: "j\u200ba\u200bn\u200be@corp-mail.io " * n),
    "nothing but invisible characters": (50_000, lambda n: "\u200b" * n + "jane@corp-mail.io"),
    "full-width letters": (1000, lambda n: "ｊａｎｅ＠ｃｏｒｐ．ｉｏ " * n),
    "entities": (1000, lambda n: "jane&#64;corp-mail.io " * n),
    "percents": (1000, lambda n: "jane%2540corp-mail.io " * n),
    "percents of percents": (30_000, lambda n: "%25" * n + "40"),
    "backslashes": (30_000, lambda n: "\\" * n + "u0040"),
    "quotes": (30_000, lambda n: '"' * n),
    "open quotes": (3000, lambda n: 'password="' * n),
    "blobs of base64": (300, lambda n: " ".join(_base64(f"please mail {_mail(i)} today") for i in range(n))),
    "base64 in base64": (20, lambda n: _wrapped("jane@corp-mail.io " * n, 8, lambda text: _base64(f"x {text} y"))),
    "base64 of nothing": (20_000, lambda n: "A" * n),
    "a table": (300, lambda n: "name,mail\n" + "\n".join(f"Ann {_letters(i).title()},{_mail(i)}" for i in range(n))),
    "a wide table": (300, lambda n: ",".join(["name"] * n) + "\n" + ",".join(["Maria Kovalenko"] * n)),
    "many tables": (200, lambda n: "name,phone\nMaria Kovalenko,+1 415 555 2671\n\n" * n),
    "many tables with rulers": (300, lambda n: "| name | phone |\n|---|---|\n| Maria Kovalenko | +1 415 555 2671 |\n\n" * n),
    "rulers": (1000, lambda n: "a | b\n" + "----+----\n" * n),
    "a long ruler": (20_000, lambda n: "a | b\n" + "-" * n + "+" + "-" * n + "x\n" * 20),
    "lines of JSON": (300, lambda n: "\n".join(json.dumps({"name": _letters(i).title(), "mail": _mail(i)}) for i in range(n))),
    "private keys without an end": (500, lambda n: "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * n),
    "tokens over lines": (1000, lambda n: "key=A1b2C3d4E5f6G7h8I9j0\nK1l2M3n4O5p6Q7r8 and\n" * n),
    "tokens over escaped lines": (1000, lambda n: "k A1b2C3d4E5f6\\nK1l2M3n4 " * n),
    "lines of tokens": (2000, lambda n: "A1b2C3d4E5f6G7h8I9j0\n" * n),
    "a token on a long line": (5000, lambda n: ("x " * n + "A1b2C3\n") * 3 + "D4e5F6\n" * n),
    "encoded words": (500, lambda n: "=?utf-8?Q?J=C3=B6rg_Keller?= " * n),
    "encoded words without an end": (5000, lambda n: "=?utf-8?Q?J=C3" * n),
    "a word": (50_000, lambda n: "a" * n),
    "a number": (20_000, lambda n: "1" * n),
    "a number in groups": (5000, lambda n: "1-" * n),
    "pieces of a stream": (
        1000,
        lambda n: json.dumps(
            [{"choices": [{"index": 0, "delta": {"content": "jane@corp-mail.io "[i % 18]}}]} for i in range(n)]
        ),
    ),
    "many streams": (
        500,
        lambda n: json.dumps([{"choices": [{"index": i, "delta": {"content": _mail(i)}}]} for i in range(n)]),
    ),
}
_VALUES: dict[str, tuple[int, Make]] = {
    "a list": (500, lambda n: tuple(map(_mail, range(n)))),
    "a mapping": (500, lambda n: {f"k{i}": _mail(i) for i in range(n)}),
    "bytes": (1000, lambda n: b"\xff" + b"jane@corp-mail.io " * n),
}
_SPANS: dict[str, tuple[int, Make]] = {
    "attributes": (400, lambda n: _span({f"a.{_letters(i)}": f"mail {_mail(i)}" for i in range(n)})),
    "names of attributes": (500, lambda n: _span({_mail(i): "x" for i in range(n)})),
    "people in attributes": (300, lambda n: _span({f"a.{_letters(i)}": json.dumps({"text": _person(i)}) for i in range(n)})),
    "events": (
        200,
        lambda n: _span({}, tuple(Event(time_unix_nano=1, name=_mail(i), attributes={"x": _person(i)}) for i in range(n))),
    ),
    "chunks": (400, _streamed),
    "people in one body, words in the other": (
        200,
        lambda n: _span(
            {
                genai.RESPONSE_BODY: json.dumps([_person(i) for i in range(n)]),
                genai.REQUEST_BODY: json.dumps([f"lorem Ipsum {i}" for i in range(n)]),
            }
        ),
    ),
}


@pytest.mark.long
def test_a_text_may_hold_very_many_findings() -> None:
    """A text of 16 MB has half a million: settling them was quadratic, which only such numbers show."""

    def make(count: int) -> list[tuple[Candidate, str]]:
        return [(Candidate(40 * i, 40 * i + 10 + i * 7 % 29, "EMAIL"), "email") for i in range(count)]

    assert _is_linear(lambda found: resolve_overlaps(found, {"EMAIL": 3}), make, 25_000)


@pytest.mark.long
@pytest.mark.parametrize("name", [*_TEXTS, *_VALUES])
def test_no_text_takes_more_than_linear_time(name: str) -> None:
    size, make = (_TEXTS | _VALUES)[name]
    assert _is_linear(_redact, make, size)


@pytest.mark.long
@pytest.mark.parametrize("name", _SPANS)
def test_no_span_takes_more_than_linear_time(name: str) -> None:
    size, make = _SPANS[name]
    assert _is_linear(_redact_span_twice, make, size)


_GLUED: dict[str, tuple[int, Make]] = {
    "one name, many words": (2500, lambda n: " ".join(f"Keller{_letters(i).title()}" for i in range(n))),
    "one name, many mentions in code": (5000, lambda n: "KellerGraph() " * n),
    "one name in one word": (2500, lambda n: "Keller" * n),
    "many names": (150, lambda n: "\n".join(f"{_person(i)}Status: open" for i in range(n))),
}


@pytest.mark.long
@pytest.mark.parametrize("name", _GLUED)
def test_no_names_that_run_into_words_take_more_than_linear_time(name: str) -> None:
    size, make = _GLUED[name]

    def work(text: str) -> object:
        redactor = Redactor(POLICY, KEY)
        _, cast = redactor.redact_in_run(_span({"a": "Her name is Maria Keller."}), Cast())
        return redactor.redact_in_run(_span({"a": text}), cast)

    assert _is_linear(work, make, size)


@pytest.mark.long
@pytest.mark.parametrize("name", ["e-mails in a list", "e-mails in one text", "names in a list"])
@pytest.mark.parametrize("work", [_redact_again, _alias])
def test_nor_does_what_is_redacted_already(name: str, work: Work) -> None:
    """All surrogates that the text holds are known."""
    size, make = _TEXTS[name]
    assert _is_linear(work, make, size // 2)
