"""Patches of libraries that others have patched, too; and what is in progress when a process ends."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import wrapt
from capture_provider import Provider

from freezeframe.seams.recorder.patching import Patches
from freezeframe.testing import capture
from freezeframe_schemas.exchange import Completion


def test_a_method_that_another_library_has_wrapped_goes_on_working(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry's instrumentations wrap methods with wrapt, whose wrappers find ``self`` through the class only."""
    seen: list[object] = []

    def note(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        seen.append(instance)
        return wrapped(*args, **kwargs)

    for owner, name in ((threading.Thread, "start"), (ThreadPoolExecutor, "submit")):
        monkeypatch.setattr(owner, name, wrapt.FunctionWrapper(vars(owner)[name], note))
    with capture():
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        with ThreadPoolExecutor() as executor:
            assert executor.submit(lambda: 7).result() == 7
    assert thread in seen
    assert executor in seen


def test_a_patch_of_every_subclass_reaches_those_made_later_and_is_undone() -> None:
    class Base:
        pass

    class Before(Base):
        pass

    patches = Patches()
    found: list[type] = []
    patches.in_subclasses(Base, found.append)

    class After(Before):
        pass

    assert found == [Before, After]
    patches.undo()

    type("AfterUndo", (Base,), {})
    assert found == [Before, After]


@pytest.mark.long
def test_a_stream_that_nobody_closed_is_recorded_when_the_process_ends(provider: Provider) -> None:
    import openai

    client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key="x", max_retries=0)
    gc.disable()  # else the collector of cycles may close it first
    try:
        with capture() as captured:
            stream = client.chat.completions.create(model="gpt-4o", messages=[], stream=True)
            next(iter(stream))
        (exchange,) = captured.exchanges
    finally:
        gc.enable()
    assert exchange.response.completion is Completion.CLOSED_EARLY
    assert exchange.response.body.startswith(b"data: ")
