"""A replay never changes the user's files: what the program writes goes to copies that disappear with the replay."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from freezeframe_replay.engine.freeze import freeze
from freezeframe_replay.process.reenact import reenact
from freezeframe_schemas.fixture import Fixture
from freezeframe_schemas.otlp.json_form import spans_from_otlp_json
from freezeframe_schemas.run import build_run
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("warm_python")]  # each test starts programs

MADE = """
import dbm.dumb, json, os, pickle, shelve, sqlite3
os.makedirs("cache/deep/down")
for name in ("a.txt", "cache/b.txt", "cache/deep/c.txt", "cache/deep/down/d.txt"):
    open(name, "w").write(name * 3)
with sqlite3.connect("cache.db") as db:
    db.execute("CREATE TABLE t (x)")
    db.execute("INSERT INTO t VALUES (1)")
db.close()
db = sqlite3.connect("wal.db", isolation_level=None)
db.execute("PRAGMA journal_mode=wal")
db.execute("CREATE TABLE t (x)")
db.close()
with shelve.open("shelf") as shelf:
    shelf["a"] = [1]
with dbm.dumb.open("dumb") as table:
    table["k"] = b"v"
pickle.dump({"a": 1}, open("memo.pkl", "wb"))
os.symlink("a.txt", "link")
"""
ACT_TEXTS = """
# write
open("a.txt", "w").write("new")
say(open("a.txt").read())
# append
open("a.txt", "a").write("more")
say(open("a.txt").read(), os.path.getsize("a.txt"))
# update in place
f = open("a.txt", "r+b")
f.seek(2)
f.write(b"XY")
f.close()
say(open("a.txt", "rb").read())
# a new file
open("cache/new.txt", "x").write("n")
say(sorted(os.listdir("cache")), os.path.exists("cache/new.txt"))
# one that exists
say(failed(open, "a.txt", "x"))
# one that does not
say(failed(open, "none.txt"), failed(os.remove, "none.txt"), failed(open, "no/such/f", "w"))
# remove
os.remove("a.txt")
say(os.path.exists("a.txt"), failed(open, "a.txt"), sorted(os.listdir(".")))
# remove and make again
os.unlink("a.txt")
open("a.txt", "w").write("z")
say(open("a.txt").read())
# replace
open("t.tmp", "w").write("t")
os.replace("t.tmp", "a.txt")
say(open("a.txt").read(), os.path.exists("t.tmp"))
# rename a folder
os.rename("cache/deep", "moved")
say(seen("."), open("moved/down/d.txt").read())
# a tree
shutil.rmtree("cache")
say(os.path.isdir("cache"), seen("."))
os.mkdir("cache")
say(os.listdir("cache"))
# copies
shutil.copytree("cache", "copy")
shutil.copy2("a.txt", "copy")
shutil.move("copy", "c2")
say(seen("."))
# folders
os.makedirs("p/q", exist_ok=True)
os.rmdir("p/q")
say(failed(os.rmdir, "cache"), failed(os.mkdir, "p"), seen("."))
# pathlib
p = pathlib.Path("cache/p.txt")
p.write_text("p")
p.rename("cache/q.txt")
p.touch()
say(sorted(map(str, p.parent.rglob("*"))))
# glob and walk
open("cache/deep/n.txt", "w")
os.remove("cache/b.txt")
say(sorted(glob.glob("**/*.txt", recursive=True)), seen("cache"))
# times and modes
os.chmod("a.txt", 0o600)
os.truncate("a.txt", 3)
os.utime("a.txt", (5, 5))
s = os.stat("a.txt")
say(s.st_mode & 0o777, s.st_mtime, s.st_size)
# descriptors
f = os.open("a.txt", os.O_RDWR | os.O_APPEND)
os.write(f, b"d")
os.close(f)
say(open("a.txt").read())
# by a link
open("link", "a").write("l")
say(open("a.txt").read(), os.path.islink("link"), os.readlink("link"))
# sqlite
d = sqlite3.connect("cache.db")
d.execute("INSERT INTO t VALUES (2)")
d.commit()
d.close()
say(rows("cache.db"))
# a new database
d = sqlite3.connect("file:new.db?mode=rwc", uri=True)
d.execute("CREATE TABLE t (x)")
d.commit()
say(rows("new.db"))
# a database with a log
d = sqlite3.connect("wal.db")
d.execute("INSERT INTO t VALUES (2)")
d.commit()
say(rows("wal.db"))
d.close()
# a shelf
s = shelve.open("shelf")
s["b"] = 2
s.close()
s = shelve.open("shelf")
say(sorted(s.items()))
s.close()
# dbm
t = dbm.dumb.open("dumb", "w")
t["x"] = b"y"
t.close()
say(sorted(dbm.dumb.open("dumb").keys()))
# a memo
m = pickle.load(open("memo.pkl", "rb"))
m["b"] = 2
pickle.dump(m, open("memo.pkl", "wb"))
say(pickle.load(open("memo.pkl", "rb")))
# compressed
gzip.open("z.gz", "wt").write("z")
bz2.open("z.bz2", "wt").write("z")
say(gzip.open("z.gz", "rt").read(), os.path.exists("z.bz2"))
# temporary files
d = tempfile.mkdtemp()
open(d + "/t", "w").write("t")
say(subprocess.check_output(["cat", d + "/t"]))
shutil.rmtree(d)
# a lock file
f = os.open("cache/.lock", os.O_CREAT | os.O_EXCL | os.O_RDWR)
say(failed(os.open, "cache/.lock", os.O_CREAT | os.O_EXCL))
os.close(f)
os.unlink("cache/.lock")
say(seen("."))
# bytes
open(b"cache/b.txt", "ab").write(b"!")
say(sorted(os.listdir(b"cache")), open(b"cache/b.txt", "rb").read())
# another folder
os.chdir("cache")
open("b.txt", "a").write("!")
say(open("b.txt").read(), open("../cache/b.txt").read(), sorted(os.listdir()))
# threads
list(futures.ThreadPoolExecutor(8).map(lambda n: open("a.txt", "a").write(f"{n}"), range(8)))
say(sorted(open("a.txt").read()))
# a worker
p = multiprocessing.get_context("fork").Process(target=lambda: open("a.txt", "a").write("w"))
p.start()
p.join()
say(open("a.txt").read())
"""
ACTS = {text.partition("\n")[0]: text.partition("\n")[2] for text in ACT_TEXTS.split("# ")[1:]}
HEAD = """
import bz2, concurrent.futures as futures, contextlib, dbm.dumb, glob, gzip, multiprocessing, os, pathlib, pickle, shelve
import shutil, sqlite3, subprocess, sys, tempfile
import freezeframe
freezeframe.instrument()
SAID = []

def say(*words):
    SAID.append(repr(words))

def failed(function, *args):
    try:
        function(*args)
    except OSError as error:
        return type(error).__name__, error.filename

def rows(name):
    with contextlib.closing(sqlite3.connect(name)) as database:
        return database.execute("SELECT * FROM t").fetchall()

def seen(top):
    return sorted((at, sorted(folders), sorted(files)) for at, folders, files in os.walk(top))

@freezeframe.tool
def look(name, said):
    return len(said)

@freezeframe.run
def answer(names):
    top = os.getcwd()
    for name in names:
        os.chdir(os.path.join(top, name))
        SAID.clear()
        try:
            exec(ACTS[name], globals())
        except BaseException as error:
            say(type(error).__name__, str(error))
        look(name, list(SAID))
"""


def content(folder: Path) -> dict[str, str]:
    """Return what is in a folder: each file with its content, mode and time."""
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else "folder"
        if path.is_dir()
        else f"{path.stat().st_mode:o} {path.stat().st_mtime_ns} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts
    }


def prepare(folder: Path) -> None:
    """Make the files that each act finds, each act in a folder of its own."""
    for name in ACTS:
        (folder / name).mkdir(parents=True)
        subprocess.run([sys.executable, "-c", MADE], cwd=folder / name, check=True)


def record(folder: Path, source: str, spans: Path) -> Fixture:
    (folder / "agent.py").write_text(source)
    environ = {**os.environ, "FREEZEFRAME_FILE": str(spans)}
    done = subprocess.run(
        [sys.executable, "agent.py"], cwd=folder, env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return freeze(build_run(span for line in spans.read_text().splitlines() for span in spans_from_otlp_json(json.loads(line))))


def test_a_program_sees_what_it_writes_as_in_the_run_and_changes_nothing(tmp_path: Path) -> None:
    source = f"{HEAD}\nACTS = {ACTS!r}\nif __name__ == '__main__':\n    answer({list(ACTS)!r})\n"
    prepare(tmp_path / "run")
    fixture = record(tmp_path / "run", source, tmp_path / "spans.jsonl")
    prepare(tmp_path / "again")  # the same files, and not what the run left
    (tmp_path / "again" / "agent.py").write_text(source)
    before = content(tmp_path / "again")
    report = reenact(fixture, cwd=tmp_path / "again")
    assert [(each.recorded, each.live) for each in report.divergences] == []
    assert verdict(report) is Verdict.IDENTICAL
    assert content(tmp_path / "again") == before
