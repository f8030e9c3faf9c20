"""Files that a person names in place of a run: archives of the replay service, OTLP as protobuf, and files that are neither."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from handmade_runs import make_run, model_call, tool_call
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.sources.fixture_archive import load_fixture_archive
from freezeframe_replay.sources.span_file import load_run_of_file
from freezeframe_replay.web.downloads import fixture_archive
from freezeframe_schemas.errors import FixtureError
from freezeframe_schemas.fixture import write_fixture
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json
from freezeframe_schemas.run import build_run

SPANS = make_run(model_call("where?", "x" * 70_000), tool_call("track", "Lyon", "AC-1"))


def test_an_archive_of_the_service_is_a_fixture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What /api/v1/runs/ID/fixture gives is read directly, blobs included."""
    run = build_run(SPANS)
    archive = tmp_path / f"fixture-{run.trace_id}.tar.gz"
    archive.write_bytes(fixture_archive(run))
    assert load_fixture_archive(archive) == freeze(run)
    assert main(["verify", str(archive)]) == 0
    assert "whole, 2 steps" in capsys.readouterr().out
    assert main(["show", str(archive)]) == 0


def packed(*members: tuple[str, bytes | str]) -> bytes:
    """Return a gzipped tar; a text as content makes a link to it."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as archive:
        for name, content in members:
            item = tarfile.TarInfo(name)
            if isinstance(content, str):
                item.type, item.linkname = tarfile.SYMTYPE, content
                archive.addfile(item)
            else:
                item.size = len(content)
                archive.addfile(item, io.BytesIO(content))
    return whole.getvalue()


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "above": (lambda: packed(("../manifest.json", b"{}"), ("../../etc/passwd", b"x")), "not a file of a fixture"),
    "absolute": (lambda: packed(("/etc/evil", b"x")), "not a file of a fixture"),
    "link": (lambda: packed(("f/manifest.json", "/etc/passwd")), "a link or device"),
    "link to a folder": (lambda: packed(("f/blobs", "/etc")), "a link or device"),
    "twice": (lambda: packed(("f/steps.json", b"[]"), ("f/steps.json", b"[1]")), "expected the files of one fixture"),
    "two fixtures": (lambda: packed(("f/steps.json", b"[]"), ("g/manifest.json", b"{}")), "expected the files of one fixture"),
    "bomb": (lambda: packed(("f/steps.json", b" " * 3_000_000)), "more than 1,000,000 bytes unpacked"),
    "bomb behind the end": (
        lambda: packed(("f/manifest.json", b"{}")) + gzip.compress(b"\0" * 3_000_000),
        r"f.tar.gz/manifest.json: not a freezeframe",
    ),
    "not gzip": (lambda: b"PK..", "cannot be read as a fixture archive"),
    "cut": (lambda: packed(("f/steps.json", bytes(range(256)) * 100))[:150], "cannot be read as a fixture archive"),
    "empty": (packed, "no manifest.json"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_archive_writes_nothing_outside_and_no_more_than_a_bound(name: str, tmp_path: Path) -> None:
    make, fault = HOSTILE[name]
    (tmp_path / "in").mkdir()
    archive = tmp_path / "in" / "f.tar.gz"
    archive.write_bytes(make())
    with pytest.raises(FixtureError, match=fault):
        load_fixture_archive(archive, limit_bytes=1_000_000)
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "f.tar.gz"]


def test_spans_as_protobuf_are_a_run(tmp_path: Path) -> None:
    """An ExportTraceServiceRequest, and several after their lengths, as the Collector's file exporter writes them."""
    whole = encode_traces(SPANS)
    assert ExportTraceServiceRequest.FromString(whole)
    parts = [encode_traces([span]) for span in SPANS]
    for content in (whole, b"".join(len(part).to_bytes(4, "big") + part for part in parts)):
        for written in (content, gzip.compress(content)):
            (tmp_path / "spans.pb").write_bytes(written)
            assert load_run_of_file(tmp_path / "spans.pb") == build_run(SPANS)


def test_a_list_of_documents_is_read_as_lines_are(tmp_path: Path) -> None:
    documents = [spans_to_otlp_json([span]) for span in SPANS]
    for text in (json.dumps(documents), json.dumps(documents, indent=1)):
        (tmp_path / "spans.json").write_text(text)
        assert load_run_of_file(tmp_path / "spans.json") == build_run(SPANS)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'[{"a": 1}]', "item 1: found an object with a, expected OTLP/JSON"),
        (b"[1]", "item 1: found a number"),
        (b"[[]]", "item 1: found a list"),
        (b'"x"', "found a string"),
        (b'{\n"a":\n1}', "found an object with a"),
        (b"\n\x01\x02\xff", "4 bytes that are not OTLP protobuf"),
        (b"\x00\x00\x00\x09\x0a", "not OTLP protobuf"),
    ],
)
def test_what_is_not_otlp_is_told_in_words_and_not_as_an_error_of_python(
    content: bytes, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spans.pb").write_bytes(content)
    assert main(["show", "spans.pb"]) == 1
    said = capsys.readouterr().err
    assert fault in said
    assert "spans.pb" in said
    assert not any(word in said for word in ("codec", "object has no attribute", "Traceback"))


def test_a_fixture_folder_that_is_named_like_an_archive_is_a_folder(tmp_path: Path) -> None:
    write_fixture(freeze(build_run(SPANS)), tmp_path / "f.tar.gz")
    assert main(["verify", str(tmp_path / "f.tar.gz")]) == 0
