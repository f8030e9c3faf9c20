"""Tools that answer one value, whatever their arguments, because the policy says so. Pure."""

from __future__ import annotations

from dataclasses import replace

from freezeframe.seams import Call
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Kind, Response
from freezeframe_schemas.fixture import Fixture

_FIXED = frozenset({Kind.TOOL, Kind.RETRIEVAL})
_YIELDS = b'{"yields": ['


def can_be_fixed(call: Call) -> bool:
    """Return whether the call is one of the application's functions."""
    return call.kind in _FIXED and not call.request.method


def fixed_answer(recorded: Exchange, value: str) -> Exchange:
    """Return a recorded call of a function with another result, as JSON; a generator yields it, item by item."""
    if recorded.response.body.startswith(_YIELDS):
        value = f'{{"yields": {value if value.lstrip().startswith("[") else f"[{value}]"}, "return": null}}'
    chunks = (Chunk(data=value.encode(), offset_ns=0),)
    response = replace(recorded.response, chunks=chunks, completion=Completion.COMPLETE, omitted=None)
    return replace(recorded, response=response, error=None)


def made_up_answer(call: Call, value: str, fixture: Fixture) -> Exchange:
    """Return the answer to a call that is not in the recording; it is due at once."""
    alike = next((step.exchange for step in fixture.steps if step.exchange.name == call.name), None)
    plain = Exchange(kind=call.kind, name=call.name, seam=call.seam, request=call.request)
    response = Response(completion=Completion.COMPLETE) if alike is None else alike.response
    return fixed_answer(replace(plain, response=response, lane=call.lane, sequence=call.sequence), value)
