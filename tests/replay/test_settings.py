"""A changed setting of a retriever or tool is a divergence at its step, though the replay does not run it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from answered_here import record, replay

import freezeframe
from freezeframe_replay.engine.policy import ReplayPolicy
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
    knowledge_base_id: str = "KB1"
    metadata_filter: Any = None
    languages: list[str] = ["en"]  # noqa: RUF012 - a pydantic default
    asked: int = 0
    api_key: str = ""
    inner: Any = None
    base_retriever: Any = None
    retrievers: Any = ()
    reranker: Any = None

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


def _cut(query: str, *, size: int) -> str:
    return query[:size]


class StorePaths:
    """An object with a marked method."""

    def __init__(self, top: int, *, folder: str = "/srv/b", made: str = "", seen: int = 0) -> None:
        self.top, self.folder, self.seen = top, folder, seen
        self.cache_of, self.made = folder, made or f"<object at {id(self):#x}>"
        self.known: list[str] = ["x"] * seen
        self.by_query: dict[str, dict[str, int]] = {str(n): {} for n in range(seen)}

    def find(self, query: str) -> str:
        """Find it, as a function of a framework's tool."""
        return query * self.top

    @freezeframe.retriever
    def invoke(self, query: str, *, lang: str = "en") -> list[str]:
        self.seen += 1
        self.known.append(query)
        self.by_query.setdefault(query, {})["n"] = 1
        self.by_query[query][lang] = self.seen
        return [f"{query} {lang} {n}" for n in range(self.top)]


class Filter:
    """A filter of an application, as an object."""

    def __init__(self, lang: str) -> None:
        self.lang = lang


def _times(k: int) -> Any:
    """Make a tool of a function that a factory made."""

    def repeated(query: str) -> str:
        """Repeat it."""
        return query * k

    return tools.StructuredTool.from_function(repeated, name="repeated")


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
    "filter that is an object": (
        lambda: _retriever(search_kwargs={"filter": Filter("en")}),
        lambda: _retriever(search_kwargs={"filter": Filter("de")}),
        "settings.search_kwargs",
    ),
    "id of what is searched": (lambda: Pages(), lambda: Pages(knowledge_base_id="KB2"), "settings.knowledge_base_id"),
    "filter of metadata": (
        lambda: Pages(metadata_filter={"year": {1, 2}}),
        lambda: Pages(metadata_filter={"year": {1, 3}}),
        "settings.metadata_filter",
    ),
    "retriever that is the base": (
        lambda: Pages(base_retriever=_retriever(search_kwargs={"k": 3})),
        lambda: Pages(base_retriever=_retriever(search_kwargs={"k": 2})),
        "settings.base_retriever",
    ),
    "one of several retrievers": (
        lambda: Pages(retrievers=[_retriever(), _retriever(search_kwargs={"k": 3})]),
        lambda: Pages(retrievers=[_retriever(), _retriever(search_kwargs={"k": 2})]),
        "settings.retrievers",
    ),
    "reranker of the application": (
        lambda: Pages(reranker=Filter("a")),
        lambda: Pages(reranker=Filter("b")),
        "settings.reranker",
    ),
    "object of a tool's method": (
        lambda: tools.Tool(name="find", description="finds", func=StorePaths(3).find),
        lambda: tools.Tool(name="find", description="finds", func=StorePaths(2).find),
        "settings.func",
    ),
    "argument of a tool's partial": (
        lambda: tools.Tool(name="find", description="finds", func=partial(_cut, size=3)),
        lambda: tools.Tool(name="find", description="finds", func=partial(_cut, size=2)),
        "settings.func",
    ),
    "argument of a tool's factory": (lambda: _times(3), lambda: _times(2), "settings.func"),
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


def test_a_changed_setting_of_an_object_with_a_marked_retriever_is_a_divergence() -> None:
    fixture, _ = record(_agent(StorePaths(3)))
    same, _ = replay(_agent(StorePaths(3, folder="/srv/b", seen=2)), ReplaySession(fixture))
    assert verdict(same) is Verdict.IDENTICAL
    report, _ = replay(_agent(StorePaths(2)), ReplaySession(fixture))
    assert report.first is not None
    assert (report.first.step, report.first.differed) == (1, ("settings.top",))


@dataclass(frozen=True, slots=True)
class Reach:
    """What a marked tool's object is set to."""

    k: int
    namespace: str = "prod"


class Desk:
    """An object with a marked tool, with settings in containers and in objects."""

    def __init__(self, search: Reach, langs: frozenset[str], weights: dict[str, float]) -> None:
        self.search, self._langs, self.weights, self.open = search, langs, weights, 0

    @freezeframe.tool
    def invoke(self, query: str) -> str:
        self.open += 1
        return query * self.search.k


MARKED: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "object": (lambda: _desk(), lambda: _desk(search=Reach(2)), "settings.search"),
    "namespace": (lambda: _desk(), lambda: _desk(search=Reach(3, "test")), "settings.search"),
    "set": (lambda: _desk(), lambda: _desk(langs=frozenset({"de"})), "settings.langs"),
    "table": (lambda: _desk(), lambda: _desk(weights={"title": 0.5}), "settings.weights"),
}


def _desk(search: Reach = Reach(3), langs: frozenset[str] = frozenset({"en"}), weights: Any = None) -> Desk:
    return Desk(search, langs, weights or {"title": 0.4})


@pytest.mark.parametrize(("made", "changed", "component"), MARKED.values(), ids=MARKED.keys())
def test_a_changed_setting_of_an_object_with_a_marked_tool_is_a_divergence(
    made: Callable[[], Any], changed: Callable[[], Any], component: str
) -> None:
    fixture, _ = record(_agent(made()))
    assert verdict(replay(_agent(made()), ReplaySession(fixture))[0]) is Verdict.IDENTICAL
    report, _ = replay(_agent(changed()), ReplaySession(fixture))
    assert report.first is not None
    assert (report.first.step, report.first.differed) == (1, (component,))


def test_what_a_factory_gave_a_marked_function_is_compared_unless_the_function_runs() -> None:
    def agent(k: int) -> Callable[[], Any]:
        calls: list[str] = []

        @freezeframe.retriever
        def search(query: str) -> list[str]:
            calls.append(query)
            return [query] * k

        return lambda: [search("shoes"), search("boots")]

    fixture, _ = record(agent(3))
    assert verdict(replay(agent(3), ReplaySession(fixture))[0]) is Verdict.IDENTICAL
    report, _ = replay(agent(2), ReplaySession(fixture))
    assert report.first is not None
    assert report.first.differed == ("settings.k",)
    policy = ReplayPolicy(run_tools=frozenset({"search"}))
    report, _ = replay(agent(2), ReplaySession(fixture, policy=policy))
    assert [found.kind for found in report.divergences][:1] == [DivergenceKind.RESULT_CHANGED]


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
