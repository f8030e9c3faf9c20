"""A run as one file: what a pack holds, what it leaves out, and what a reader of such a file refuses."""

from __future__ import annotations

import gzip
import hashlib
import html
import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from handmade_runs import make_run, model_call, tool_call

from freezeframe_replay.cli import main
from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.local.code import code_as_it_is, code_of_commit
from freezeframe_replay.report.outline import outline_run
from freezeframe_replay.sources.fixture_archive import (
    Pack,
    archive_bytes,
    fixture_files,
    load_fixture_archive,
    pack_file,
    unpacked,
)
from freezeframe_replay.web.run_pages import page_of_a_file
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError, FixtureError
from freezeframe_schemas.fixture import write_fixture
from freezeframe_schemas.otlp.json_form import spans_to_otlp_json
from freezeframe_schemas.run import build_run
from freezeframe_schemas.span import SpanRecord

NASTY = "</style><script>document.title='owned'</script><img src=https://evil.example/x>"
SPANS = make_run(model_call(NASTY, "x" * 70_000), tool_call("track", "Lyon", "AC-1"))


def redacted(spans: list[SpanRecord], policy: str = "strict@0", **resource: str) -> list[SpanRecord]:
    return [
        replace(
            span,
            attributes={**span.attributes, genai.REDACTION_POLICY: policy},
            resource=replace(span.resource, attributes={**span.resource.attributes, **resource}),
        )
        for span in spans
    ]


def write_spans(path: Path, spans: list[SpanRecord]) -> Path:
    path.write_text(json.dumps(spans_to_otlp_json(spans)))
    return path


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """The files of a fixture, by their names in an archive."""
    write_fixture(freeze(build_run(SPANS)), tmp_path / "fixture")
    return fixture_files(tmp_path / "fixture")


def with_pack(files: Mapping[str, bytes], /, **changed: object) -> dict[str, bytes]:
    """Return the files with a pack.json that names them, or says what a test wants."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    made = pack_file(Pack(run="ab", created_by="test", python="3.11", readiness={}, files=digests))["pack.json"]
    return {**files, "pack.json": json.dumps(json.loads(made) | changed).encode()}


def git(directory: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *identity, *words], cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a folder of a repository, with files that no one should pass on."""
    folder = tmp_path / "repo" / "bot"
    folder.mkdir(parents=True)
    git(tmp_path / "repo", "init", "-q")
    (folder.parent / "elsewhere.py").write_text("")
    (folder / ".gitignore").write_text("ignored.txt\n")
    (folder / "agent.py").write_text("old")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    for name in (".env", ".env.local", "tls.pem", "id_ed25519"):
        (folder / name).write_text("secret")
    (folder / "notes.txt").write_text("-----BEGIN RSA " + "PRIVATE KEY-----\n")
    (folder / "requirements.txt").write_text("--index-url https://me:hunter2@example.com/simple\n")
    (folder / "link.py").symlink_to("/etc/passwd")
    git(folder, "add", "-A", "..")
    git(folder, "commit", "-q", "-m", "bot")
    monkeypatch.chdir(folder)
    return folder


def test_code_is_what_git_holds_of_the_folder_without_secrets(repository: Path) -> None:
    """As of a commit, and as it is; neither with what git ignores."""
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "agent.py").write_text("new")
    (repository / "added.py").write_text("added")
    (repository / "ignored.txt").write_text("")
    then, now = code_of_commit(repository, commit), code_as_it_is(repository)
    kept = {".gitignore", "agent.py", "run.sh"}
    assert then.files.keys() == kept
    assert (then.files["agent.py"], then.executable, then.changed) == (b"old", {"run.sh"}, False)
    assert now.files.keys() == kept | {"added.py"}
    assert (now.files["agent.py"], now.executable, now.changed) == (b"new", {"run.sh"}, True)
    assert (then.commit, now.commit) == (commit, commit)
    assert then.left_out == now.left_out
    assert dict(line.split(": ") for line in then.left_out) == {
        **dict.fromkeys([".env", ".env.local", "id_ed25519", "tls.pem"], "may hold secrets, by its name"),
        "link.py": "a link or a submodule",
        "notes.txt": "holds a private key",
        "requirements.txt": "holds a password in an address",
    }


@pytest.mark.parametrize("commit", ["0123456789", "--output=x", "HEAD"])
def test_a_commit_that_is_not_here_is_an_error(repository: Path, commit: str) -> None:
    """A word that git would take for an option or a name never reaches it."""
    with pytest.raises(ConfigError, match="not a hexadecimal id" if not commit.isdigit() else "git ls-tree failed"):
        code_of_commit(repository, commit)


@pytest.mark.proof("command export")
@pytest.mark.long
def test_a_pack_holds_recording_code_and_page(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    run = write_spans(repository / "ignored.txt", redacted(SPANS, **{genai.VCS_REVISION: commit}))
    assert main(["export", "--as", "pack", str(run), "-o", "bug.ffz"]) == 0
    told = capsys.readouterr()
    assert f"2 steps of run {SPANS[0].trace_id}, its page, 3 files of code (commit {commit[:12]})" in told.out
    assert "next: freezeframe replay bug.ffz --packed-code" in told.out
    assert load_fixture_archive(Path("bug.ffz")).steps == freeze(build_run(SPANS)).steps
    with unpacked(Path("bug.ffz"), code=True) as opened:
        assert opened.pack is not None
        assert (opened.pack.commit, opened.pack.python, opened.pack.code_files) == (commit, "3.11.7", 3)
        assert (opened.code / "agent.py").read_text() == "old"
        assert os.access(opened.code / "run.sh", os.X_OK)
        assert "</html>" in (opened.fixture / "run.html").read_text()
    with unpacked(Path("bug.ffz")) as opened:
        assert not opened.code.exists(), "code is not even unpacked unless it is asked for"
    for command in (["show"], ["fixture", "verify"]):
        assert main([*command, "bug.ffz"]) == 0
    first = Path("bug.ffz").read_bytes()
    assert main(["export", "--as", "pack", str(run), "-o", "bug.ffz"]) == 0
    assert Path("bug.ffz").read_bytes() == first
    assert main(["export", "--as", "pack", str(run), "-o", "bug.ffz", "--code", "now", "--json"]) == 0
    assert main(["export", "--as", "pack", str(run), "-o", "bare.ffz", "--code", "none"]) == 0
    assert main(["replay", "bare.ffz", "--packed-code"]) == 1
    assert "bare.ffz holds no code" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "options", "why"),
    [
        ("later.py", (), "is not in commit"),
        ("later.py", ("--code", "commit"), "is not in commit"),
        ("sub/later.py", (), "is not in commit"),
        ("gone.py", (), "is not in this folder"),
        ("ignored.txt", ("--code", "now"), "git ignores it"),
    ],
)
def test_code_without_the_file_in_which_the_run_begins_is_refused_with_the_reason(
    repository: Path, script: str, options: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No replay of such a pack could begin."""
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "sub").mkdir()
    for name in ("later.py", "sub/later.py", "ignored.txt"):
        (repository / name).write_text("")
    spans = [replace(span, attributes={**span.attributes, genai.ENTRY_FILE: script}) for span in SPANS]
    run = write_spans(repository / "run.jsonl", redacted(spans, **{genai.VCS_REVISION: commit}))
    assert main(["export", "--as", "pack", str(run), "-o", "bug.ffz", *options]) == 1
    assert f"{script}, in which the run begins, is" in (said := capsys.readouterr().err)
    assert why in said
    assert not Path("bug.ffz").exists()
    if script.endswith("later.py") and not options:
        assert "commit it and record the run again" in said
        assert main(["export", "--as", "pack", str(run), "-o", "bug.ffz", "--code", "now"]) == 0


def test_without_the_code_a_pack_is_made_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless the code was asked for."""
    monkeypatch.chdir(tmp_path)
    run = str(write_spans(tmp_path / "run.jsonl", redacted(SPANS, **{genai.VCS_REVISION: "0" * 40})))
    assert main(["export", "--as", "pack", run, "-o", "bug.ffz"]) == 0
    assert "warning: no code is packed" in capsys.readouterr().err
    assert main(["export", "--as", "pack", run, "-o", "bug.ffz", "--code", "commit"]) == 1
    assert main(["export", "--as", "pack", run, "-o", "bug.zip"]) == 1
    assert "-o bug.ffz" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("spans", [SPANS, redacted(SPANS, "off@1"), [*redacted(SPANS[:1]), *SPANS[1:]]])
def test_what_was_never_redacted_is_not_packed(
    spans: list[SpanRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a run of which one span went through no policy, either; unless told to."""
    monkeypatch.chdir(tmp_path)
    run = str(write_spans(tmp_path / "run.jsonl", spans))
    assert main(["export", "--as", "pack", run, "-o", "bug.ffz"]) == 1
    assert "it was never redacted" in capsys.readouterr().err
    assert not Path("bug.ffz").exists()
    assert main(["export", "--as", "pack", run, "-o", "bug.ffz", "--unredacted"]) == 0


def test_the_page_of_a_file_loads_nothing_and_runs_nothing() -> None:
    """Markup of a recording stays text; every address is a place on the page."""
    run = build_run(SPANS)
    page = page_of_a_file(run, outline_run(run), named="bug.ffz")
    assert not re.search(r"<(script|img|link|iframe|form)\b", page)
    assert "default-src 'none'" in html.unescape(page)
    ids = re.findall(r'id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="([^"]*)"', page)) <= {f"#{name}" for name in ids}
    assert "the first 65,536 characters" in page


HOSTILE: dict[str, tuple[Callable[[dict[str, bytes]], Mapping[str, bytes]], str]] = {
    "changed code": (lambda f: {**with_pack({**f, "code/a.py": b"a"}), "code/a.py": b"b"}, "'code/a.py' has another hash"),
    "code added": (lambda f: {**with_pack(f), "code/a.py": b"b"}, "'code/a.py' is not named"),
    "code gone": (lambda f: {**with_pack({**f, "code/a.py": b"a"}), **f}, "'code/a.py' "),
    "changed page": (lambda f: {**with_pack({**f, "run.html": b"a"}), "run.html": b"b"}, "'run.html' has another hash"),
    "code in a fixture": (lambda f: {**f, "code/a.py": b""}, "no pack.json, so nothing says"),
    "above": (lambda f: with_pack({**f, "code/../../a.py": b""}), "not a file of a fixture or a pack"),
    "git": (lambda f: with_pack({**f, "code/.git/config": b""}), "not a file of a fixture or a pack"),
    "drive": (lambda f: with_pack({**f, "code/C:\\a.py": b""}), "not a file of a fixture or a pack"),
    "long": (lambda f: with_pack({**f, f"code/{'a' * 300}": b""}), "not a file of a fixture or a pack"),
    "file and folder": (lambda f: with_pack({**f, "code/a": b"", "code/a/b": b""}), "cannot be read as a fixture archive"),
    "other file": (lambda f: with_pack({**f, "conftest.py": b""}), "not a file of a fixture or a pack"),
    "version": (lambda f: with_pack(f, version=9), "pack format version 9, this library reads version 1"),
    "format": (lambda f: with_pack(f, format="zip"), "not from a freezeframe pack"),
    "no files": (lambda f: with_pack(f, files=[]), "pack.json.files: not readable"),
    "not JSON": (lambda f: {**f, "pack.json": b"["}, "pack.json: not valid JSON"),
    "many": (lambda f: {**f, **{f"code/{number}": b"" for number in range(60)}}, "more than 50 files"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_pack_that_was_tampered_with_is_refused(name: str, files: dict[str, bytes], tmp_path: Path) -> None:
    """With nothing written outside its private folder, which is gone."""
    make, fault = HOSTILE[name]
    (tmp_path / "in").mkdir()
    archive = tmp_path / "in" / "bug.ffz"
    content = dict(make(files))
    if name == "code gone":
        del content["code/a.py"]
        fault += "is missing"
    archive.write_bytes(archive_bytes("run-ab", content))
    with pytest.raises(FixtureError, match=re.escape(fault)), unpacked(archive, code=True, limit_files=50):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"in", "fixture"}
    assert [path.name for path in (tmp_path / "in").iterdir()] == ["bug.ffz"]


def test_the_holes_of_a_sparse_file_fill_no_memory(files: dict[str, bytes], tmp_path: Path) -> None:
    """No byte of a hole is in the archive, so the bound on what is unpacked would not see it."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as archive:
        item = tarfile.TarInfo("run-ab/code/a.py")
        sparse = {"major": "0", "minor": "1", "map": "0,0", "size": "1" * 13}
        item.pax_headers = {f"GNU.sparse.{name}": text for name, text in sparse.items()}
        archive.addfile(item)
    (tmp_path / "bug.ffz").write_bytes(gzip.compress(whole.getvalue()))
    with pytest.raises(FixtureError, match="a file with holes"), unpacked(tmp_path / "bug.ffz", code=True):
        pass
