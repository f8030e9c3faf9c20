"""Every recorded exchange of the providers whose own SDK is here, asked through it: captured, and replayed equal.

The openai and anthropic SDKs ask for the rest in tests/replay/test_recorded_traffic.py.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import Any

import pytest
from clients.client import Column, Trial, World
from clients.harness import run_trial
from clients.own_sdks import SDKS, OwnSdk, Row, host_of
from clients.provider import recorded, rows
from clients.table import load_traffic, write_traffic

ENVIRONMENT = os.environ.get("FREEZEFRAME_CLIENTS", "")
UPDATE = "FREEZEFRAME_UPDATE_GOLDEN"
HERE = [name for name, sdk in SDKS.items() if ENVIRONMENT and sdk.installed and sdk.environment == ENVIRONMENT]


def conversations(provider: str) -> dict[str, list[Row]]:
    """Return the provider's recorded exchanges by file, in order."""
    files: dict[str, list[Row]] = defaultdict(list)
    for row in rows().values():
        if row["provider"] == provider:
            files[row["file"]].append(row)
    return {file: sorted(found, key=lambda row: row["index"]) for file, found in files.items()}


def trial_of(sdk: OwnSdk, talk: list[Row]) -> Trial:
    def ask(world: World) -> list[Any]:
        results: list[Any] = []
        for row in talk:
            try:
                results.append(sdk.ask(world.url(host_of(row)), row))
            except Exception as error:  # what an SDK makes of a refusal, or of an answer that it cannot read, is its result
                results.append([type(error).__name__, str(error)])
        return results

    return Trial(use=ask, script=recorded(*(row["id"] for row in talk)))


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")  # retired models, unclosed connections of SDKs
@pytest.mark.parametrize("provider", HERE)
def test_the_sdk_makes_of_a_served_answer_what_it_made_of_the_original(provider: str) -> None:
    sdk = SDKS[provider]
    faults: list[str] = []
    counts: Counter[str] = Counter()
    for file, talk in conversations(provider).items():
        outcome = run_trial(trial_of(sdk, talk), Column.SYNC)
        wrong = [*outcome.not_captured, *outcome.not_replayed]
        faults += [f"{file}: {fault}" for fault in wrong]
        counts["exchanges"] += len(talk)
        counts["streamed"] += sum(row["stream"] for row in talk)
        counts["errors"] += sum(row["response"]["status"] >= 400 for row in talk)
        counts["equal"] += 0 if wrong else len(talk)
    if os.environ.get(UPDATE):
        write_traffic(provider, sdk.name, counts)
    assert faults == []
    assert load_traffic()[provider]["exchanges"] == counts["exchanges"]
