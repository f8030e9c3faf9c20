"""What a policy says about single classes: what becomes of their values, and where; and detectors of other packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from freezeframe_redaction import Cast, Policy, Redactor, TenantKey, load_policy
from freezeframe_redaction.marks.marker import Value
from freezeframe_redaction.policies.actions import SpanPlace
from freezeframe_redaction.policies.plugins import GROUP
from freezeframe_redaction.policies.policy import parse_policy
from freezeframe_redaction.surrogates.known import surrogates_of
from freezeframe_schemas import genai
from freezeframe_schemas.errors import ConfigError, FreezeframeError
from freezeframe_schemas.span import Resource, SpanRecord

KEY = TenantKey(id="test/1", secret=b"k" * 32)
MAIL, CARD = "jane.roe@corp-mail.io", "4012 8888 8888 1881"


def _policy(*entries: str, head: str = "") -> Policy:
    return parse_policy("\n".join(['name = "acme"', "version = 1", head, *(f"[[class]]\n{entry}" for entry in entries)]))


def _span(service: str = "", environment: str = "", **attributes: str) -> SpanRecord:
    resource = {"service.name": service, "deployment.environment.name": environment}
    return SpanRecord(
        trace_id="1" * 32,
        span_id="2" * 16,
        name="work",
        start_time_unix_nano=1,
        end_time_unix_nano=2,
        resource=Resource(attributes={name: value for name, value in resource.items() if value}),
        attributes={name.replace("__", "."): value for name, value in attributes.items()},
    )


@pytest.mark.parametrize(
    ("class_", "action", "text", "made"),
    [
        ("EMAIL", "remove", f"write to {MAIL}, please", "write to [EMAIL], please"),
        ("EMAIL", "mask", f"write to {MAIL}, please", "write to ****.***@corp-mail.io, please"),
        ("CARD", "mask", f"pay with {CARD} now", "pay with **** **** **** 1881 now"),
        ("PERSON", "mask", "Dear Anna Keller, hello", "Dear A*** K*****, hello"),
        ("PERSON", "remove", "Dear Anna Keller, hello", "Dear [PERSON] [PERSON], hello"),
        ("EMAIL", "keep", f"write to {MAIL}, please", f"write to {MAIL}, please"),
    ],
)
def test_an_action_says_what_becomes_of_a_class_and_a_second_pass_changes_nothing(
    class_: str, action: str, text: str, made: str
) -> None:
    redactor = Redactor(_policy(f'name = "{class_}"\naction = "{action}"'), KEY)
    span, cast = redactor.redact_in_run(_span(result=text), Cast())
    assert span.attributes["result"] == made
    again, _ = redactor.redact_in_run(span, cast)
    assert again.attributes["result"] == made
    assert redactor.redact(text).value == made


@pytest.mark.parametrize(
    ("class_", "text", "is_shared"),
    [
        ("EMAIL", "[EMAIL]", True),
        ("EMAIL", "****.***@corp-mail.io", True),
        ("EMAIL", "jo.doe@corp-mail.io", False),
        ("SECRET", "b*rDxrDxw9", False),
    ],
)
def test_a_mask_and_the_name_of_a_class_may_stand_for_several_values_and_a_surrogate_for_one(
    class_: str, text: str, is_shared: bool
) -> None:
    assert Value(class_=class_, text=text).is_shared is is_shared


def test_a_number_that_is_removed_stays_a_number_that_is_equal_for_all_values() -> None:
    redactor = Redactor(_policy('name = "CARD"\naction = "remove"'), KEY)
    made: list[Any] = [
        json.loads(str(redactor.redact(json.dumps({"card": card})).value)) for card in (4012888888881881, 5555555555554444)
    ]
    assert made[0] == made[1]
    assert isinstance(made[0]["card"], int)


def test_what_gets_no_surrogate_is_not_kept_for_a_vault() -> None:
    redactor = Redactor(_policy('name = "EMAIL"\naction = "mask"'), KEY, keep_originals=True)
    span = redactor.redact_span(_span(result=f"{MAIL} pays with {CARD}"))
    listed = surrogates_of([span])
    assert list(redactor.originals_of(listed).values()) == [("CARD", CARD)]


@pytest.mark.parametrize(
    ("scope", "there", "elsewhere"),
    [
        ('services = ["bill*"]', _span("billing", "prod"), _span("support", "prod")),
        ('environments = ["staging"]', _span("billing", "staging"), _span("billing", "prod")),
        ('tools = ["lookup_*"]', _span(gen_ai__tool__name="lookup_mail"), _span(gen_ai__tool__name="send")),
        ('services = ["billing"]\nenvironments = ["staging"]', _span("billing", "staging"), _span("billing", "prod")),
    ],
)
def test_a_rule_counts_where_its_scope_says(scope: str, there: SpanRecord, elsewhere: SpanRecord) -> None:
    redactor = Redactor(_policy(f'name = "EMAIL"\naction = "keep"\n{scope}'), KEY)
    kept, replaced = (
        redactor.redact_in_run(span.with_attributes({"result": f"{MAIL}, {CARD}"}), Cast())[0] for span in (there, elsewhere)
    )
    assert MAIL in (kept.text("result") or "")
    assert MAIL not in (replaced.text("result") or "")
    assert all(CARD not in (span.text("result") or "") for span in (kept, replaced))
    assert kept.text(genai.REDACTION_POLICY) == replaced.text(genai.REDACTION_POLICY) == redactor.policy.label


def test_of_several_rules_about_a_class_the_first_that_holds_counts() -> None:
    billing = 'name = "EMAIL"\naction = "mask"\nservices = ["billing"]'
    redactor = Redactor(_policy(billing, 'name = "EMAIL"\naction = "remove"'), KEY)
    made = [redactor.redact_span(_span(service, result=MAIL)).text("result") for service in ("billing", "support")]
    assert made == ["****.***@corp-mail.io", "[EMAIL]"]


def test_an_attribute_may_have_a_rule_of_its_own() -> None:
    redactor = Redactor(_policy('name = "EMAIL"\naction = "keep"\nattributes = ["support.*"]'), KEY)
    span = _span(support__contact=f"{MAIL}, {CARD}", result=f"from {MAIL}")
    made, cast = redactor.redact_in_run(span, Cast())
    assert (made.text("support.contact") or "").startswith(f"{MAIL}, ")
    assert CARD not in (made.text("support.contact") or "")
    assert MAIL not in (made.text("result") or "")
    assert sorted(surrogates_of([made]).values()) == ["CARD", "EMAIL"]
    again, _ = redactor.redact_in_run(made, cast)
    assert {**again.attributes} == {**made.attributes}
    assert redactor.rewrite(made, cast) is made


def test_a_body_with_a_rule_of_its_own_is_still_read_by_its_headers() -> None:
    redactor = Redactor(_policy(f'name = "EMAIL"\naction = "mask"\nattributes = ["{genai.RESPONSE_BODY}"]'), KEY)
    headers = json.dumps([["content-type", "application/json; charset=utf-16"]])
    sent = json.dumps({"mail": MAIL}).encode("utf-16")
    span = _span().with_attributes({genai.RESPONSE_BODY: sent, genai.RESPONSE_HEADERS: headers})
    body = redactor.redact_span(span).attributes[genai.RESPONSE_BODY]
    assert isinstance(body, bytes)
    assert json.loads(body.decode("utf-16")) == {"mail": "****.***@corp-mail.io"}


def test_values_under_a_key_may_stay() -> None:
    redactor = Redactor(_policy('name = "EMAIL"\naction = "keep"\nunder = ["reply_to"]'), KEY)
    made = json.loads(str(redactor.redact(json.dumps({"reply_to": "help@corp-mail.io", "from": MAIL})).value))
    assert made["reply_to"] == "help@corp-mail.io"
    assert made["from"] != MAIL


def test_a_class_of_ones_own_with_a_scope_is_looked_for_only_there() -> None:
    entry = 'name = "BADGE"\npattern = "B-[0-9]{5}"\nexample = "B-12345"\naction = "remove"\nservices = ["doors"]'
    redactor = Redactor(_policy(entry), KEY)
    made = [redactor.redact_span(_span(service, result="badge B-77310")).text("result") for service in ("doors", "shop")]
    assert made == ["badge [BADGE]", "badge B-77310"]


def test_names_need_as_much_evidence_as_the_policy_says() -> None:
    text = "The ticket was closed by Lena Hartmann after lunch"
    redactor = Redactor(load_policy(), KEY)
    ((name, judged),) = list(redactor.name_judgements(text))
    assert judged.is_name
    assert name not in str(redactor.redact(text).value)
    for least, stays in ((judged.score - 0.1, False), (judged.score + 0.1, True)):
        strict = Redactor(_policy(f'name = "PERSON"\nleast = {max(least, 0.01):.3f}'), KEY)
        assert (name in str(strict.redact(text).value)) is stays


def test_a_built_in_policy_without_a_class_is_one_word_and_loads_again_by_its_name() -> None:
    policy = load_policy("strict-except-PERSON-ADDRESS")
    assert policy.classes == load_policy("strict").classes - {"PERSON", "ADDRESS"}
    assert load_policy(policy.label.partition("@")[0]) == policy
    assert Redactor(policy, KEY).redact("Dear Anna Keller").value == "Dear Anna Keller"
    with pytest.raises(ConfigError, match="unknown class 'NAME'"):
        load_policy("strict-except-NAME")


def test_a_policy_with_rules_is_the_same_as_the_text_of_it_and_one_without_has_the_hash_it_had() -> None:
    policy = _policy(
        'name = "EMAIL"\naction = "keep"\nservices = ["a", "b*"]\nunder = ["x"]',
        'name = "PERSON"\nleast = 1.5',
        'name = "BADGE"\nkeys = ["badge"]\naction = "mask"\ntools = ["open"]',
        'name = "PROJECT"\ndetector = "acme"',
    )
    assert parse_policy(policy.text) == policy
    assert parse_policy(policy.text).hash == policy.hash != _policy().hash
    kept = _policy('name = "IP"\naction = "keep"')
    assert kept == _policy(head='except = ["IP"]')


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ('name = "EMAIL"', "nothing is said about it"),
        ('name = "EMAIL"\naction = "hide"', "expected one of surrogate, remove, mask, keep"),
        ('name = "EMAIL"\naction = "mask"\npattern = "x"', "pattern: the class is built in"),
        ('name = "EMAIL"\nleast = 1', "only PERSON has a score"),
        ('name = "EMAIL"\naction = "mask"\nunder = ["x"]', 'expected action = "keep"'),
        ('name = "EMAIL"\naction = "mask"\nservices = "x"', "services: expected a list of strings"),
        ('name = "PRIVATE_IP"\naction = "mask"', "not one of the policy's classes"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_fault(entry: str, fault: str) -> None:
    with pytest.raises(ConfigError) as refused:
        _policy(entry, head='except = ["PRIVATE_IP"]')
    assert fault in refused.value.message


DETECTOR = """
def find(text):
    if "explode" in text:
        raise ValueError(text)
    if "beyond" in text:
        return [(0, 10_000)]
    at = text.find("Nightjar")
    return [(at, at + 8)] if at >= 0 else []
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with a detector."""
    (tmp_path / "acme_detector.py").write_text(DETECTOR)
    info = tmp_path / "acme_detector-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-detector\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nprojects = acme_detector:find\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("installed")
def test_a_detector_of_another_package_finds_values_of_a_class() -> None:
    redactor = Redactor(_policy('name = "PROJECT"\ndetector = "projects"'), KEY)
    made = redactor.redact(json.dumps({"note": "the plan of Nightjar is late", "other": 1}))
    assert "Nightjar" not in str(made.value)
    assert [(one.class_, one.detector) for one in made.findings] == [("PROJECT", "custom: PROJECT by detector")]
    for text, fault in (("please explode now", "failed: ValueError"), ("look beyond", "0 to 10000")):
        with pytest.raises(FreezeframeError, match=fault) as refused:
            redactor.redact(text)
        assert text not in str(refused.value)


def test_a_detector_that_is_not_installed_is_an_error_at_startup() -> None:
    with pytest.raises(ConfigError, match="no installed package has it"):
        Redactor(_policy('name = "PROJECT"\ndetector = "nobodys"'), KEY)


def test_a_policy_says_what_becomes_of_a_class_at_each_place() -> None:
    policy = _policy(
        'name = "PERSON"\naction = "remove"\nservices = ["support*"]',
        'name = "EMAIL"\naction = "keep"\nunder = ["reply_to"]',
        'name = "PHONE"\naction = "mask"\nattributes = ["gen_ai.*"]',
        head='except = ["IP"]',
    )
    support, billing = (SpanPlace(services=name) for name in ("support-bot", "billing"))
    assert [policy.becomes("PERSON", place) for place in (support, billing)] == ["remove", "surrogate"]
    assert policy.becomes("EMAIL", billing) == "surrogate, keep under reply_to"
    assert policy.becomes("PHONE", billing) == "surrogate, mask in gen_ai.*"
    assert policy.becomes("IP", billing) == "keep"
