"""Markdown of answers: what they use of it reads as meant, and nothing in them loads, runs or leads away unseen."""

from __future__ import annotations

import re

import pytest
from handmade_runs import make_run, model_call
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from freezeframe_replay.report.outline import outline_run
from freezeframe_replay.web.markdown import markdown
from freezeframe_replay.web.markup import block
from freezeframe_replay.web.run_pages import page_of_a_file, run_page
from freezeframe_schemas.run import build_run

FORMS = [
    ("a **b** and *c* of `d*e*` ~~f~~", "<p>a <strong>b</strong> and <em>c</em> of <code>d*e*</code> <s>f</s></p>"),
    ("snake_case_name, __init__ and 2 * 3 * 4 | x", "<p>snake_case_name, __init__ and 2 * 3 * 4 | x</p>"),
    ("## Title ##\nText\nof two lines", '<p class="heading">Title</p><p>Text\nof two lines</p>'),
    (
        "1. one\n2. two\n   - deep\n   - er\n\n3. three",
        '<ol start="1"><li>one</li><li>two<ul><li>deep</li><li>er</li></ul></li><li>three</li></ol>',
    ),
    ("- a\n\n  more\n- b", "<ul><li>a<p>more</p></li><li>b</li></ul>"),
    ("> said\n> twice\n\n---", "<blockquote><p>said\ntwice</p></blockquote><hr>"),
    ("```python\nx = 1 # **no**\n\n  y\n```\nafter", "<pre>x = 1 # **no**\n\n  y</pre><p>after</p>"),
    ("```\nnever closed", "<pre>never closed</pre>"),
    (
        "|a|b|\n|-|:-:|\n|1|`2`|3|",
        '<div class="scroll"><table><thead><tr><th scope="col">a</th><th scope="col">b</th></tr></thead>'
        "<tbody><tr><td>1</td><td><code>2</code></td></tr></tbody></table></div>",
    ),
]


def shown(text: str) -> str:
    return str(markdown(text, lambda part: escape(block(part))))


@pytest.mark.parametrize(("text", "html"), FORMS)
def test_what_answers_use_of_markdown_is_rendered(text: str, html: str) -> None:
    assert shown(text) == f'<div class="markdown">{html}</div>'


@pytest.mark.parametrize("text", ["In Lyon.\n\nSince Monday.", "a < b & c", ""])
def test_a_text_without_marks_stays_as_it_came(text: str) -> None:
    assert shown(text) == str(escape(text))


def test_a_link_shows_where_it_leads_and_names_no_page_and_an_image_is_not_loaded() -> None:
    link = '<a href="https://a.example/?q=1" rel="noreferrer nofollow" title="https://a.example/?q=1">'
    assert shown("[**page**](https://a.example/?q=1)") == f'<div class="markdown"><p>{link}<strong>page</strong></a></p></div>'
    assert shown("![pixel](https://a.example/?q=1)") == f'<div class="markdown"><p>{link}image: pixel</a></p></div>'


@pytest.mark.parametrize(
    "text",
    [
        "[x](javascript:alert(1))",
        "[x](data:text/html,<script>)",
        "[x](/runs/1/replay)",
        "![x](file:///etc/passwd)",
        '[x](https://a.example/" onclick="alert(1))',
        "**<script>alert(1)</script>** <img src=x onerror=alert(1)>",
    ],
)
def test_html_and_other_addresses_stay_text(text: str) -> None:
    assert not re.search(r"<(script|img|a )", shown(text))


@given(
    st.lists(st.sampled_from([*"*_`#>-|[]()!~<&\"' \n1.\t", "**", "```", "](https://a.example)", "a", "- ", "> ", "|-|"])).map(
        "".join
    )
)
def test_any_text_gives_only_these_elements_and_loses_no_letter(text: str) -> None:
    """Each is closed; no other attribute than those that the module writes."""
    html = shown(text)
    tags = re.findall(r"<[^>]*>", html)
    known = r"</?(p|strong|em|s|code|pre|hr|blockquote|ul|ol|li|table|thead|tbody|tr|td|th|div|a)"
    attributes = r'( (class|start|scope|href|rel|title)="[^"<>]*")*>'
    assert all(re.fullmatch(known + attributes, tag) for tag in tags)
    names = [re.sub(r"\W.*", "", tag[1:].lstrip("/")) for tag in tags]
    assert all(names.count(name) % 2 == 0 for name in set(names) - {"hr"})


def test_marks_in_great_numbers_take_no_longer_than_their_text() -> None:
    """Deep lists and quotes end in text."""
    for text in ("> " * 2000, "- " * 2000, "\n".join("  " * depth + "- x" for depth in range(90)), "`" * 4000, "**a" * 1300):
        assert len(shown(text)) < 40 * len(text)


def test_a_page_renders_answers_unless_asked_not_to() -> None:
    """The page that needs no service has them rendered, and each step's own body."""
    run = build_run(make_run(model_call("**what** I ask", "It is **in** Lyon.")))
    outline = outline_run(run)
    rendered, plain = run_page(run, outline), run_page(run, outline, as_text=True)
    assert "It is <strong>in</strong> Lyon." in rendered
    assert '<a href="?as=text" data-key="m">Answers as they came</a>' in rendered
    assert "<strong>what" not in rendered
    assert "It is **in** Lyon." in plain
    assert '<a href="?" data-key="m">Answers as Markdown</a>' in plain
    assert "It is <strong>in</strong> Lyon." in page_of_a_file(run, outline, named="run.jsonl")
