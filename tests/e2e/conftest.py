"""End to end for real: example agent -> OTLP -> collector (redacts) -> embedded ClickHouse -> SQL -> fixture."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from order_shop import EXAMPLE, Shop, serving
from theatre import VARIANTS, Recorded, Theatre, freezeframe

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.sources.store import open_runs
from freezeframe_schemas.run import build_run


@pytest.fixture(scope="session")
def theatre(tmp_path_factory: pytest.TempPathFactory, warm_server: str) -> Iterator[Theatre]:
    """Start the collector, the provider and the shop; let every variant of the agent answer once."""
    root = tmp_path_factory.mktemp("theatre")
    data, world = root / "data", root / "world"
    ports = [f"--{name}-port=0" for name in ("grpc", "http", "clickhouse", "replay")]
    subprocess.run([sys.executable, EXAMPLE / "world.py", world, "set", "3pm"], check=True)
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(sys, "executable", warm_server)  # a module fixture would come later
        freezeframe("up", *ports, data=data)
        stack.callback(freezeframe, "down", data=data, check=False)
        addresses = json.loads((data / "ports.json").read_text())
        provider = stack.enter_context(serving("provider.py"))
        pricing = stack.enter_context(serving("pricing_api.py", str(world)))
        shop = Shop(
            directory=world,
            environment={
                **provider,
                **pricing,
                "ORDER_WORLD": str(world),
                "OPENAI_API_KEY": "local",
                "ANTHROPIC_API_KEY": "local",
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{addresses['http']}",
            },
        )
        store = open_runs(f"http://127.0.0.1:{addresses['clickhouse']}")
        runs: dict[str, Recorded] = {}
        for variant in VARIANTS:
            printed = shop.ask(variant=variant)
            freezeframe("runs", data=data)  # waits until all that was acked can be queried
            run = build_run(store.load_spans("last"))
            runs[variant] = Recorded(variant=variant, printed=printed, run=run, fixture=freeze(run))
        patch.undo()
        yield Theatre(data=data, store=store, shop=shop, runs=runs)
