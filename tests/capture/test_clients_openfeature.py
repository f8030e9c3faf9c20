"""OpenFeature: flags that a run evaluates are part of it. Needs openfeature-sdk."""

from __future__ import annotations

from typing import Any

import pytest

import freezeframe
from freezeframe.testing import capture
from freezeframe_schemas import genai, values
from freezeframe_schemas.run import build_run

api: Any = pytest.importorskip("openfeature.api")
memory: Any = pytest.importorskip("openfeature.provider.in_memory_provider")


@pytest.mark.proof("seam frameworks.openfeature")
def test_the_flags_that_a_run_evaluates_are_recorded() -> None:
    flag = memory.InMemoryFlag("on", {"on": True, "off": False})
    api.set_provider(memory.InMemoryProvider({"new-prices": flag}))

    @freezeframe.run
    def agent() -> bool:
        return api.get_client().get_boolean_value("new-prices", False)

    with capture() as captured:
        assert agent() is True
        run = build_run(captured.spans)
    assert values.decode(run.entry.flags or "") == {"new-prices": True}
    [event] = run.spans[0].events
    assert event.name == genai.FLAG_EVENT
    assert event.attributes[genai.FLAG_KEY] == "new-prices"
    assert event.attributes[genai.FLAG_VARIANT] == "on"
