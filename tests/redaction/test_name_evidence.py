"""The learned evidence for names, a veto over the rules: through the redactor, and its file of weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redacted_again import again

from freezeframe_redaction import Redactor, TenantKey, load_policy
from freezeframe_redaction.detectors.people import evidence

KEY = TenantKey(id="test/1", secret=b"k" * 32)
REDACTOR = Redactor(load_policy(), KEY)
FILE = files("freezeframe_redaction") / "lexicon" / "name_evidence.txt"

THINGS = (
    "The layout shows the Hudson River and the harbor.",
    "Which aquarium is in the Monterey Bay Aquarium area?",
    "6. **Casa Milà (La Pedrera)** - A modernist building",
    "I already have the Silver Rewards Card.",
    "Berkshire Hathaway Energy: $3.73 billion",
    "It has the Julian calendar, a Nash equilibrium and a Murphy sign.",
    '{"delta": {"content": " Flor"}, "next": "Pete"}',
    "Toy Story and Candy Crush in the Mariana Trench, Father Son and Holy Ghost",
    "Leafy greens recover. Woody scents and Dusty environments do not, says the Taylor series.",
    "Dr Pepper has no vitamin D. However, see Appendix A. Introduction\nA. Paris\nB. Washington",
    "Tejas Networks Ltd., Sheela Foam Ltd. and Hudson Yards",
    "Robert Gordon University and the Amon Carter Museum",
    "I was at O'Jung's Tavern. Dad joke idea: use it. The capital is **Sana'a**.",
)
"""Things whose words are on the lists of names, or that follow a title (``Bay``)."""
PEOPLE = (
    ("The book is by Barbara Tuchman and Niall Ferguson.", ("Tuchman", "Ferguson")),
    ("My name is Willowbrook, I lost my card.", ("Willowbrook",)),
    ("Please ask Katarzyna whether it was paid.", ("Katarzyna",)),
    ('{"customer_name": "Hudson River", "first_name": "Golden"}', ("Hudson", "River", "Golden")),
    ("I met Eva Draconis Story and Jan Leike.", ("Eva", "Draconis", "Leike")),
    ("Reporter: Sunny Hudson", ("Sunny", "Hudson")),
    ("Message Rhonda that I am late.", ("Rhonda",)),
    ("Spoke to Dr. Quayle on Monday, and seen by Mrs. Quayle. She waits.", ("Quayle",)),
    ("Dr A. Mukherjee GMC 7012345 signed, the wristband says T. Achterberg", ("Mukherjee", "Achterberg")),
)


def test_a_word_at_the_edge_that_is_none_of_the_name_stays() -> None:
    made = REDACTOR.redact("1. [Alex Gorsky Biography](x) Given Cheryl Jamison's accolades. I'm Sophia Silva.")
    assert all(word in str(made.value) for word in ("Biography", "Given", "I'm"))
    assert not any(word in str(made.value) for word in ("Gorsky", "Cheryl", "Jamison", "Sophia", "Silva"))
    assert again(REDACTOR, made) == made.value


def test_a_surname_of_two_words_is_not_cut() -> None:
    assert "Dhomhnaill" not in str(REDACTOR.redact("Siobhán Ní Dhomhnaill signed the inventory.").value)


def test_in_a_list_of_names_each_is_whole() -> None:
    made = str(REDACTOR.redact("Passengers: Omar Davis, Fatima Patel, Raj Sanchez").value)
    assert made.startswith("Passengers: ")
    assert not any(word in made for word in ("Omar", "Davis", "Fatima", "Patel", "Raj", "Sanchez"))


@pytest.mark.parametrize("text", THINGS)
def test_a_thing_that_has_the_form_of_a_name_stays(text: str) -> None:
    assert REDACTOR.redact(text).value == text


@pytest.mark.parametrize(("text", "gone"), PEOPLE)
def test_people_go_and_so_does_whatever_a_telling_key_holds(text: str, gone: tuple[str, ...]) -> None:
    made = str(REDACTOR.redact(text).value)
    assert [word for word in gone if word in made] == []


def test_what_no_rule_accepts_goes_only_if_the_evidence_accepts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A given name without any sign of a person is a proposal: with an unreachable least score, all of them stay."""
    text = "Message Rhonda that I am late."
    redactor = Redactor(load_policy(), KEY)
    assert {one.detector for one in redactor.redact(text).findings} == {evidence.PROPOSED}
    monkeypatch.setattr(evidence, "MIN_PROPOSAL_SCORE", 99.0)
    assert Redactor(load_policy(), KEY).redact(text).value == text


_PIECES = (
    *"asked Maria Keller|the Hudson River|my Silver Rewards Card|a Bay Aquarium|said Jordan|near Lincoln Park|with Katarzyna".split(
        "|"
    ),
    *"the Berkshire Hathaway Energy report|mail bob.smith@gmail.com|call +49 30 901820|in Sunny Boston|by Grace Chen".split(
        "|"
    ),
    *"the Crystal Bridges Museum|visit Casa Milà|Mr. Fairfax|on the Florence Weather page".split("|"),
)
"""Without a word in common: a name that is found in one place is replaced in the others too, within what was vetoed as well."""
_GAPS = st.sampled_from((", ", ". ", "\n", " and ", " (", " - "))
_TEXTS = st.lists(st.tuples(st.sampled_from(_PIECES), _GAPS), min_size=1, max_size=7, unique_by=lambda pair: pair[0]).map(
    lambda pairs: "".join(piece + gap for piece, gap in pairs)
)


@example(text="the Casa Milà, Tania Tetlow.")  # a name
@example(text="Zhou Enlai. bob.smith@gmail.com.")  # an address
@example(text="+49 30 901820, the Silver Rewards - Maria Keller.")  # a number
@example(text="Mr. Fairfax, Sri Lanka.")
@given(text=_TEXTS)
def test_what_was_vetoed_stays_vetoed_when_the_text_around_it_is_redacted(text: str) -> None:
    once = REDACTOR.redact(text)
    assert again(REDACTOR, once) == once.value


@given(text=_TEXTS)
def test_the_veto_only_takes_names_away_and_changes_no_surrogate(text: str) -> None:
    """A run that was redacted by the rules alone and one with the evidence give equal values equal surrogates."""
    with pytest.MonkeyPatch.context() as patch:
        every = replace(evidence.load_evidence(), least=float("-inf"))
        patch.setattr(evidence, "load_evidence", lambda: every)
        rules = Redactor(load_policy(), KEY)
    made = REDACTOR.redact(text).surrogates
    assert made.items() <= rules.redact(text).surrogates.items()


@pytest.mark.proof
@pytest.mark.long
def test_the_answer_does_not_depend_on_the_process() -> None:
    """Sets and dicts of words are in another order under another hash seed."""
    text = "\n".join((*THINGS, *(person for person, _ in PEOPLE)))
    code = (
        "import sys; from freezeframe_redaction import *;"
        "print(list((one.score, name) for name, one in"
        " Redactor(load_policy(), TenantKey(id='t/1', secret=b'k' * 32)).name_judgements(sys.argv[1])))"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", code, text], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(made) == 1
    assert b"Barbara Tuchman" in made.pop()


def test_weights_that_were_changed_or_have_another_version_are_refused() -> None:
    text = FILE.read_text("utf-8")
    assert evidence.parse(text).dump() == text
    with pytest.raises(ValueError, match="digest"):
        evidence.parse(text.replace("\nbias\t", "\nbias\t1", 1))
    with pytest.raises(ValueError, match=r"version 1.*version 2"):
        evidence.parse(text.replace("version 1", "version 2", 1))


def test_weights_are_few_enough_to_ship() -> None:
    assert len(FILE.read_bytes()) < 300_000


@pytest.mark.parametrize("name", ["Jane Doe", "Anna Keller", "Andrea Jung", "John Smith", "Lukas Weber", "Sanne de Wit"])
@pytest.mark.parametrize("word", ["Feedback", "Ticket", "Invoice", "Refund", "Biography", "Onboarding", "Dashboard"])
def test_a_word_beside_a_name_stays_there_and_everywhere(name: str, word: str) -> None:
    for text in (f"The {name} {word} is due. Please send {word}.", f"{word} {name} is due. Please send {word}."):
        made = str(REDACTOR.redact(text).value)
        assert made.count(word) == 2
        assert not any(part in made for part in name.replace(" de ", " ").split())


def test_an_identifier_behind_a_name_is_none_of_it() -> None:
    made = str(REDACTOR.redact("Anna Keller Q3, Jane Doe EMP-123456").value)
    assert "Q3" in made
    assert "EMP-123456" in made
    assert not any(part in made for part in ("Anna", "Keller", "Jane", "Doe"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Hi, I'm Henrik Eriksen", "Henrik Eriksen"), ("Beste Sanne, de beste prijs", "Sanne"), ("Beste mevrouw Jansen,", "Jansen"),
        ("Caro Luca,\ntroppo caro", "Luca"), ("Geachte heer De Vries,", "Vries"), ("Moi Liisa,", "Liisa"),
        ("Bună Andreea,", "Andreea"), ("Привет, Ольга!", "Ольга"), ("Halo Dewi,", "Dewi"), ("Cześć Marek,", "Marek"),
        ("नमस्ते राहुल जी", "राहुल"), ("Уважаемый Иван Петрович,", "Иван Петрович"), ("Kære Mette,", "Mette"),
        ("Geachte mevrouw De Vries, dank", "Vries"), ("De heer Kuipers belt", "Kuipers"), ("Kära fru Lindqvist,", "Lindqvist"),
        ("Kjære herr Hansen, takk", "Hansen"), ("Hyvä rouva Virtanen,", "Virtanen"),
    ],
)  # fmt: skip
def test_a_greeting_stays_and_who_is_greeted_does_not(text: str, name: str) -> None:
    made = str(REDACTOR.redact(text).value)
    before, behind = text.split(name)
    assert made.startswith(before)
    assert made.endswith(behind)
    assert name not in made
    _, next_ = json.loads(str(REDACTOR.redact(json.dumps(["and", text])).value))
    assert next_ == made, "redacted otherwise behind another text"


@pytest.mark.parametrize(
    "text", ["Liebe Nachbarn, am Freitag", "Liebe Kolleginnen und Kollegen,", "Dear Passengers, boarding starts"]
)
def test_several_people_who_are_greeted_have_no_name(text: str) -> None:
    assert REDACTOR.redact(text).value == text


@pytest.mark.parametrize(
    "text",
    [
        "打开 文件 然后", "程序 方法 高性能 金额 文档 任务 谢谢 江苏", "我是程序员。", "客户金额: 820", "高级经理 说", "高速 森林 石油 金属 原因",
        "고객 서비스 한국어 이름 지정", "고객님 서비스는", "नमस्ते दुनिया",
    ],
)  # fmt: skip
def test_words_that_begin_like_a_surname_are_no_people(text: str) -> None:
    assert REDACTOR.redact(text).value == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("联系人: 王小明", "王小明"), ("你好,我叫王小明,请", "王小明"), ("王小明先生 来了", "王小明"), ('{"姓名": "王小明"}', "王小明"),
        ("欧阳雪梅 来了", "欧阳雪梅"), ("私の名前は佐藤健太です。", "佐藤健太"), ("高橋様", "高橋"), ("営業部 藤原 健一", "藤原"),
        ("제 이름은 김민수입니다", "김민수"), ("박지훈 씨는", "박지훈"), ("담당자 윤지현에게", "윤지현"),
    ],
)  # fmt: skip
def test_a_label_a_title_or_a_verb_of_naming_makes_a_name(text: str, name: str) -> None:
    assert name not in str(REDACTOR.redact(text).value)
