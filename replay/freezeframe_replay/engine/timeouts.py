"""Timeouts: what ended a recorded call before its answer was whole, and whether it would end the program's call, too. Pure.

The client's own limit ended it if the run knew that limit, and waited for so long. Then a longer limit is a divergence: the
recording does not hold what would have come. Anything else that threw into the call (a signal's handler) came from outside,
and a replay raises it again without knowing whether it would come.
"""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import Final

from freezeframe_schemas.divergence import Divergence, Relaxed
from freezeframe_schemas.exchange import Exchange, Request
from freezeframe_schemas.wire.document import as_object, as_text, parse

COMPONENT: Final = "timeout"
"""Its name among the components of a request, for `--ignore`."""
_OF_CLIENTS: Final = frozenset({"httpx", "httpx2", "httpcore", "requests", "urllib3", "aiohttp", "botocore", "http", "ssl"})
_NOT_OF_CALLS: Final = frozenset({"builtins:KeyboardInterrupt", "builtins:SystemExit"})
_GIVEN_UP: Final = "asyncio.exceptions:CancelledError"
"""The program's own doing, which a replay waits for (`turns`)."""
_EARLY: Final = 0.99
_EARLY_S: Final = 0.05
"""A limit may end a call this much early: two clocks measure it, and the client's starts before ours."""
_LATER: Final = 1.05
"""A limit may be this much longer: a program may compute it again from the time that is left."""


def what_ended(recorded: Exchange, live: Request, divergence: Divergence) -> Divergence | Relaxed | None:
    """Return what to report about the end of the call that a step answers: None if the program's call ends the same way.

    Args:
        recorded: the step.
        live: the program's request.
        divergence: names the step; returned with the difference, if the program's call would last longer.
    """
    if recorded.error is None or not recorded.request.method:
        return None
    path = as_text(as_object(parse(recorded.error)).get("class")) or ""
    module, _, name = path.partition(":")
    if "Timeout" not in name:
        of_the_call = path == _GIVEN_UP or (
            module.partition(".")[0] in {"builtins", *_OF_CLIENTS} and path not in _NOT_OF_CALLS
        )
        return None if of_the_call else Relaxed.ENDED
    if recorded.request.timeouts is None:
        return Relaxed.TIMEOUT
    waited_s = _waited_s(recorded)
    limits, live_limits = dict(recorded.request.timeouts), dict(live.timeouts or ())
    set_limits = ((phase, limits.get(phase)) for phase in _phases(recorded, name))
    passed = {phase: limit for phase, limit in set_limits if limit and min(limit * _EARLY, limit - _EARLY_S) <= waited_s}
    if not passed:
        return Relaxed.ENDED
    phase, was = max(passed.items(), key=itemgetter(1))
    now = live_limits.get(phase)
    if live.timeouts is None or (now is not None and was < now <= was * _LATER):
        return Relaxed.TIMEOUT
    if now is not None and now <= was:
        return None
    longer = "there is no timeout now" if now is None else f"the timeout is {now:g} s now"
    return replace(
        divergence,
        path=f"$.{COMPONENT}",
        recorded=f"{was:g}",
        live="none" if now is None else f"{now:g}",
        differed=(COMPONENT,),
        note=f"the call timed out after {was:g} s when recorded; {longer}, and what would have been answered is not recorded",
    )


def _phases(recorded: Exchange, error: str) -> tuple[str, ...]:
    """Return which limits an exception of this name may report."""
    if error == "TimeoutError" and recorded.seam == "aiohttp":
        return "connect", "total"
    return (next((phase for phase in ("connect", "write", "pool") if phase in error.lower()), "read"),)


def _waited_s(recorded: Exchange) -> float:
    """Return how long the call had waited at its end, since it began or since the last piece of its answer."""
    last_ns = recorded.response.chunks[-1].offset_ns if recorded.response.chunks else 0
    return (recorded.end_time_unix_nano - recorded.start_time_unix_nano - last_ns) / 1e9
