"""The pictures of the pages in the docs: ``make demo``, then ``python tests/support/page_pictures.py``.

It starts the collector and a replay service over what the demo left, opens the pages in Chromium, and writes PNG files to
`docs/pictures`. Look at each before you commit it. `shapes.json` beside them has where the blocks of each page stand. A test
compares the pages with it as they are drawn now: pixels differ from machine to machine, and data from run to run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import httpx
from browser import CHROMIUM, Chromium

from freezeframe_schemas.local_tokens import READER, bearer, read_token

ROOT: Final = Path(__file__).parents[2]
WIDTH: Final = 1180
SHAPES: Final = ROOT / "docs" / "pictures" / "shapes.json"
SHAPE: Final = """
(() => {
  const blocks = ["header.top", "h1", ".strip", ".facts", ".actions", ".tabs", ".transcript", ".card", ".timeline",
    ".timeline .bar", ".slide", ".stepping nav", ".stepping .frame", ".pairs", ".pairs .part", ".pairs del", ".pairs ins"];
  const found = blocks.map(name => [name, document.querySelector(`main ${name}, body > ${name}`)?.getBoundingClientRect()]);
  const shown = found.filter(([, box]) => box && box.width).sort(([, one], [, other]) => one.top - other.top);
  return shown.map(([name, box]) => [name, Math.round(box.left / innerWidth * 100), Math.round(box.width / innerWidth * 100)]);
})()
"""
"""Gives the blocks of a page from above to below: which, and where each begins and how wide it is, in percent of the page."""


def main() -> None:
    """Make them all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--demo", type=Path, default=ROOT / ".demo", help="what `make demo` left")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "pictures")
    arguments = parser.parse_args()
    if CHROMIUM is None:
        sys.exit("chromium: not found; install it, for example `apt-get install chromium`")
    data, project = arguments.demo / "freezeframe", arguments.demo / "support-bot"
    environment = {**os.environ, "FREEZEFRAME_DATA": str(data)}

    def freezeframe(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "freezeframe._cli", *words], env=environment, cwd=project, check=True)

    freezeframe("up", *(f"--{name}-port=0" for name in ("grpc", "http", "clickhouse", "replay")))
    service = subprocess.Popen(
        [sys.executable, "-m", "freezeframe_replay.service.app", "--data", str(data), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=project,
        env=environment,
    )
    assert service.stdout is not None
    origin = service.stdout.readline().split()[-1]
    try:
        with tempfile.TemporaryDirectory() as profile:
            take(Chromium(Path(profile)), origin, data, arguments.output)
    finally:
        service.terminate()
        service.wait()
        freezeframe("down")


def take(browser: Chromium, origin: str, data: Path, output: Path) -> None:
    """Walk through the pages, and write a picture of each."""

    shapes: dict[str, object] = {}

    def picture(name: str, *, height: int) -> None:
        browser.show_as(width=WIDTH, height=height)
        browser.run("scrollTo(0, 0)")
        (output / f"page-{name}.png").write_bytes(browser.picture())
        shapes[name] = browser.run(SHAPE)

    try:
        browser.show_as(width=WIDTH)
        link = httpx.post(f"{origin}/links", headers=bearer(read_token(data, READER)), timeout=400).json()["link"]
        browser.visit(f"{origin}{link}")
        browser.visit(f"{origin}/runs/last")
        picture("run", height=900)
        browser.visit(f"{origin}/runs/last?tab=timeline")
        picture("timeline", height=700)
        browser.visit(f"{origin}/runs/last")
        text = browser.click("form[action$=replay] button")
        while "Cancel" in text:
            text = browser.visit(browser.run("location.href"))
        browser.press("s", loads=True)
        browser.press("n", loads=True)
        picture("step", height=760)
        runs = httpx.get(f"{origin}/api/v1/runs", headers=bearer(read_token(data, READER)), timeout=400).json()
        browser.visit(f"{origin}/diff?before={runs[-1]['trace_id']}&after={runs[0]['trace_id']}")
        picture("diff", height=760)
        lines = [f"{json.dumps(name)}: {json.dumps(shape)}" for name, shape in shapes.items()]
        (output / SHAPES.name).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    finally:
        browser.close()


if __name__ == "__main__":
    main()
