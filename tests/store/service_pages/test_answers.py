"""What every page and route keeps to: errors, compression, bodies as recorded, the description of the API."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from service_pages import Client, text

from freezeframe_collector.store import Store
from freezeframe_schemas.run import Run

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # a store, and programs that are started again


@pytest.mark.proof
async def test_errors_are_pages_for_people_and_json_for_programs(client: Client) -> None:
    for path, status in (("/nowhere", 404), ("/diff?before=x", 400), ("/runs/ffff0000ffff", 404), ("/runs/last?tab=odd", 400)):
        answer = await client.get(path)
        assert (answer.status, answer.content_type) == (status, "text/html"), path
        assert '<a href="/">' in await answer.text()
    answer = await client.get("/api/v1/runs/ffff0000ffff")
    assert (answer.status, answer.content_type) == (404, "application/json")


async def test_pages_are_compressed_for_those_who_take_it(client: Client, runs: dict[str, Run]) -> None:
    for path in (f"/runs/{runs['good'].trace_id}", f"/api/v1/runs/{runs['good'].trace_id}"):
        packed = await client.get(path, headers={"Accept-Encoding": "gzip, deflate, br"})
        plain = await client.get(path, headers={"Accept-Encoding": "identity"})
        assert packed.headers["Content-Encoding"] == "gzip"
        assert "Content-Encoding" not in plain.headers
        assert int(packed.headers["Content-Length"]) < len(await plain.read())


@pytest.mark.proof("page /runs/{run}/steps/{step}", "page /runs/{run}/steps/{step}/{part:request|response}", "page /runs/{run}")
async def test_a_step_shows_its_bodies_and_gives_them_as_recorded(client: Client, runs: dict[str, Run]) -> None:
    run = runs["good"]
    page = await text(client, f"/runs/{run.trace_id}/steps/2")
    assert "step 2, tool track" in page and "place" in page
    for part in ("request", "response"):
        answer = await client.get(f"/runs/{run.trace_id}/steps/2/{part}")
        assert await answer.read() == getattr(run.exchanges[1], part).body
        assert (answer.content_type, answer.headers["Content-Disposition"][:10]) == ("application/octet-stream", "attachment")
    for path in ("steps/99", "steps/99/request", "steps/2?response=x"):
        assert (await client.get(f"/runs/{run.trace_id}/{path}")).status in (400, 404)


@pytest.mark.proof("page /diff")
async def test_two_runs_stand_beside_each_other(client: Client, runs: dict[str, Run]) -> None:
    page = await text(client, f"/diff?before={runs['good'].trace_id}&after={runs['failed'].trace_id}")
    assert "only in the first" in page
    assert (await client.get("/diff?before=x")).status == 400
    assert (await client.get(f"/diff?before={runs['good'].trace_id}&after=ffff0000ffff")).status == 404


@pytest.mark.proof
async def test_every_route_of_the_api_answers_as_its_description_says(
    client: Client, runs: dict[str, Run], store: Store
) -> None:
    """The description is that of the routes that the service has; each JSON answer fits its schema."""
    described = await (await client.get("/api/v1/openapi.json")).json()
    served = {
        (route.method.lower(), route.resource.canonical)
        for route in client.app.router.routes()
        if route.resource is not None and route.resource.canonical.startswith("/api/") and route.method != "HEAD"
    }
    assert {(method, path) for path, methods in described["paths"].items() for method in methods} == served
    good, failed = runs["good"].trace_id, runs["failed"].trace_id
    bodies = {
        "/api/v1/sql": {"query": "SELECT name FROM runs WHERE trace_id = {run:String}", "parameters": {"run": good}},
        "/api/v1/runs/{run}/fork": {"target": "result", "step": 1, "value": ["AC-2"]},
    }
    queries = {"/api/v1/diff": f"?before={good}&after={failed}", "/api/v1/runs": "?limit=5&service=page-agent"}
    given: dict[str, Any] = {}
    # one is in the test of sets, one in that of labels, which has a collector
    for method, path in sorted(served - {("get", "/api/v1/sets/{name}"), ("post", "/api/v1/runs/{run}/labels")}):
        url = path.replace("{run}", good).replace("{kind}", "otlp") + queries.get(path, "")
        answer = await client.request(method, url, json=bodies.get(path))
        if path.endswith(("/pack", "/export/{kind}")):  # the runs of this test went through no policy
            assert (answer.status, "never redacted" in await answer.text()) == (422, True)
            answer = await client.get(f"{url}?unredacted=1")
        assert answer.status == 200, (path, await answer.text())
        (media, content), *_ = described["paths"][path][method]["responses"]["200"]["content"].items()
        assert answer.content_type == media
        if media == "application/json":
            given[path] = await answer.json()
            jsonschema.validate(given[path], {**content["schema"], "components": described["components"]})
    assert given["/api/v1/sql"] == {"columns": ["name"], "rows": [["answer"]]}
    assert given["/api/v1/runs/{run}"]["run_id"] == good
    assert failed in {group["newest"] for group in given["/api/v1/failures"]}
    assert given["/api/v1/runs/{run}/labels"] == {}
    replayed = given["/api/v1/runs/{run}/replay"]
    assert replayed["verdict"] == "identical"
    assert [bool(made["frames"]) for made in replayed["made"]] == [True, True], "where the program was at each step"
    assert given["/api/v1/runs/{run}/fork"]["verdict"] != "identical"


async def test_what_runs_code_or_asks_sql_tells_a_browser_and_a_wrong_request_no(client: Client, runs: dict[str, Run]) -> None:
    path = f"/api/v1/runs/{runs['good'].trace_id}"
    entered = await client.get((await (await client.post("/links")).json())["link"], allow_redirects=False)
    cookie = {"Authorization": "", "Cookie": entered.headers["Set-Cookie"].partition(";")[0]}
    assert (await client.get(path, headers=cookie)).status == 200
    for method, url, body in (
        ("POST", f"{path}/replay", None),
        ("POST", f"{path}/fork", {}),
        ("POST", "/api/v1/sql", {}),
        ("POST", f"{path}/labels", {}),
    ):
        answer = await client.request(method, url, json=body, headers=cookie)
        assert (answer.status, answer.content_type) == (401, "application/json")
    for url, body in ((f"{path}/fork", {"target": "odd"}), (f"{path}/fork", [1]), ("/api/v1/sql", {"query": 1})):
        assert (await client.post(url, json=body)).status == 400
    refused = await client.post("/api/v1/sql", json={"query": "DROP TABLE spans"})
    assert refused.status == 422
    assert (await client.get(f"{path}/export/odd")).status == 404
    assert (await client.get(f"{path}/pack?code=odd")).status == 400
