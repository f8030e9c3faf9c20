"""Every client library of this environment, on recorded bytes: captured byte-exact, replayed equal.

`make test-clients` runs this in each environment, with FREEZEFRAME_CLIENTS naming it. FREEZEFRAME_UPDATE_GOLDEN=1 writes the
results and the page anew.
"""

from __future__ import annotations

import os

import pytest
from clients.client import CORE, Client, Column
from clients.table import END, PAGE, all_clients, load_results, load_structure, load_traffic, page, try_column, write_cell

ENVIRONMENT = os.environ.get("FREEZEFRAME_CLIENTS", CORE)
UPDATE = "FREEZEFRAME_UPDATE_GOLDEN"
"""Set to 1 to write results and page anew."""

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the recordings name models that have retired since

CELLS = [
    pytest.param(
        client,
        column,
        id=f"{client.name}-{column.value}",
        marks=pytest.mark.proof("seam http.httpx") if column is Column.SYNC else (),
    )
    for client in all_clients()
    if client.environment == ENVIRONMENT
    for column in Column
    if not isinstance(client.trials[column], str) or os.environ.get(UPDATE)
]


@pytest.mark.long
@pytest.mark.parametrize(("client", "column"), CELLS)
def test_a_client_is_captured_and_replayed(client: Client, column: Column, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FREEZEFRAME_RAISE", "1")
    cell, outcome = try_column(client, column)
    if os.environ.get(UPDATE):
        write_cell(client, column, cell, outcome.seams)
    assert [*outcome.not_captured, *outcome.not_replayed] == []
    assert load_results()[client.name]["cells"][column.value] == cell


@pytest.mark.skipif(ENVIRONMENT != CORE and not os.environ.get(UPDATE), reason="once is enough")
def test_the_page_says_what_the_results_say() -> None:
    """FREEZEFRAME_UPDATE_GOLDEN=1 writes it anew."""
    text = page(load_results(), load_traffic(), load_structure())
    before, end, rest = PAGE.read_text("utf-8").partition(END)
    if os.environ.get(UPDATE):
        PAGE.write_text(text + end + rest, "utf-8")
        before = text
    assert before == text


@pytest.mark.skipif(ENVIRONMENT != CORE, reason="once is enough")
def test_every_cell_of_the_table_has_been_run_or_says_why_not() -> None:
    results = load_results()
    lacking = [
        f"{client.name}: {column.value}"
        for client in all_clients()
        for column in Column
        if (isinstance(tried := client.trials.get(column, ""), str) and not tried)
        or column.value not in results.get(client.name, {}).get("cells", {})
    ]
    assert lacking == []
