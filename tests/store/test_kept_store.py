"""The store that the replay service keeps open: found again after a restart, and not asked twice for the run shown last."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade_runs import make_run, tool_call
from serving import serving

from freezeframe_collector.store import Store
from freezeframe_replay.sources.store import KeptStore, RunStore

pytestmark = pytest.mark.long

TRACE = "cafe" * 8


def test_a_collector_that_was_restarted_is_found_again(store: Store) -> None:
    """At another port, and at the same one with a connection that is closed."""
    urls: list[str] = []
    kept = KeptStore(lambda: urls[-1])

    def one(opened: RunStore) -> object:
        return opened.sql("SELECT 1")[1][0][0]

    for _ in range(2):
        with serving(store, here=True) as url:
            urls.append(url)
            assert kept.use(one) == 1
    with serving(store, here=True) as url:
        urls.append(url)
        seen: list[RunStore] = []
        kept.use(seen.append)
        kept.use(seen.append)
        assert seen[0] is seen[1]
        kept.close()
        kept.use(seen.append)
        assert seen[2] is not seen[0]


def test_the_run_shown_last_is_not_read_again(store: Store, facade_url: str) -> None:
    """So that its steps open at once; one that arrives later is another run."""
    spans = [replace(span, trace_id=TRACE) for span in make_run(tool_call("track", 1))]
    store.insert(spans, token="kept")
    kept = KeptStore(lambda: facade_url)
    run = kept.load(TRACE)
    assert kept.load(TRACE) is run
    assert kept.load(TRACE[:12]) == run
