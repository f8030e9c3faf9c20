"""Times that a program reads from its clock: which two are one moment, in each form that programs write."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freezeframe_replay.engine.moments import Measurement, Moments, Slack, holds

NOW = 1_770_000_000
"""2026-02-02 02:40:00 UTC"""
DAY = 86_400
WITHIN = 3


def utc(second: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(second, dt.UTC)


def there(second: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(second, dt.timezone(dt.timedelta(hours=5, minutes=30)))


def as_measured(per_s: float = 1, *, bounds: tuple[float, float] = (-1, -1), is_own: bool = False) -> Measurement:
    return Measurement(per_s=per_s, least_s=bounds[0], most_s=bounds[1], is_own=is_own)


FORMS: dict[str, Callable[[float], Any]] = {
    "ISO 8601, UTC": lambda s: f"{utc(s):%Y-%m-%dT%H:%M:%SZ}",
    "ISO 8601, no zone": lambda s: f"{utc(s):%Y-%m-%d %H:%M:%S}",
    "ISO 8601, an offset": lambda s: there(s).isoformat(timespec="milliseconds"),
    "ISO 8601, an offset behind a space": lambda s: f"{there(s):%Y-%m-%d %H:%M:%S} +0530",
    "ISO 8601, a comma and nine digits": lambda s: f"{utc(s):%Y-%m-%d %H:%M:%S,%f}000 UTC",
    "time of day": lambda s: f"{utc(s):%H:%M:%S}",
    "time of day with a fraction": lambda s: f"{utc(s):%H:%M:%S.%f}",
    "seconds": lambda s: f"{s:.0f}",
    "seconds with a fraction": lambda s: f"{s:.3f}",
    "milliseconds": lambda s: f"{s * 1e3:.0f}",
    "microseconds": lambda s: f"{s * 1e6:.0f}",
    "nanoseconds": lambda s: f"{s:.0f}000000000",
    "a number of seconds": int,
    "a number with a fraction": float,
    "a number of milliseconds": lambda s: int(s * 1000),
}


def slack(*, within_s: float = WITHIN, given: tuple[str, ...] = (), now: float = NOW) -> Slack:
    return Slack(within_s=within_s, is_content=given.__contains__, now_s=now)


def is_same(recorded: Any, live: Any, **options: Any) -> bool:
    """Return whether the live value is taken for the recorded one; anything else leaves it alone."""
    settled = Moments().settle(recorded, live, slack(**options))
    assert settled in (recorded, live)
    return type(settled) is type(recorded) and settled == recorded


@pytest.mark.parametrize("form", FORMS)
@given(at=st.integers(NOW - 2 * DAY, NOW + 2 * DAY), later=st.integers(-70, 70) | st.integers(-4, 4))
def test_two_times_are_one_moment_if_they_are_no_further_apart_than_the_slack(form: str, at: int, later: int) -> None:
    recorded, live = FORMS[form](at), FORMS[form](at + later)
    assert is_same(recorded, live) == (abs(later) <= WITHIN)
    if isinstance(recorded, str):
        assert is_same(f"It is {recorded}.", f"It is {live}.") == (abs(later) <= WITHIN)


@pytest.mark.parametrize(("form", "step"), [(form, 0.001) for form in FORMS if "fraction" in form or "milli" in form])
def test_a_fraction_of_a_second_counts(form: str, step: float) -> None:
    recorded = FORMS[form](NOW)
    assert is_same(recorded, FORMS[form](NOW + 0.5), within_s=0.5)
    assert not is_same(recorded, FORMS[form](NOW + 0.5 + step), within_s=0.5)


@given(minutes=st.integers(-5, 5))
def test_without_seconds_a_time_may_be_a_minute_further(minutes: int) -> None:
    recorded, live = (f"{utc(NOW + more):%Y-%m-%d %H:%M}" for more in (0, 60 * minutes))
    assert is_same(recorded, live) == (abs(minutes) <= 1)
    assert is_same(recorded, live, within_s=120) == (abs(minutes) <= 3)


def test_midnight_lies_between_two_times_of_day() -> None:
    assert is_same("23:59:58", "00:00:01")
    assert is_same("00:00:01", "23:59:58")
    assert not is_same("23:59:57", "00:00:01")
    assert not is_same("2026-02-01 00:00:01", "2026-02-01 23:59:58")


def test_the_zone_that_a_time_names_counts() -> None:
    assert is_same(FORMS["ISO 8601, UTC"](NOW), there(NOW).isoformat())
    assert not is_same(FORMS["ISO 8601, UTC"](NOW), f"{there(NOW):%Y-%m-%dT%H:%M:%SZ}")


def test_each_time_of_a_text_counts() -> None:
    assert is_same(f"from {NOW} to {NOW + 5}.", f"from {NOW + 1} to {NOW + 6}.")
    assert is_same("00:00:10.9", "00:00:11.1", within_s=0.5)


@pytest.mark.parametrize("days", [32, -32])
def test_a_number_that_is_far_from_now_is_no_moment(days: int) -> None:
    """It may be an order number."""
    one_more = NOW + (days * DAY) + (1 if days > 0 else -1)
    assert is_same(NOW + days * DAY, NOW + days * DAY + 1)
    assert not is_same(one_more, one_more + 1)
    assert not is_same(f"order {one_more}", f"order {one_more + 1}")


@pytest.mark.parametrize(
    ("recorded", "live"),
    [
        (True, False),
        (1, 2),
        (NOW, str(NOW + 1)),
        (NOW, True),
        (None, NOW),
        ({"a": 1}, [1]),
        ([1], {"a": 1}),
        (f"at {NOW}", f"by {NOW + 1}"),
        (f"{NOW}", f"{NOW + 1} {NOW + 1}"),
        ("2026-02-30T00:00:00Z", "2026-02-30T00:00:01Z"),
        ("2026-02-30T00:00:00Z", "2026-02-28T00:00:00Z"),
        ("25:00:00", "25:00:01"),
        ("nothing", "else"),
        (f"from {NOW} to {NOW}", f"from {NOW + 1} to {NOW + 9}"),
        (f"from {NOW} to {NOW}", f"from {NOW + 9} to {NOW + 1}"),
    ],
)
def test_anything_else_stays_as_it_is(recorded: Any, live: Any) -> None:
    settled = Moments().settle(recorded, live, slack())
    assert settled is live


def test_a_time_that_the_program_was_given_stays_as_it_is() -> None:
    given = FORMS["ISO 8601, UTC"](NOW)
    assert not is_same(given, FORMS["ISO 8601, UTC"](NOW + 1), given=(given,))


def test_every_place_of_a_value_is_settled_and_what_is_more_stays() -> None:
    recorded = {"a": [NOW, {"b": f"at {NOW}"}], "same": 1}
    live = {"more": NOW + 1, "a": [NOW + 1, {"b": f"at {NOW + 2}"}, NOW + 1]}
    assert Moments().settle(recorded, live, slack()) == {"more": NOW + 1, "a": [NOW, {"b": f"at {NOW}"}, NOW + 1]}


def test_two_times_that_were_one_moment_stay_one() -> None:
    """A later request holds those of earlier ones."""
    moments = Moments()
    assert moments.settle(NOW, NOW + 2, slack()) == NOW
    later = slack(within_s=0, given=(str(NOW),))
    assert moments.settle(NOW, NOW + 2, later) == NOW
    assert moments.settle(NOW, NOW + 1, later) == NOW + 1


@pytest.mark.parametrize(
    ("recorded", "live", "same"),
    [
        ("took 1.25 s", "took 1.31 s", True),
        ("took 1250 ms", "took 1310 ms", True),
        ("took 1.25 s", "took 4.5 s", False),
        ("took 0.25 s", "took 0.11 s", False),
        ("took 0.05 s", "took 0.09 s", True),
        ("took 12 s", "took 13 s", False),
        ("took 0.004 s", "took 0.04 s", True),
        ("took 0.0011 s", "took 0.00002 s", True),
        ("took 0.00001 s", "took 0.0411 s", False),
        ("took 1.25 s", "lasted 1.31 s", False),
        ({"seconds": 1.2345}, {"seconds": 1.2401}, True),
        ({"temperature": 0.75}, {"temperature": 0.8}, False),
        ({"most": 1250}, {"most": 1310}, False),
    ],
)
def test_a_measured_number_is_the_recorded_duration_if_it_is_near_and_has_the_digits_of_one(
    recorded: Any, live: Any, same: bool
) -> None:
    def measured(number: str) -> Measurement:
        return as_measured(1000 if number == "1310" else 1)

    moments = Moments(measured)
    assert moments.settle(recorded, live, slack()) == (recorded if same else live)
    assert same or moments.apart.keys() <= {*str(live).strip("}").split()}
    assert same or bool(moments.apart) == ("lasted" not in str(live))
    assert Moments().settle(recorded, live, slack()) == live
    assert Moments(measured).settle(recorded, live, slack(given=("1.25", "0.05", "1250", "1.2345", "0.004", "0.0011"))) == live


@pytest.mark.parametrize(
    ("recorded", "live", "is_own", "given", "why"),
    [
        ("took 1", "took 2", False, (), "so short a number is compared"),
        ("took 1", "took 2", True, (), "holds the number too"),
        ("took 1", "took 2", False, ("1",), "holds the number too"),
        ("took 1.25", "took 1.31", True, (), "holds the number too"),
        ("took 1.25", "took 4.5", False, (), "too far"),
        ("took 1.25", "took 4.5", True, (), ""),
    ],
)
def test_what_may_be_a_duration_and_is_not_taken_for_one_is_kept_with_its_reason(
    recorded: str, live: str, is_own: bool, given: tuple[str, ...], why: str
) -> None:
    """One that the program holds, too, is only named if it is near: it is more likely a number that was changed."""
    moments = Moments(lambda _: as_measured(is_own=is_own))
    assert moments.settle(recorded, live, slack(given=given)) == live
    assert list(moments.apart) == [live.split()[1]] * bool(why)
    assert why in "".join(moments.apart.values())


@pytest.mark.parametrize(
    ("recorded", "live", "units", "same"),
    [
        ("took 0.0008", "took 0.00045", 1, True),
        ("took 0.0008", "took 0.00035", 1, False),  # less than a millisecond: half of the longer one at most
        ("took 0.001", "took 0.0004", 1, True),
        ("took 9.5", "took 0.0", 1000, True),
        ("took 10.0", "took 0.0", 1000, True),
        ("took 40.5", "took 0.0", 1000, False),  # over a hundred times as long as what rounds to nothing
        ("took 1.25", "took 1", 1, True),  # one of the two has the digits of a duration
    ],
)
def test_two_durations_differ_by_so_much_at_most(recorded: str, live: str, units: int, same: bool) -> None:
    assert Moments(lambda _: as_measured(units)).settle(recorded, live, slack()) == (recorded if same else live)


@pytest.mark.parametrize(
    ("recorded", "least_s", "most_s", "same"),
    [
        ("took 0.204", 0.2, 0.6, True),
        ("took 0.204", 0.3, 0.6, False),
        ("took 0.2", 0.29, 0.6, True),  # rounded
        ("took 2.750", 0.2, 2.8, True),
        ("took 2.750", 0.2, 2.7, False),
        ("took 2", 0.2, 2.8, False),  # so short a number is compared as it is
    ],
)
def test_a_duration_is_the_recorded_one_if_the_run_may_have_measured_that(
    recorded: str, least_s: float, most_s: float, same: bool
) -> None:
    """It read its clock at some time between two calls, and the replay at another."""
    live = "took 0.601" if "." in recorded else "took 1"
    found = Moments(lambda _: as_measured(bounds=(least_s, most_s))).settle(recorded, live, slack())
    assert found == (recorded if same else live)


@pytest.mark.parametrize(
    ("text", "is_held"),
    [
        (b"204 ms", True),
        (b"204.", True),
        (b"0.2041", False),
        (b"1204", False),
        (b"204.5", False),
        (b"2.204", False),
        (b"20", False),
    ],
)
def test_a_text_holds_a_number_as_a_whole_or_not_at_all(text: bytes, is_held: bool) -> None:
    assert holds(text, "204") is is_held
