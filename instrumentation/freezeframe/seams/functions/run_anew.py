"""A function that a replay runs, by request, although the recording has its result, to test its new code.

Its calls are answered like any others, from the steps recorded inside this call. Its result or exception goes
to the replay, which compares it, and to the program.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from freezeframe._guard import guard
from freezeframe.context.current import PLACE, current_place, leave
from freezeframe.seams.recorder import switch
from freezeframe.seams.recorder.responder import Call, Responder
from freezeframe_schemas import values
from freezeframe_schemas.errors import ReplayMiss
from freezeframe_schemas.exchange import Chunk, Completion, Exchange, Response


class RunAnew:
    """One such call."""

    __slots__ = ("_answer", "_call", "_responder")

    def __init__(self, responder: Responder, answer: Exchange, call: Call) -> None:
        self._responder = responder
        self._answer = answer
        self._call = call

    @contextmanager
    def inside(self) -> Generator[None]:
        """Run the function's own code in this block."""
        place = current_place()
        inner = replace(place, lane=place.lane.aside(), inside_call=True, run_anew=True, call_span_id=self._answer.span_id)
        token = PLACE.set(inner)
        try:
            yield
        finally:
            leave(token)

    def returned(self, text: str) -> None:
        """Report its result, as tagged JSON."""
        self._report(text, None, Completion.COMPLETE)

    def raised(self, error: BaseException, text: str | None = None) -> None:
        """Report its exception, after its items. A miss is not the function's exception: the replay ends there."""
        if not isinstance(error, ReplayMiss):
            completion = Completion.NONE if text is None else Completion.BROKEN
            self._report(text, values.encode_exception(error), completion)

    def closed_early(self, text: str) -> None:
        """Report the items up to the program's closing of it."""
        self._report(text, None, Completion.CLOSED_EARLY)

    def _report(self, text: str | None, error: str | None, completion: Completion) -> None:
        self._responder.ran(self._answer, text, error)
        kept_by = None if current_place().run_anew else switch.recorder()
        if kept_by is not None:
            chunks = () if text is None else (Chunk(data=text.encode()),)
            with guard("run_anew.code"):
                code = None if self._call.code is None else self._call.code()
                response = Response(chunks=chunks, completion=completion)
                kept_by.keep(self._call, replace(self._answer, response=response, error=error, code=code))


class ItemsAnew:
    """Watches a generator that runs anew, and joins its items as a recording does."""

    __slots__ = ("_anew", "_items")

    def __init__(self, anew: RunAnew) -> None:
        self._anew = anew
        self._items: list[str] = []

    @contextmanager
    def inside(self) -> Generator[None]:
        with self._anew.inside():
            yield

    def add(self, item: object) -> None:
        self._items.append(values.encode(item))

    def sent(self) -> None:
        """Do nothing: it runs, and gets what is sent."""

    def end(self, completion: Completion, error: BaseException | None = None, *, result: object = None) -> None:
        text = f'{{"yields": [{", ".join(self._items)}], "return": {values.encode(result)}}}'
        if error is not None:
            self._anew.raised(error, text)
        elif completion is Completion.CLOSED_EARLY:
            self._anew.closed_early(text)
        else:
            self._anew.returned(text)
