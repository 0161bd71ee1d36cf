"""A Comparison as a document: the report, its ranking, or its pairs.

A topic joins by its line in `_TOPICS`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.pairs import most_certain
from mlflow_mleval.analysis.recommendation import Question
from mlflow_mleval.analysis.recommendation import decision as decide
from mlflow_mleval.analysis.recommendation import question as ask
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import ALWAYS, Column, Data, Frames, listed, name
from mlflow_mleval.report.content import decision, ranking, units
from mlflow_mleval.report.content.ranking import rows_of_best
from mlflow_mleval.report.document import Brief, Document
from mlflow_mleval.report.text import level, number
from mlflow_mleval.sentences import count
from mlflow_mleval.validation import present

# --------------------------------------------------------------------------------------------------
# What each method of a comparison is, in a line, and where it comes from; only those that a
# comparison used.
#
# The lines stand in ``methods.txt``, the publications in ``references.bib``; they are cited there
# by author and year.

#: Letters of surnames that BibTeX writes in its own way.
_LETTERS = {r"{\v{s}}": "š", r"{\i}": "ı", r"{\"u}": "ü", r"{\"a}": "ä"}


@dataclass(frozen=True)
class Reference:
    """A publication: how it is cited in running text, and its BibTeX entry."""

    cite: str
    bibtex: str

    @classmethod
    def of(cls, bibtex: str) -> "Reference":
        """The entry, cited by author and year.

        >>> Reference.of(r"@book{k, author = {Dem{\\v{s}}ar, Janez and Holm, Sture}, year = {1979}, }").cite
        'Demšar & Holm 1979'
        """  # noqa: E501
        found = (re.search(rf"\b{field} = {{(.*?)}},", bibtex) for field in ("author", "year"))
        authors, year = (present(hit)[1] for hit in found)
        for written, letter in _LETTERS.items():
            authors = authors.replace(written, letter)
        surnames = [author.partition(",")[0] for author in authors.split(" and ")]
        who = " & ".join(surnames) if len(surnames) < 3 else f"{surnames[0]} et al."
        return cls(f"{who} {year}", bibtex)


def _entries_of_file(file: str) -> list[str]:
    """What stands between empty lines of a file beside this one."""
    return (files("mlflow_mleval.report") / file).read_text("utf-8").strip().split("\n\n")


#: The publications by how they are cited.
REFERENCES = {one.cite: one for one in map(Reference.of, _entries_of_file("references.bib"))}
#: Method -> its line, and the sources as they are cited.
_METHODS = {
    name: (line, sources.split("; "))
    for name, line, sources in map(str.splitlines, _entries_of_file("methods.txt"))
}


#: Whether a comparison used a method, in the order of the report; between the two stand the
#: post-hoc tests.
_FIRST: dict[str, Callable[[Comparison], object]] = {
    "PROMETHEE II": lambda c: True,
    "PROMETHEE I": lambda c: True,
    "entropy weights": lambda c: len(c.study.measures) > 1 and c.options["weights"] == "entropy",
    "GAIA plane": lambda c: c.plane,
    "Friedman": lambda c: c.friedman,
    "Iman–Davenport": lambda c: c.friedman,
}
_THEN: dict[str, Callable[[Comparison], object]] = {
    "Holm": lambda c: c.pairwise,
    "Skillings–Mack": lambda c: c.skillings_mack,
    "groups and letters": lambda c: c.friedman,
    "pairwise matrix": lambda c: c.pairwise,
    "Kendall's τ": lambda c: len(c.study.measures) > 1,
    "redundancy filter": lambda c: c.redundancy,
    "rank acceptability": lambda c: len(c.study.measures) > 1 and c.stability,
    "Hotelling's T²": lambda c: any(not f.is_five_by_two for f in c.folds.values()),
    "combined 5x2 cv test": lambda c: any(f.is_five_by_two for f in c.folds.values()),
    "correction for shared training data": lambda c: any(
        f.protocol.ratio is not None for f in c.folds.values()
    ),
    "hierarchical correlated t": lambda c: c.next_dataset,
    "MANOVA": lambda c: any(f.manova for f in c.folds.values()),
    "Mardia": lambda c: any(f.mardia for f in c.folds.values()),
    "tests over instances": lambda c: c.instances,
    "loss profiles": lambda c: c.profiles,
    "tests along profiles": lambda c: c.profiles and c.profiles.ratios["pvalue"].notna().any(),
    "Bayesian tests": lambda c: c.beyond and c.beyond.bayes,
    "equivalence": lambda c: c.beyond and c.beyond.equivalence,
    "possible ranks": lambda c: c.letters_apply,
}


def methods_used(c: Comparison) -> Iterator[tuple[str, str, list[Reference]]]:
    """Name, line and sources of every method that the comparison used."""
    first, then = (
        [(name, *_METHODS[name]) for name, used in part.items() if used(c)]
        for part in (_FIRST, _THEN)
    )
    tests = [(test.title, test.summary, test.sources) for test, _ in reversed(c.posthoc)]
    for method, line, sources in (*first, *tests, *then):
        yield method, line, [REFERENCES[cite] for cite in sources]


def bibliography(c: Comparison) -> list[Reference]:
    """The sources of the methods and measures that were used, each once, by year."""
    found = {r for _, _, sources in methods_used(c) for r in sources}
    cited = (MEASURES[m].source.partition(",")[0] for m in c.study.measures if m in MEASURES)
    return sorted(
        found.union(REFERENCES[cite] for cite in cited if cite in REFERENCES),
        key=lambda r: (r.cite[-4:], r.cite),
    )


# --------------------------------------------------------------------------------------------------
# Methods and provenance: every choice, what was computed and after whom, and what reproduces it.

_TABLES = (
    "promethee.DATASET.unicriterion",
    "promethee.DATASET.incomparable",
    "stability.acceptability.shares",
    "stability.leave_one_out.ranks",
    "stability.leave_one_out.reversals",
    "pairwise.pairs",
)


def best_methods_data(c: Comparison) -> Data:
    """Which keys of JSON hold the best methods only."""
    held = f"the best {ranking.MOST} of {len(c.order):,} methods"
    return {"shortened": dict.fromkeys(_TABLES, held) if len(c.order) > ranking.MOST else {}}


def provenance_section(c: Comparison, made_by: doc.Provenance) -> doc.Section:
    """What reproduces the report and what its data leave out, choices, definitions and sources."""

    def blocks() -> list[Any]:
        notes = ["report.json holds the ids of the runs and the sources as BibTeX."]
        if len(c.order) > ranking.MOST:
            held = f"hold the best {ranking.MOST} of {len(c.order):,} methods"
            where = "`mleval compare -o pairs.csv` has them all"
            where = where if len(c.ranks) > 1 else "Python has all"
            notes.insert(0, f"The tables of pairs in the data {held}; {where}.")
        methods, lines, sources = zip(*methods_used(c), strict=True)
        after = ["; ".join(source.cite for source in cited) for cited in sources]
        columns = [
            Column("method", methods, "<"),
            Column("what it does", [f"{line}." for line in lines], "wrap"),
            Column("after", after, "wrap"),
        ]
        return [
            *(replace(block, depth=doc.PAPER) for block in doc.made_from(made_by).blocks),
            *map(doc.note, notes),
            _choices(c),
            doc.Table(columns, title="What was computed", depth=doc.PAGE),
            doc.definitions({m: c.study.directions[m] for m in c.study.measures}),
        ]

    hint = "every choice, its source, and what reproduces it"
    return doc.Section("provenance", "Methods and provenance", doc.Late(blocks), hint=hint)


def study_data(c: Comparison) -> Data:
    """What JSON holds, but for the provenance."""
    filled = [{"dataset": dataset, "method": method} for dataset, method in c.study.filled]
    values = c.study.values.rename_axis(["dataset", "method"]).reset_index()
    known = doc.named(c.study, "methods", "datasets", "measures", "missing", "runs")
    return {
        "study": {**known, "filled": filled, "values": values},
        "options": c.options,
        "references": [reference.bibtex for reference in bibliography(c)],
    }


def _choices(c: Comparison) -> doc.Table:
    """What was chosen or follows from the study."""
    o, chosen = c.options, c.study.source.get("measures_by")
    limits = "; ".join(f"{key} = {_given(o[key], {})}" for key in "pqs" if o[key] is not None)
    largest = "from the largest difference of each measure on each dataset"
    constant = " (measures that do not differ weigh nothing)" if o["drop_constant"] else ""
    draws = f"{o['n_draws']:,} draws, seed {o['seed']}"
    missing = o["missing"]
    rows = {
        "measures": f"{len(c.study.measures)}: {chosen}" if chosen else "",
        "compared": "net flows φ and their ranks" if c.on == FUSED else name(c.on),
        "preference function": _given(o["preference"], decision.PREFERENCES),
        "thresholds": limits or largest,
        "weights": f"{_given(o['weights'], {})}{constant}",
        "conventions for empty sets and ties": doc.conventions(c.study.runs),
        "missing results": f"{doc.glossary('policies')[missing]} (policy {missing})",
        "significance level": f"α = {level(o['alpha'])}",
        "ties of ranks": doc.glossary("ties")[o["ties"]],
        "control": "none: all pairs" if o["control"] is None else name(o["control"]),
        "redundant above": f"{o['threshold']:g} (absolute correlation)",
        "random weights": "not examined" if c.stability is None else draws,
    }
    told = {what: which for what, which in rows.items() if which}
    columns = [Column("choice", [*told], "<"), Column("", [*told.values()], "wrap")]
    return doc.Table(columns, title="Choices", depth=doc.PAGE)


def _given(choice: Any, words: Mapping[str, str]) -> str:
    """A choice by name, or per measure."""
    if isinstance(choice, Mapping):
        parts = choice.items()
        return listed(
            [f"{m} {words.get(x, x) if isinstance(x, str) else number(x)}" for m, x in parts], 40
        )
    return words.get(choice, str(choice)) if isinstance(choice, str) else str(choice)


# --------------------------------------------------------------------------------------------------
# The topics of a report, and its documents.


class Topic(NamedTuple):
    """What a topic gives: a section of the report, data for JSON, tables for CSV."""

    section: Callable[[Comparison], doc.Section | None]
    data: Callable[[Comparison], Data] | None = None
    frames: Callable[[Comparison], Frames] | None = None
    apart: bool = False  #: not in a ranking by itself


def _of_profiles(part: str, otherwise: Any) -> Callable[[Comparison], Any]:
    """A part of the topic of profiles, whose module loads only where a comparison holds some."""

    def of(c: Comparison) -> Any:
        if c.profiles is None:
            return otherwise
        return getattr(import_module(f"{__package__}.profiles"), part)(c)

    return of


def doubts_section(c: Comparison, most: int = 1) -> doc.Section | None:
    """The doubts as a marked list, so many of them on a terminal; nothing where there are none."""
    if not c.doubts:
        return None
    names = {*c.study.methods, *c.study.datasets, *c.study.measures}
    return doc.doubts([doc.capitalised(text, names) for text in c.doubts], most)[0]


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
    Topic(units.over_datasets, data=units.data_over_datasets, frames=units.frames_over_datasets),
    Topic(
        decision.next_dataset_section,
        data=decision.next_dataset_data,
        frames=decision.next_dataset_frames,
        apart=True,
    ),
    *(
        Topic(
            partial(units.section, unit=unit),
            partial(units.data, unit=unit),
            partial(units.frames, unit=unit),
            apart=True,
        )
        for unit in ("folds", "instances", "answers")
    ),
    Topic(
        _of_profiles("section", None),
        _of_profiles("data", {"profiles": None}),
        _of_profiles("frames", {}),
        apart=True,
    ),
    Topic(decision.beyond_section, data=decision.beyond_data),
    Topic(ranking.measures_section, data=ranking.measures_data, frames=ranking.measures_frames),
    Topic(ranking.sensitivity_section, data=ranking.sensitivity_data),
)
#: Sections that answer; what else there is is evidence, which a page folds as one.
_ANSWERS = ("decision", "doubts", "ranking", "datasets", "units", "cost", "what-if", "answers")
#: What JSON holds beside the topics.
_BESIDE = (study_data, best_methods_data)
PARTS = ("report", "ranking", "pairs")
#: Doubts of pairs that stand on a terminal.
DOUBTS = 6


def document(
    c: Comparison, made_by: doc.Provenance, what: str = "report", pair: Sequence[str] = ()
) -> Document:
    """The report, or the part that a command shows ("ranking", "pairs"); JSON always holds
    everything.

    `made_by` is what reproduces it: command, versions, tracking_uri, experiments, filter, run_ids,
    seed, policy, time; any may lack. The ranking lacks what is about folds, instances and profiles.
    `pair` names the two methods of which it is asked first; by default the leader and the next.
    """
    asked = ask(c, *pair)
    whole = what == "report"
    if what == "pairs":
        return _document_of_pairs(c, made_by, asked)
    made: list[doc.Section | None] = [decision.section(c, asked, str(made_by.get("command", "")))]
    made += [topic.section(c) for topic in _TOPICS if whole or not topic.apart]
    made.append(provenance_section(c, made_by))
    sections = [
        replace(section, open=bool(section.open), evidence=section.key not in _ANSWERS)
        for section in made
        if section is not None
    ]
    return _with_all_data(
        c, made_by, asked, decision.title(asked) if whole else title_of(c), sections
    )


def _with_all_data(
    c: Comparison,
    made_by: doc.Provenance,
    asked: Question,
    title: str,
    sections: Sequence[doc.Section],
) -> Document:
    """The sections, with all data beside them."""

    def data() -> Data:
        topics = _merged(c, [*(topic.data for topic in _TOPICS), *_BESIDE])
        return {**decision.data(c, asked), **topics, "provenance": dict(made_by)}

    n, policy = len(c.study.measures), c.options["missing"]
    about = [title_of(c)]
    if c.on == FUSED:  # one dataset is told in its own units
        several = len(c.study.datasets) > 1
        how = f" fused by PROMETHEE II, {decision.choices(c.options, n)}" if several else ""
        about.append(f"{count(n, 'measure')}{how}")
    about.append("no missing results" if policy == "error" else f"missing results: {policy}")
    about.append(f"α = {level(c.options['alpha'])}")
    return Document(
        title,
        sections,
        about=" · ".join(about),
        data=data,
        frames=lambda: _merged(c, [topic.frames for topic in _TOPICS]),
        main="ranking",
        shortened=lambda: _shortened(c, made_by, asked),
        pair=(asked.a, asked.b),
    )


def _document_of_pairs(c: Comparison, made_by: doc.Provenance, asked: Question) -> Document:
    """What a terminal shows of pairs."""
    said = [s.text for s in decision.tested(c)]
    if c.deciding is None:
        said.insert(0, c.decision)
    answer = doc.Text(said, role="lead", depth=ALWAYS)
    sections = [
        doc.Section("verdict", "Verdict", [answer]),
        doubts_section(c, DOUBTS),
        units.over_datasets(c),
        decision.next_dataset_section(c),
        decision.beyond_section(c),
        provenance_section(c, made_by),
    ]
    there = [replace(section, depth=doc.PAPER) for section in sections if section is not None]
    made = _with_all_data(c, made_by, asked, f"Pairs of {title_of(c)}", there)

    def data() -> Data:
        """Pairs, whatever they are tested over; of very many methods those of the best."""
        tests = c.tests_over("datasets").get("")
        if tests is None:
            return {**made.data(), "over": "datasets", "pairs": []}
        if shortened := best_methods_data(c)["shortened"]:
            shortened = {**shortened, "pairs": next(iter(shortened.values()))}
        pairs = rows_of_best(c, tests.pairs.reset_index(drop=True))
        about = {"verdict": tests.headline(), "pairs": pairs, "shortened": shortened}
        return {**made.data(), "over": "datasets", **about}

    return replace(
        made,
        data=data,
        frames=lambda: {**made.frames(), "pairs": c.pairs},
        main="pairs",
    )


def _shortened(c: Comparison, made_by: doc.Provenance, asked: Question) -> Brief:
    """The decision in a few words, and the pair that is told apart most surely."""
    advice = decide(c)
    kinds = ("datasets", "folds", "repeats", "instances", "answers")
    certain = most_certain(next(filter(None, map(c.tests_over, kinds)), {}))
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


def _merged(
    c: Comparison,
    makers: Iterable[Callable[[Comparison], Data] | None],
) -> Data:
    """What all topics give for JSON or CSV."""
    return {key: value for make in makers if make for key, value in make(c).items()}


def title_of(c: Comparison) -> str:
    """What was compared."""
    by = "" if c.on == FUSED else f" by {name(c.on)}"
    return (
        f"{count(len(c.study.methods), 'method')} compared on "
        f"{count(len(c.study.datasets), 'dataset')}{by}"
    )
