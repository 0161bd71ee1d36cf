"""A Comparison as a document: the report, its ranking, or its pairs.

A topic joins by its line in `_TOPICS`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.pairs import most_certain
from mlflow_mleval.analysis.question import Question
from mlflow_mleval.analysis.question import question as ask
from mlflow_mleval.analysis.recommendation import decision as decide
from mlflow_mleval.report.blocks import (
    ALWAYS,
    Data,
    Frames,
    Provenance,
    Section,
    Text,
    capitalised,
    doubts,
    listed,
)
from mlflow_mleval.report.content import (
    beyond,
    decision,
    differences,
    measures,
    provenance,
    ranking,
)
from mlflow_mleval.report.content.pair_question import title
from mlflow_mleval.report.document import Brief, Document
from mlflow_mleval.report.text import level
from mlflow_mleval.sentences import count


class Topic(NamedTuple):
    """What a topic gives: a section of the report, data for JSON, tables for CSV."""

    section: Callable[[Comparison], Section | None]
    data: Callable[[Comparison], Data] | None = None
    frames: Callable[[Comparison], Frames] | None = None
    apart: bool = False  #: not in a ranking by itself


def _topic_where_held(
    held: Callable[[Comparison], object],
    module: str,
    none: Data,
    **options: Any,
) -> Topic:
    """A topic that few comparisons have: its module loads only where one `held` it; `none` is what
    JSON says else.
    """

    def says(part: str, otherwise: Any) -> Callable[[Comparison], Any]:
        def of(c: Comparison) -> Any:
            if not held(c):
                return otherwise
            return getattr(import_module(f"{__package__}.{module}"), part)(c, **options)

        return of

    return Topic(says("section", None), says("data", none), says("frames", {}), apart=True)


def _of_units(unit: str) -> Topic:
    """Tests over folds, instances or answers, and why there are none."""
    return _topic_where_held(
        lambda c: c.tests_over(unit) or c.untested_over(unit),
        "units",
        {unit: {}},
        unit=unit,
    )


def doubts_section(c: Comparison, most: int = 1) -> Section | None:
    """The doubts as a marked list, so many of them on a terminal; nothing where there are none."""
    if not c.doubts:
        return None
    names = {*c.study.methods, *c.study.datasets, *c.study.measures}
    return doubts([capitalised(text, names) for text in c.doubts], most)[0]


def doubts_data(c: Comparison) -> Data:
    return {"doubts": c.doubts, "absent": c.absent, "excluded": c.study.excluded}


#: The topics of the report, in the order of reading.
_TOPICS = (
    Topic(doubts_section, data=doubts_data),
    Topic(ranking.section, data=ranking.data, frames=ranking.frames),
    Topic(ranking.datasets_section),
    Topic(decision.verdict_section, data=decision.verdict_data),
    Topic(decision.units_section),
    Topic(decision.cost_section, data=decision.cost_data),
    Topic(ranking.weights_section),
    Topic(ranking.spread_section, data=ranking.spread_data, frames=ranking.spread_frames),
    Topic(differences.section, data=differences.data, frames=differences.frames),
    Topic(
        beyond.next_dataset_section,
        data=beyond.next_dataset_data,
        frames=beyond.next_dataset_frames,
        apart=True,
    ),
    *map(_of_units, ("folds", "instances", "answers")),
    _topic_where_held(lambda c: c.profiles is not None, "profiles", {"profiles": None}),
    Topic(beyond.section, data=beyond.data),
    Topic(measures.section, data=measures.data, frames=measures.frames),
    Topic(measures.sensitivity_section, data=measures.sensitivity_data),
)
#: Sections that answer; what else there is is evidence, which a page folds as one.
_ANSWERS = ("decision", "doubts", "ranking", "datasets", "units", "cost", "what-if", "answers")
#: What JSON holds beside the topics.
_BESIDE = (provenance.data, provenance.best_methods_data)
PARTS = ("report", "ranking", "pairs")
#: Doubts of pairs that stand on a terminal.
DOUBTS = 6


def document(
    c: Comparison, made_by: Provenance, what: str = "report", pair: Sequence[str] = ()
) -> Document:
    """The report, or the part that a command shows ("ranking", "pairs"); JSON always holds
    everything.

    `made_by` is what reproduces it: command, versions, tracking_uri, experiments, filter, run_ids,
    seed, policy, time; any may lack. The ranking lacks what is about folds, instances and profiles.
    `pair` names the two methods of which it is asked first; by default the leader and the next.
    """
    asked = ask(c, *pair)
    pairs = what == "pairs"
    if pairs:
        sections = _sections_of_pairs(c, made_by)
    else:
        chosen = [topic for topic in _TOPICS if what == "report" or not topic.apart]
        made: list[Section | None] = [decision.section(c, asked, str(made_by.get("command", "")))]
        made += [*(topic.section(c) for topic in chosen), provenance.section(c, made_by)]
        sections = [
            section
            and replace(section, open=bool(section.open), evidence=section.key not in _ANSWERS)
            for section in made
        ]

    def data() -> Data:
        topics = _merged(c, [*(topic.data for topic in _TOPICS), *_BESIDE])
        topics = {**decision.data(c, asked), **topics}
        return {**topics, **(_pairs(c) if pairs else {}), "provenance": dict(made_by)}

    return Document(
        f"Pairs of {title_of(c)}" if pairs else title(asked) if what == "report" else title_of(c),
        [section for section in sections if section is not None],
        about=_about(c),
        data=data,
        frames=lambda: {
            **_merged(c, [topic.frames for topic in _TOPICS]),
            **({"pairs": c.pairs} if pairs else {}),
        },
        main="pairs" if pairs else "ranking",
        shortened=lambda: _shortened(c, made_by, asked),
        pair=(asked.a, asked.b),
    )


def _sections_of_pairs(c: Comparison, made_by: Provenance) -> list[Section | None]:
    """What a terminal shows of pairs."""
    sentences = differences.pairs_verdict(c)
    answer = Text([s.text for s in sentences], role="lead", depth=ALWAYS)
    return [
        Section("verdict", "Verdict", [answer]),
        doubts_section(c, DOUBTS),
        differences.section(c, ALWAYS),
        beyond.next_dataset_section(c, ALWAYS),
        beyond.section(c, ALWAYS),
        provenance.section(c, made_by, ALWAYS),
    ]


def _shortened(c: Comparison, made_by: Provenance, asked: Question) -> Brief:
    """The decision in a few words, and the pair that is told apart most surely."""
    advice = decide(c)
    units = ("datasets", "folds", "repeats", "instances", "answers")
    certain = most_certain(next(filter(None, map(c.tests_over, units)), {}))
    if certain is not None and certain["measure"] == FUSED:
        certain["measure"] = "net flow φ"
    return Brief(
        " ".join(sentence.text for sentence in decision.sentences(c, asked, advice)),
        advice.best_set,
        c.order,
        len(c.order),
        certain,
        [str(text) for text in c.doubts],
        [*c.study.methods, *c.study.datasets, *c.study.measures],
        command=made_by.get("command", ""),
        address=made_by.get("address", ""),
    )


def _pairs(c: Comparison) -> Data:
    """What JSON holds of pairs, whatever they are tested over; of very many methods the best."""
    tests = c.tests_over("datasets").get("")
    if tests is None:
        return {"over": "datasets", "pairs": []}
    shortened = provenance.best_methods_data(c)["shortened"]
    return {
        "over": "datasets",
        "verdict": tests.headline(),
        "pairs": provenance.rows_among(tests.pairs.reset_index(drop=True), provenance.best(c)),
        "shortened": shortened and {**shortened, "pairs": next(iter(shortened.values()))},
    }


def _merged(
    c: Comparison,
    makers: Iterable[Callable[[Comparison], Data] | None],
) -> Data:
    """What all topics give for JSON or CSV."""
    return {key: value for make in makers if make for key, value in make(c).items()}


def title_of(c: Comparison) -> str:
    """What was compared."""
    by = "" if c.on == FUSED else f" by {listed([c.on])}"
    return (
        f"{count(len(c.study.methods), 'method')} compared on "
        f"{count(len(c.study.datasets), 'dataset')}{by}"
    )


def _about(c: Comparison) -> str:
    """How, in a line."""
    n = len(c.study.measures)
    policy = c.options["missing"]
    fused = count(n, "measure")
    if len(c.study.datasets) > 1:  # one is told in its own units
        fused += f" fused by PROMETHEE II, {decision.choices(c.options, n)}"
    parts = [
        title_of(c),
        fused if c.on == FUSED else "",
        "no missing results" if policy == "error" else f"missing results: {policy}",
        f"α = {level(c.options['alpha'])}",
    ]
    return " · ".join(filter(None, parts))
