"""A changed setting of a retriever or tool is a divergence at its step, though the replay does not run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from answered_here import record, replay

import freezeframe
from freezeframe_replay.engine.session import ReplaySession
from freezeframe_schemas.divergence import DivergenceKind
from freezeframe_schemas.verdict import Verdict, verdict

pytestmark = pytest.mark.long  # imports frameworks

retrievers: Any = pytest.importorskip("langchain_core.retrievers")
vectorstores: Any = pytest.importorskip("langchain_core.vectorstores")
documents: Any = pytest.importorskip("langchain_core.documents")
tools: Any = pytest.importorskip("langchain_core.tools")


class Store(vectorstores.VectorStore):
    """Finds as many pages as it is asked for."""

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> Any:
        return [documents.Document(page_content=f"{query} {n}") for n in range(k)]

    def similarity_search_with_relevance_scores(self, query: str, k: int = 4, **kwargs: Any) -> Any:
        return [(found, 0.5) for found in self.similarity_search(query, k)]

    def max_marginal_relevance_search(self, query: str, k: int = 4, **kwargs: Any) -> Any:
        return self.similarity_search(query, k)

    @classmethod
    def from_texts(cls, texts: Any, embedding: Any, metadatas: Any = None, **kwargs: Any) -> Any:
        return cls()


class Pages(retrievers.BaseRetriever):
    """A retriever of an application, with settings and state."""

    limit: int = 3
    languages: list[str] = ["en"]  # noqa: RUF012 - a pydantic default
    asked: int = 0
    api_key: str = ""
    inner: Any = None

    def _get_relevant_documents(self, query: str, *, run_manager: Any = None) -> Any:
        self.asked += 1
        return [documents.Document(page_content=f"{query} {self.limit}")]


class Search(tools.BaseTool):
    """A tool with a setting."""

    name: str = "search"
    description: str = "searches"
    max_results: int = 5

    def _run(self, query: str) -> str:
        return f"{query}: {self.max_results}"


def _retriever(**settings: Any) -> Any:
    return Store().as_retriever(**settings)


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "k": (
        lambda: _retriever(search_kwargs={"k": 3}),
        lambda: _retriever(search_kwargs={"k": 1}),
        "settings.search_kwargs",
    ),
    "filter": (
        lambda: _retriever(search_kwargs={"k": 3, "filter": {"lang": "en"}}),
        lambda: _retriever(search_kwargs={"k": 3, "filter": {"lang": "de"}}),
        "settings.search_kwargs",
    ),
    "number beside a function": (
        lambda: _retriever(search_kwargs={"k": 3, "filter": len}),
        lambda: _retriever(search_kwargs={"k": 2, "filter": len}),
        "settings.search_kwargs",
    ),
    "kind of search": (lambda: _retriever(), lambda: _retriever(search_type="mmr"), "settings.search_type"),
    "threshold": (
        lambda: _retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.1}),
        lambda: _retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.2}),
        "settings.search_kwargs",
    ),
    "field of an own class": (lambda: Pages(limit=3), lambda: Pages(limit=4), "settings.limit"),
    "list of an own class": (lambda: Pages(), lambda: Pages(languages=["en", "fr"]), "settings.languages"),
    "retriever in a retriever": (
        lambda: Pages(inner=_retriever(search_kwargs={"k": 3})),
        lambda: Pages(inner=_retriever(search_kwargs={"k": 2})),
        "settings.inner",
    ),
    "tool": (lambda: Search(), lambda: Search(max_results=1), "settings.max_results"),
}


def _agent(thing: Any) -> Callable[[], Any]:
    def agent() -> Any:
        return [len(thing.invoke("shoes")), len(thing.invoke("boots"))]

    return agent


@pytest.mark.parametrize(("made", "changed", "component"), CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_setting_is_a_divergence_at_its_step(
    made: Callable[[], Any], changed: Callable[[], Any], component: str
) -> None:
    fixture, _ = record(_agent(made()))
    same, _ = replay(_agent(made()), ReplaySession(fixture))
    assert verdict(same) is Verdict.IDENTICAL
    report, _ = replay(_agent(changed()), ReplaySession(fixture))
    assert report.first is not None
    assert (report.first.kind, report.first.step, report.first.differed) == (DivergenceKind.REQUEST_CHANGED, 1, (component,))


class StorePaths:
    """An object with a marked method."""

    def __init__(self, top: int, *, folder: str = "/srv/a") -> None:
        self.top, self.folder, self.seen = top, folder, 0
        self.known: list[str] = []

    @freezeframe.retriever
    def invoke(self, query: str, *, lang: str = "en") -> list[str]:
        self.seen += 1
        self.known.append(query)
        return [f"{query} {lang} {n}" for n in range(self.top)]


def test_a_changed_setting_of_an_object_with_a_marked_retriever_is_a_divergence() -> None:
    fixture, _ = record(_agent(StorePaths(3)))
    same, _ = replay(_agent(StorePaths(3, folder="/srv/b")), ReplaySession(fixture))
    assert verdict(same) is Verdict.IDENTICAL
    report, _ = replay(_agent(StorePaths(2)), ReplaySession(fixture))
    assert report.first is not None
    assert (report.first.step, report.first.differed) == (1, ("settings.top",))


def test_state_credentials_and_names_do_not_decide() -> None:
    fixture, _ = record(_agent(Pages(api_key="sk-1", tags=["a"])))
    assert b"sk-1" not in b"".join(step.exchange.request.body for step in fixture.steps)
    report, _ = replay(_agent(Pages(api_key="sk-2", asked=7, tags=["b"])), ReplaySession(fixture))
    assert verdict(report) is Verdict.IDENTICAL


def test_a_changed_setting_of_llama_index_is_a_divergence() -> None:
    core: Any = pytest.importorskip("llama_index.core")
    stores: Any = pytest.importorskip("llama_index.core.vector_stores")
    nodes = [core.schema.TextNode(id_=str(n), text=f"page {n}", metadata={"lang": "en"}) for n in range(4)]
    index = core.VectorStoreIndex(nodes, embed_model=core.MockEmbedding(embed_dim=3))

    def agent(**settings: Any) -> Callable[[], Any]:
        return lambda: len(index.as_retriever(**settings).retrieve("shoes"))

    def only(lang: str) -> Any:
        return stores.MetadataFilters(filters=[stores.MetadataFilter(key="lang", value=lang)])

    for was, now, component in (
        ({"similarity_top_k": 2}, {"similarity_top_k": 1}, "settings.similarity_top_k"),
        ({"filters": only("en")}, {"filters": only("de")}, "settings.filters"),
    ):
        fixture, _ = record(agent(**was))
        assert verdict(replay(agent(**was), ReplaySession(fixture))[0]) is Verdict.IDENTICAL
        report, _ = replay(agent(**now), ReplaySession(fixture))
        assert report.first is not None
        assert report.first.differed == (component,)
