"""A project whose agent is looked at in the pages of the replay service, and what a browser does there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient
from aiohttp.web import Application, Request

from freezeframe_schemas.run import Run

Client = TestClient[Request, Application]
AGENT = """
import sys
import freezeframe

freezeframe.instrument()


@freezeframe.tool
def find_orders(name):
    return ["AC-1", "<b>AC-2</b>"]


@freezeframe.tool
def track(order):
    if order == "lost":
        raise LookupError("no such order: <script>lost</script>")
    return {"order": order, "place": "Lyon"}


@freezeframe.run(user="ann")
def answer(question):
    if "soft" in question:
        try:
            track("lost")
        except LookupError:
            pass
    order = "lost" if "lost" in question else find_orders(question)[0]
    return f"it is in {track(order)['place']}"


if __name__ == "__main__":
    answer(sys.argv[1])
"""


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments], cwd=folder, check=True)


async def text(client: Client, path: str) -> str:
    answer = await client.get(path)
    assert answer.status == 200, await answer.text()
    return await answer.text()


async def ended(client: Client, answer: ClientResponse) -> str:
    """Return the page of a replay once it shows what was found, as a browser does that follows the page's own refresh."""
    page = await answer.text()
    assert answer.status == 200, page
    while found := re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page):
        page = await text(client, found[1])
    return page


async def own_form(client: Client, run: Run) -> tuple[dict[str, str], dict[str, str]]:
    """Return the token and the Origin that a form of the run's own page sends."""
    (token,) = set(re.findall(r'name="token" value="([^"]+)"', await text(client, f"/runs/{run.trace_id}")))
    return {"token": token}, {"Origin": str(client.make_url("")).rstrip("/")}
