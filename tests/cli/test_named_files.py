"""Files that a person names in place of a run: archives of the replay service, OTLP as protobuf, and files that are neither."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tracemalloc
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
    assert main(["fixture", "verify", str(archive)]) == 0
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


def chained(count: int, kind: bytes = tarfile.GNUTYPE_LONGNAME, size: int = 20) -> bytes:
    """Return an archive in which one file has this many headers of extensions, each of this size."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = kind, size
    one = header.tobuf(tarfile.GNU_FORMAT) + b"x".ljust(-(-size // 512) * 512, b"\0")
    return gzip.compress(one * count + packed_plain("f/manifest.json", b"{}"))


def packed_plain(name: str, content: bytes, **pax: str) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as archive:
        item = tarfile.TarInfo(name)
        item.size, item.pax_headers = len(content), {key.replace("_", "."): text for key, text in pax.items()}
        archive.addfile(item, io.BytesIO(content))
    return whole.getvalue()


def of_steps(text: str) -> bytes:
    """Return an archive of a fixture with these steps."""
    return packed(("f/manifest.json", b'{"format": "freezeframe-fixture", "version": 1}'), ("f/steps.json", text.encode()))


def with_entry(value: object) -> bytes:
    """Return an archive of a whole fixture whose input is this JSON."""
    import freezeframe_schemas.fixture as fixtures

    manifest = {"format": "freezeframe-fixture", "version": 1, "run": "ab", "entry": {"input": {"text": value}}, "steps": 0}
    manifest["digest"] = fixtures._digest(manifest, [])
    return packed(("f/manifest.json", json.dumps(manifest).encode()), ("f/steps.json", b"[]"))


CRASHES: dict[str, Callable[[], bytes]] = {
    "long names in a chain": lambda: chained(5000),
    "long links in a chain": lambda: chained(5000, tarfile.GNUTYPE_LONGLINK),
    "PAX headers in a chain": lambda: chained(5000, tarfile.XHDTYPE),
    "a name of 30 MB": lambda: chained(1, size=30 << 20),
    "a sparse map that is no numbers": lambda: gzip.compress(packed_plain("f/steps.json", b"x", GNU_sparse_map="a,b,c")),
    "a sparse size that is no number": lambda: gzip.compress(
        packed_plain("f/a", b"x", GNU_sparse_major="1", GNU_sparse_size="z")
    ),
    "a size that is no number": lambda: gzip.compress(packed_plain("f/a", b"x", size="-1")),
    "a manifest of a million brackets": lambda: packed(("f/manifest.json", b"[" * 1_000_000), ("f/steps.json", b"[]")),
    "steps of a million brackets": lambda: of_steps("[" * 1_000_000),
    "200,000 nested objects": lambda: packed(
        ("f/manifest.json", b'{"a":' * 200_000 + b"1" + b"}" * 200_000), ("f/steps.json", b"[]")
    ),
    "steps as deep as JSON is read": lambda: of_steps("[" * 900 + "]" * 900),
    "steps that are no objects": lambda: of_steps("[1, [], null]"),
    "steps that are an object": lambda: of_steps('{"a": 1}'),
    "more values than memory": lambda: of_steps("[" + "[]," * 10_000_001 + "[]]"),
    "a number of 10,000 digits": lambda: of_steps(f"[{'9' * 10_000}]"),
    "an input that is no text": lambda: with_entry(5),
    "an input as a list of lists": lambda: with_entry([[]]),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CRASHES)
def test_an_archive_that_cannot_be_read_ends_in_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "bug.ffz"
    archive.write_bytes(CRASHES[name]())
    for command in ("show", "fixture verify"):
        assert main([*command.split(), str(archive)]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"freezeframe {command}: {archive}")
        assert len([line for line in said.splitlines() if not line.startswith("  do:")]) == 1
        assert len(said) < 1000


def test_an_input_that_is_nested_deeper_than_the_stack_ends_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "bug.ffz"
    archive.write_bytes(with_entry('{"args": ' + "[" * 100_000 + "]" * 100_000 + "}"))
    assert main(["show", str(archive)]) in (0, 1)
    assert len(capsys.readouterr().err.splitlines()) <= 1


@pytest.mark.long
def test_what_an_archive_unpacks_to_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    """Neither a large file that is kept, nor one that is refused."""
    archive = tmp_path / "bug.ffz"
    archive.write_bytes(packed(("f/manifest.json", b"{}"), (f"f/blobs/{'ab' * 32}", b"\0" * (40 << 20))))
    for limit in (64 << 20, 16 << 20):
        tracemalloc.start()
        try:
            with pytest.raises(FixtureError):
                load_fixture_archive(archive, limit_bytes=limit)
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


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
    assert main(["fixture", "verify", str(tmp_path / "f.tar.gz")]) == 0
