"""The law of the cast in the collector: however a run's spans come, once it is settled the store holds the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from freezeframe_collector.admission import ByteBudget
from freezeframe_collector.casts.book import CastFile, RunCasts
from freezeframe_collector.casts.found import Found
from freezeframe_collector.casts.known import KnownCasts
from freezeframe_collector.casts.sealing import Seal
from freezeframe_collector.pipeline import Meter, Pipeline, Stage
from freezeframe_collector.processors.redact import RedactStage
from freezeframe_collector.processors.rewrite import Rewriter
from freezeframe_collector.processors.seal import Sealer
from freezeframe_collector.settings.config import CastConfig, RedactionConfig, WalConfig
from freezeframe_collector.settings.policies import load_policies
from freezeframe_collector.wal.log import Log
from freezeframe_redaction import redact_run
from freezeframe_redaction.casts.book import Cast, Member, texts_of
from freezeframe_redaction.keyring.keys import KeyRing, TenantKey
from freezeframe_redaction.keyring.vault import Vault
from freezeframe_redaction.redactor import Redactor
from freezeframe_schemas import genai
from freezeframe_schemas.otlp.decode import NO_LIMITS
from freezeframe_schemas.otlp.encode import encode_traces
from freezeframe_schemas.span import SpanRecord

pytestmark = pytest.mark.long

TRACE = "ab" * 16
KEYS = KeyRing(directory=Path("/nonexistent"), keys=(TenantKey(id="default/1", secret=b"k" * 32),))
POLICIES = load_policies(RedactionConfig())
TELLS = (
    "My name is Maria Keller, and my mail is maria.keller@northbay-mail.com",
    "Dear Mr. Tomasz Wisniewski, your card 4539 1488 0343 6467 was charged",
)
"""Texts in which detectors find what the others hold forms of."""
HOLDS = (
    "user maria_keller of the list",
    '{"login": "user mariakeller", "owner": "KELLER"}',
    "profile tomasz-wisniewski is open",
    "contact MARIA.KELLER@NORTHBAY-MAIL.COM again",
    "nothing of anybody",
)


def span(number: int, text: str, *, is_entry: bool = False) -> SpanRecord:
    """Return a span of the run."""
    return SpanRecord(
        trace_id=TRACE,
        span_id=f"{number + 1:016x}",
        parent_span_id="" if is_entry else "f" * 16,
        name="step",
        start_time_unix_nano=1_780_000_000_000_000_000 + number,
        end_time_unix_nano=1_780_000_000_000_000_500 + number,
        attributes={"text": text, **({genai.ENTRY_KIND: "function"} if is_entry else {})},
    )


@dataclass
class World:
    """A collector with several receivers, without sockets and engine: its log, its book, and what a store would hold."""

    folder: Path
    workers: int
    stored: dict[str, SpanRecord] = field(default_factory=dict[str, SpanRecord])

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start over what is in the folder."""
        self.book = RunCasts(self.folder, CastConfig(enabled=True))
        self.log = Log(self.folder, WalConfig(flush_interval_s=60), casts=self.book)
        self.pipelines = [self._receiver() for _ in range(self.workers)]

    def _receiver(self) -> Pipeline:
        stage = RedactStage(POLICIES, KEYS, casts=KnownCasts(Seal(KEYS), 100))
        assert stage.casts is not None
        self.book.listen(stage.casts.learn)
        return Pipeline(
            stages=(Stage(name="redaction", apply=stage, begin=stage.begin),),
            log=self.log,
            budget=ByteBudget(1 << 30, wait_s=1, retry_after_s=1),
            limits=NO_LIMITS,
            meter=Meter(),
        )

    def carry(self) -> None:
        """Do the writer's work: everything in the log goes to the store."""
        self.log.seal()
        while self.log.segment_count:
            segment = self.log.next_sealed()
            assert segment is not None
            loaded = segment.load_spans().spans
            self.stored.update({one.span_id: one for one in loaded})
            self.log.retire(segment, stored=len(loaded), rejected=0)

    def settle(self) -> list[SpanRecord]:
        """Do the settler's work; return the run."""
        due = self.book.due(lambda _: True, 10, everything=True)
        rewrite = Rewriter(KEYS, lambda: POLICIES).rewrite
        for one in due:
            spans = rewrite(one.run, one.sealed, list(self.stored.values()))
            self.stored = {span.span_id: span for span in spans}
        self.book.settle(due)
        assert self.book.state().unsettled_runs == 0
        return sorted(self.stored.values(), key=lambda span: span.span_id)


def collected(batches: Sequence[Sequence[SpanRecord]], *, workers: int = 1, restart_before: int = -1) -> list[SpanRecord]:
    """Return the settled run whose spans came in these batches, through the workers in turn."""
    with TemporaryDirectory() as folder:
        world = World(Path(folder), workers)
        for number, batch in enumerate(batches):
            if number == restart_before:
                world.log.close()
                world.start()
            world.pipelines[number % workers].export(encode_traces(batch))
            if number % 2:
                world.carry()
        world.carry()
        settled = world.settle()
        world.log.close()
        return settled


@st.composite
def runs(draw: st.DrawFn) -> list[SpanRecord]:
    """Draw the spans of a run, in the order in which they come."""
    texts = draw(st.permutations((*TELLS, *draw(st.lists(st.sampled_from(HOLDS), min_size=1, max_size=4)))))
    spans = [span(number, text) for number, text in enumerate(texts)]
    return draw(st.permutations([*spans, span(len(spans), "what the agent answered: mariakeller", is_entry=True)]))


@pytest.mark.proof("law a settled run does not depend on order")
@settings(max_examples=examples(25), deadline=None)
@given(data=st.data(), run=runs())
def test_batches_orders_workers_and_a_restart_make_no_difference_to_a_settled_run(
    data: st.DataObject, run: list[SpanRecord]
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(run) - 1))))
    batches = [run[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(run)], strict=True)]
    workers = data.draw(st.integers(1, 3))
    restart_before = data.draw(st.integers(-1, len(batches) - 1))
    together = collected([sorted(run, key=lambda span: span.span_id)])
    parted = collected(batches, workers=workers, restart_before=restart_before)
    assert [_said(span) for span in parted] == [_said(span) for span in together]
    assert parted == together
    assert not any(form in str(span.attributes["text"]).lower() for span in together for form in ("keller", "wisniewski"))


def _said(span: SpanRecord) -> tuple[str, str]:
    return str(span.attributes["text"]), str(span.attributes[genai.REDACTION_SURROGATES])


@pytest.mark.proof
def test_a_finding_is_on_the_disk_before_the_ack_and_only_sealed(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    world.pipelines[0].export(encode_traces([span(0, TELLS[0])]))
    (segment,) = tmp_path.glob("*.open")
    assert b'"found"' in segment.read_bytes()
    assert _clear_in(tmp_path) == []
    world.carry()
    assert _clear_in(tmp_path) == []
    world.log.close()
    again = RunCasts(tmp_path, CastConfig(enabled=True))  # the segment has left the log
    (open_run,) = again.open_runs(lambda _: True)
    assert open_run == ("", TRACE)


@pytest.mark.proof
def test_a_late_finding_makes_a_run_unsettled_across_a_crash(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    for text in (HOLDS[0], TELLS[0]):
        world.pipelines[0].export(encode_traces([span(len(text), text)]))
    assert world.book.state().unsettled_runs == 1
    crashed = RunCasts(tmp_path, CastConfig(enabled=True))
    restarted = Log(tmp_path, WalConfig(), casts=crashed)  # the first one was not closed
    assert crashed.state().unsettled_runs == 1
    restarted.close()
    world.log.close()


@pytest.mark.proof
def test_a_cast_is_destroyed_when_its_grace_time_is_over_or_its_run_is_deleted(tmp_path: Path) -> None:
    now = [0.0]
    book = RunCasts(tmp_path, CastConfig(enabled=True, grace_s=100), clock=lambda: now[0])
    known = KnownCasts(Seal(KEYS), 100)
    book.listen(known.learn)
    cast = Cast(members=(Member(class_="PERSON", spelling="Keller"),))
    for number in range(3):
        run = ("", f"{number:032x}")
        book.note([Found(tenant="", trace_id=run[1], based_on=0, sealed=Seal(KEYS).close(run, cast))], 1)
        now[0] += 40
    book.save()
    assert book.expire() == 1
    book.forget([("", f"{1:032x}")])
    assert [known.of(("", f"{number:032x}")).number for number in range(3)] == [0, 0, 1]
    assert [saved.run[1] for saved in CastFile(tmp_path / "casts.db").load_all()] == [f"{2:032x}"]


@pytest.mark.proof
def test_a_process_knows_the_same_of_what_it_sealed_itself_as_of_what_another_one_did() -> None:
    run = ("", TRACE)
    own, other = KnownCasts(Seal(KEYS), 100), KnownCasts(Seal(KEYS), 100)
    names = ["Keller", "Maria", "Wisniewski"]
    for number in range(1, 4):
        known = own.of(run)
        members = tuple(Member(class_="PERSON", spelling=name, spreads=number > 2) for name in names[:number])
        sealed = own.close(run, known, known.cast.joined(Cast(members=members, pairs=(tuple(names[:number]),))))
        own.learn(run, number, sealed)
        other.learn(run, number, sealed)
        assert own.of(run) == other.of(run)
        assert own.of(run).number == number


@pytest.mark.proof
def test_what_a_later_span_of_a_request_reveals_is_replaced_in_the_history_that_it_repeats() -> None:
    filler = [
        {"role": "user", "content": f"question {number} about the weather, and nothing of anybody"} for number in range(40)
    ]
    said = [
        *filler,
        {"role": "user", "content": "the folder maria_keller is gone"},
        {"role": "user", "content": "next"},
        {"role": "user", "content": TELLS[0]},
    ]
    spans = [
        span(number, "").with_attributes({genai.INPUT_MESSAGES: json.dumps(said[:count]), "answer": answer})
        for number, (count, answer) in enumerate([(40, HOLDS[2]), (40, "log of maria_keller"), (41, ""), (42, ""), (43, "")])
    ]
    stage = RedactStage(POLICIES, KEYS, casts=KnownCasts(Seal(KEYS), 100))
    request = stage.begin()
    made = [request.finish(one, "") for one in [request(one, "") for one in spans]]
    redactor = Redactor(POLICIES.of(""), KEYS.current("default"), hot=True)
    cast = redactor.redact_in_run(spans[-1], Cast())[1]
    assert made == [redactor.redact_in_run(one, cast)[0] for one in spans]
    assert not any("maria_keller" in text for one in made for text in texts_of(one))
    assert made[0].attributes["answer"] == HOLDS[2]


@pytest.mark.proof
def test_with_too_many_open_runs_the_settled_ones_are_forgotten_first_and_the_others_settled_at_once(tmp_path: Path) -> None:
    book = RunCasts(tmp_path, CastConfig(enabled=True, runs=20))
    for number in range(21):
        assert book.state().dropped_early == 0
        book.note([Found(tenant="", trace_id=f"{number:032x}", based_on=0, sealed=b"x", waits=number % 2 == 0)], 1)
    assert (book.state().dropped_early, book.state().open_runs, book.state().unsettled_runs) == (2, 19, 11)
    assert book.due(lambda _: True, 100) == []
    book.note([Found(tenant="", trace_id=f"{number:032x}", based_on=0, waits=True) for number in range(100, 120)], 1)
    assert (book.state().open_runs, len(book.due(lambda _: True, 100))) == (31, 31)
    book.settle(book.due(lambda _: True, 100))
    assert book.state().unsettled_runs == 0


@pytest.mark.proof
def test_after_a_rotation_a_span_is_rewritten_under_the_key_that_redacted_it() -> None:
    newer = KeyRing(directory=Path("/nonexistent"), keys=(*KEYS.keys, TenantKey(id="default/2", secret=b"n" * 32)))
    stage = RedactStage(POLICIES, KEYS, casts=KnownCasts(Seal(KEYS), 100))
    request = stage.begin()
    told = request(span(1, TELLS[0]), "")
    (found,) = request.found()
    held = RedactStage(POLICIES, KEYS)(span(0, "entry maria_keller of the list"), "")
    after = RedactStage(POLICIES, newer)(span(2, "a later one: maria_keller"), "")
    rewrite = Rewriter(newer, lambda: POLICIES).rewrite
    rewritten = rewrite(found.run, [found.sealed], [held, told, after])
    first, last = str(told.attributes["text"]).removeprefix("My name is ").split(",")[0].lower().split()
    assert rewritten[0].attributes["text"] == f"entry {first}_{last} of the list"
    assert "keller" not in str(rewritten[2].attributes["text"])
    assert first not in str(rewritten[2].attributes["text"])
    assert [new is old for new, old in zip(rewritten, [held, told, after], strict=True)] == [False, True, False]
    assert redact_run(rewritten[:2], POLICIES.default, KEYS.keys[0])[0].attributes["text"] == rewritten[0].attributes["text"]


@pytest.mark.proof
def test_a_vault_keeps_what_a_late_surrogate_stands_for(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault.db", {"vault/1": Vault.generate_key()}, "vault/1")
    request = RedactStage(POLICIES, KEYS, casts=KnownCasts(Seal(KEYS), 100)).begin()
    request(span(1, TELLS[0]), "")
    (found,) = request.found()
    held = RedactStage(POLICIES, KEYS)(span(0, "ask about keller then Keller"), "")
    (rewritten,) = Rewriter(KEYS, lambda: POLICIES, Sealer(vault)).rewrite(found.run, [found.sealed], [held])
    surrogate = str(rewritten.attributes["text"]).rpartition(" ")[2]
    assert vault.reveal("default", surrogate, who="me", reason="test") is not None


def _clear_in(folder: Path) -> list[str]:
    return [
        path.name for path in folder.iterdir() if any(word in path.read_bytes().lower() for word in (b"keller", b"northbay"))
    ]
