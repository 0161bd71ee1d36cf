"""A Comparison as a document: the report, its ranking, its pairs, or a closer look at one thing. A
topic joins by its line in `_TOPICS`."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote

import pandas as pd

from mlflow_mleval.analysis import recommendation as part
from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.pairs import most_certain
from mlflow_mleval.analysis.recommendation import Question
from mlflow_mleval.analysis.recommendation import decision as decide
from mlflow_mleval.analysis.recommendation import question as ask
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.package import imported
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import ALWAYS, Column, Data, Frames, listed, name
from mlflow_mleval.report.content import decision, ranking, units
from mlflow_mleval.report.content.ranking import rows_of_best
from mlflow_mleval.report.document import Brief, Document
from mlflow_mleval.report.text import aligned, confidence, fixed, level, number, terminal
from mlflow_mleval.sentences import count, some
from mlflow_mleval.validation import one_of, present

# --------------------------------------------------------------------------------------------------
# What each method that a comparison used is, in a line, and where it comes from. The lines stand in
# ``methods.txt``, which cites the publications in ``references.bib`` by author and year.

#: Letters of surnames that BibTeX writes in its own way.
_LETTERS = {r"{\v{s}}": "š", r"{\i}": "ı", r"{\"u}": "ü", r"{\"a}": "ä"}


@dataclass(frozen=True)
class Reference:
    """A publication: how it is cited in running text, and its BibTeX entry."""

    cite: str
    bibtex: str

    @classmethod
    def of(cls, bibtex: str) -> "Reference":
        """The entry, cited by author and year."""
        found = (re.search(rf"\b{field} = {{(.*?)}},", bibtex) for field in ("author", "year"))
        authors, year = (present(hit)[1] for hit in found)
        for written, letter in _LETTERS.items():
            authors = authors.replace(written, letter)
        surnames = [author.partition(",")[0] for author in authors.split(" and ")]
        who = " & ".join(surnames) if len(surnames) < 3 else f"{surnames[0]} et al."
        return cls(f"{who} {year}", bibtex)


_BIBTEX, _LINES = (  # what stands between empty lines of the files
    (files("mlflow_mleval.report") / file).read_text("utf-8").strip().split("\n\n")
    for file in ("references.bib", "methods.txt")
)
#: The publications by how they are cited.
REFERENCES = {one.cite: one for one in map(Reference.of, _BIBTEX)}
#: Method -> its line, and the sources as they are cited.
_METHODS = {
    name: (line, sources.split("; ")) for name, line, sources in map(str.splitlines, _LINES)
}
#: Whether a comparison used a method, in the order of the report; post-hoc tests stand between.
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
    tests = [(test.title, test.summary, test.sources) for test in reversed(c.posthoc)]
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
        measures = c.study.measures
        known = [MEASURES.get(m) for m in measures]
        unknown = "not known here; its direction was declared by the user"
        defined = [
            doc.names("measure", measures),
            doc.better(c.study.directions[m] for m in measures),
            Column("what it is", [m.summary if m else unknown for m in known], "wrap"),
            Column("after", [m.source if m else "" for m in known], "wrap"),
        ]
        return [
            *(replace(block, depth=doc.PAPER) for block in doc.made_from(made_by).blocks),
            *map(doc.note, notes),
            _choices(c),
            doc.Table(columns, title="What was computed", depth=doc.PAGE),
            doc.Table(defined, title="What the measures are", folded=True, depth=doc.PAGE),
        ]

    return doc.Section("provenance", "Methods and provenance", doc.Late(blocks))


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
    data: Callable[[Comparison], Data] = lambda c: {}
    frames: Callable[[Comparison], Frames] = lambda c: {}
    apart: bool = False  #: not in a ranking by itself


def _of_profiles(part: str, otherwise: Any) -> Callable[[Comparison], Any]:
    """A part of the topic of profiles, whose module loads only where a comparison holds some."""

    def of(c: Comparison) -> Any:
        if c.profiles is None:
            return otherwise
        return imported("report.content.profiles", part)(c.profiles)

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
DOUBTS = 6  #: of pairs that stand on a terminal


def document(
    c: Comparison, made_by: doc.Provenance, what: str = "report", pair: Sequence[str] = ()
) -> Document:
    """The report, or the part that a command shows ("ranking", "pairs"); JSON always holds
    everything. Of `pair` it is asked first, by default of the leader and the next."""
    asked, pairs = ask(c, *pair), what == "pairs"
    made: list[doc.Section | None]
    if pairs:
        title = f"Pairs of {title_of(c)}"
        said = [s.text for s in decision.tested(c)]
        if c.deciding is None:
            said.insert(0, c.decision)
        answer = doc.Text(said, role="lead", depth=ALWAYS)
        made = [
            doc.Section("verdict", "Verdict", [answer]),
            doubts_section(c, DOUBTS),
            units.over_datasets(c),
            decision.next_dataset_section(c),
            decision.beyond_section(c),
        ]
    else:
        whole = what == "report"
        title = decision.title(asked) if whole else title_of(c)
        made = [decision.section(c, asked, str(made_by.get("command", "")))]
        made += [topic.section(c) for topic in _TOPICS if whole or not topic.apart]
    sections = [
        replace(section, depth=doc.PAPER)
        if pairs
        else replace(section, open=bool(section.open), evidence=section.key not in _ANSWERS)
        for section in filter(None, (*made, provenance_section(c, made_by)))
    ]

    def data() -> Data:
        topics = _merged(c, [*(topic.data for topic in _TOPICS), *_BESIDE])
        whole = {**decision.data(c, asked), **topics, "provenance": dict(made_by)}
        return {**whole, **(pairs_data(c) if pairs else {})}

    def frames() -> Frames:
        tables = _merged(c, [topic.frames for topic in _TOPICS])
        return {**tables, "pairs": c.pairs} if pairs else tables

    return Document(
        title,
        sections,
        about=about_of(c),
        data=data,
        frames=frames,
        main="pairs" if pairs else "ranking",
        shortened=lambda: _shortened(c, made_by, asked),
        pair=(asked.a, asked.b),
    )


def pairs_data(c: Comparison) -> Data:
    """Pairs, whatever they are tested over; of very many methods those of the best."""
    tests = c.tests_over("datasets").get("")
    if tests is None:
        return {"over": "datasets", "pairs": []}
    if shortened := best_methods_data(c)["shortened"]:
        shortened = {**shortened, "pairs": next(iter(shortened.values()))}
    pairs = rows_of_best(c, tests.pairs.reset_index(drop=True))
    about = {"verdict": tests.headline(), "pairs": pairs, "shortened": shortened}
    return {"over": "datasets", **about}


def _shortened(c: Comparison, made_by: doc.Provenance, asked: Question) -> Brief:
    """The decision in a few words, and the pair that is told apart most surely."""
    advice = decide(c)

    def certain() -> Data | None:
        kinds = ("datasets", "folds", "repeats", "instances", "answers")
        pair = most_certain(next(filter(None, map(c.tests_over, kinds)), {}))
        if pair is not None and pair["measure"] == FUSED:
            pair["measure"] = "net flow φ"
        return pair

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


def _merged(c: Comparison, makers: Iterable[Callable[[Comparison], Data]]) -> Data:
    """What all topics give for JSON or CSV."""
    return {key: value for make in makers for key, value in make(c).items()}


def title_of(c: Comparison) -> str:
    """What was compared."""
    by = "" if c.on == FUSED else f" by {name(c.on)}"
    return (
        f"{count(len(c.study.methods), 'method')} compared on "
        f"{count(len(c.study.datasets), 'dataset')}{by}"
    )


def about_of(c: Comparison) -> str:
    """What was compared, and how."""
    n, policy = len(c.study.measures), c.options["missing"]
    about = [title_of(c)]
    if c.on == FUSED:  # one dataset is told in its own units
        several = len(c.study.datasets) > 1
        how = f" fused by PROMETHEE II, {decision.choices(c.options, n)}" if several else ""
        about.append(f"{count(n, 'measure')}{how}")
    about.append("no missing results" if policy == "error" else f"missing results: {policy}")
    return " · ".join([*about, f"α = {level(c.options['alpha'])}"])


# --------------------------------------------------------------------------------------------------
# A closer look at one thing: a method, a dataset, a method on a dataset, or a pair of methods.

#: Measures in a table that has a column for each, those of most weight; runs and folds that stand
#: open on a page; rows of a table.
HEAVIEST = 6
RUNS, FOLDS, ROWS = 3, 12, 500
#: What is known of a run: columns and their heads.
_FACTS = {
    "dataset": "dataset",
    "experiment": "experiment",
    "status": "status",
    "repeat": "seed",
    "start_time": "started",
}


def detail_document(
    c: Comparison,
    provenance: doc.Provenance,
    *,
    method: str = "",
    dataset: str = "",
    against: str = "",
) -> Document:
    """The details of a method, of a dataset, of a method on a dataset, or of two methods."""
    of = "pair" if against else "cell" if method and dataset else "method" if method else "dataset"
    found = detail_section(c, of, method=method, dataset=dataset, against=against)
    first = " on ".join(name(x) for x in (method, dataset) if x)
    title = f"{first} against {name(against)}" if against else first
    return Document.of(provenance, title, [found])


def detail_section(
    c: Comparison,
    of: str,
    *,
    method: str = "",
    dataset: str = "",
    against: str = "",
    base: str = "",
) -> doc.Section:
    """The same as a section, `of` "method", "dataset", "cell" or "pair", with names as they are or
    as they are shown; runs lead to MLflow's pages on the server with the address `base`."""
    first, on = ("method", method), ("dataset", dataset)
    looks: Data = {
        "method": (_method, first),
        "dataset": (_dataset, on),
        "cell": (_cell, first, on),
        "pair": (_pair, first, ("method", against)),
    }
    one_of(of, "of", tuple(looks))
    look, *asked = looks[of]
    known: list[str] = []
    for what, shown in asked:
        names: list[str] = getattr(c.study, f"{what}s")
        found = [n for n in names if n == shown] or [n for n in names if terminal(n) == shown]
        if len(found) != 1:
            has = some(map(terminal, names))
            raise IncomparableRunsError(
                f"the comparison has no {what} {terminal(shown)!r}; it has {has}."
            )
        known += found
    return doc.Section("detail", "A closer look", look(c, base, *known), open=True)


def _cell(c: Comparison, base: str, method: str, dataset: str) -> list[Any]:
    values, runs = (look(c, dataset, method) for look in (part.measures_of_cell, part.runs_of_cell))
    folds = part.rows_of_cell(c.study.folds, dataset, method)
    study, who, n = c.study, f"{name(method)} on {name(dataset)}", int(values["n"].iloc[0])
    imputed = [(dataset, method, m) in study.imputed for m in values.index]
    columns = [
        doc.names("measure", values.index),
        doc.better(study.directions[m] for m in values.index),
        doc.starred("value", map(number, values["value"]), imputed),
    ]
    if n > 1:
        columns.append(doc.numbers("± sd", values["sd"], note="± sd: over repeats."))
    over = " and ".join(count(k, what) for what, k in {"run": n, "fold": len(folds)}.items() if k)
    about = f"The values of {who} are {f'means over {over}' if over else 'those of one result'}."
    if (dataset, method) in study.filled:
        worst = "what is missing counts as the worst of the dataset"
        about = f"{who} has no result: {worst} (policy {study.missing})."
    blocks: list[Any] = [
        doc.Text([about], "flow", depth=ALWAYS),
        doc.Table(columns, title="Values", depth=ALWAYS, most=len(values)),
    ]
    if len(runs):
        blocks.append(_runs(c, runs.drop(columns="dataset"), base))
    if total := len(folds):
        columns = [doc.names("fold", folds.index[:ROWS]), *_heaviest(c, folds.head(ROWS))]
        table = doc.Table(columns, total, "By fold", things="folds", depth=doc.PAGE)
        blocks.append(replace(table, folded=total > FOLDS))
    return blocks


def _runs(c: Comparison, runs: pd.DataFrame, base: str) -> doc.Table:
    """The runs and what is known of them; they lead to MLflow's pages where the server is known."""
    shown = runs.head(ROWS).assign(run_id=runs["run_id"].map(str))
    at = shown.reindex(columns=["experiment_id", "run_id"]).fillna("").astype(str)
    links = []
    for experiment, run in at.map(partial(quote, safe="")).to_numpy():
        address = f"{base}#/experiments/{experiment}/runs/{run}?workflowType=machine_learning"
        links.append(address if base and experiment else "")
    columns = [Column("run", [*map(doc.Link.to, shown["run_id"], links)], "<")]
    facts = shown.reindex(columns=[*_FACTS]).astype(object).fillna("")
    for key, values in facts.items():
        cells = [f"{x:%Y-%m-%d %H:%M}" if isinstance(x, pd.Timestamp) else str(x) for x in values]
        if any(cells):
            strange = key if key in ("dataset", "experiment") else ""
            columns.append(Column(_FACTS[key], cells, "<", name=strange))
    columns += _heaviest(c, shown)
    return doc.Table(columns, len(runs), title="Runs", things="runs", depth=ALWAYS)


def _method(c: Comparison, base: str, method: str) -> list[Any]:
    ranks, runs = c.ranks[[method]].stack(future_stack=True), c.study.runs
    row = c.ranking.set_index("method").loc[method]
    what = "by all measures fused" if c.on == FUSED else f"by {name(c.on)}"
    rank = f"a mean rank of {fixed(row['mean_rank'], 2)} over {count(len(ranks), 'dataset')}"
    text = f"{name(method)} has place {row['position']} of {len(c.order)} {what}, with {rank}."
    cells = _cells(c, ranks, "dataset", "On each dataset")
    blocks: list[Any] = [doc.Text([text], "flow", depth=ALWAYS), cells]
    of_method = runs[runs["method"] == method] if len(runs) else ()
    if base and len(of_method):
        blocks.append(replace(_runs(c, of_method, base), folded=len(of_method) > RUNS))
    return blocks


def _dataset(c: Comparison, base: str, dataset: str) -> list[Any]:
    ranks = c.ranks.loc[[dataset]].stack(future_stack=True).sort_values(kind="stable")
    what = "all measures fused" if c.on == FUSED else name(c.on)
    texts = [f"The ranking on {name(dataset)}, by {what}."]
    if filled := [m for m in c.order if (dataset, m) in c.study.filled]:
        missing = f"missing and count as the worst (policy {c.study.missing})"
        texts.append(f"Results of {listed(filled)} are {missing}.")
    cells = _cells(c, ranks, "method", "Ranking on this dataset")
    return [doc.Text(texts, "flow", depth=ALWAYS), cells]


def _cells(c: Comparison, ranks: pd.Series, head: str, title: str) -> doc.Table:
    """A row a cell with its rank, net flow, values and runs; `head` says what names the rows."""
    shown, runs = ranks.head(ROWS), c.study.n_repeats
    cells = [*shown.index]
    parts = dict(zip(("dataset", "method"), zip(*cells, strict=True), strict=True))
    names = parts.pop(head)
    columns = [
        doc.names(head, names, about={what: of[0] for what, of in parts.items()}),
        doc.numbers("rank", shown),
        doc.decimals("φ", (c.fusion.phi.loc[cell] for cell in cells), 3),
    ]
    by_head = {doc.heading(c.study.directions, m, 18): m for m in c.study.measures}
    for one in _heaviest(c, c.study.values.reindex(cells)):
        imputed = [(*cell, by_head[one.head]) in c.study.imputed for cell in cells]
        columns.append(doc.starred(one.head, one.cells, imputed, keep=one.keep))
    if len(runs):
        columns.append(doc.numbers("runs", map(runs.get, cells)))
    return doc.Table(columns, len(ranks), title, things=f"{head}s", depth=ALWAYS)


def _pair(c: Comparison, base: str, a: str, b: str) -> list[Any]:
    if a == b:
        raise IncomparableRunsError(f"a pair needs two methods, got {terminal(a)!r} twice.")
    measures = part.measures_of_pair(c, a, b)
    means = [aligned(row) for row in measures[["mean_a", "mean_b"]].to_numpy()]
    note = (
        f"Difference: positive where {name(a)} is better, whichever way the measure goes, with its "
        f"{confidence(c.options['alpha'])} interval, not corrected for their number. Means "
        "are over the datasets that both finished."
    )
    limits = measures[["difference", "low", "high"]]
    heads = (name(a, 18), name(b, 18))
    columns = [
        doc.names("measure", measures.index),
        doc.intervals("difference", limits, by_row=True, note=note),
        *map(Column, heads, zip(*means, strict=True)),
        doc.better(c.study.directions[m] for m in measures.index),
    ]
    rows = c.ranking.set_index("method").loc[[a, b]]
    places = [
        f"{name(m)} has place {row.position} (mean rank {fixed(row.mean_rank, 2)})"
        for m, row in rows.iterrows()
    ]
    texts = [f"{doc.joined(places)}."]
    if c.deciding is None:
        texts.append(c.decision)
    tried = c.stability and c.stability.separations
    counts = tried.counts if tried else {}
    if found := [counts[pair] for pair in counts if {*pair} == {a, b}]:
        texts.append("The separation stays under {} of {} other choices.".format(*found[0]))
    title = "By each measure, over the datasets"
    return [
        doc.Text(texts, "flow", depth=ALWAYS),
        *_tests(c, a, b),
        doc.Table(columns, title=title, depth=ALWAYS, most=len(measures)),
        *_profiles(c, a, b),
    ]


def _tests(c: Comparison, a: str, b: str) -> list[doc.Table]:
    """What each test says, the deciding one first: over datasets, folds and instances."""
    looks: list[tuple[str, pd.DataFrame, str, str, str]] = []
    for one in sorted(c.posthoc, key=lambda one: one is not c.deciding):
        apart = {a, b} in map(set, one.result.significant_pairs)
        decides = " (decides)" if one is c.deciding else ""
        pairs = c.pairs.assign(separated=apart)
        looks.append((f"{one.wording}{decides}", pairs, one.column, "dataset", ""))
    for unit in ("folds", "instances"):
        for dataset, tests in c.tests_over(unit).items():
            on = f" of {name(dataset)}"
            looks.append((tests.test, tests.ordered, "pvalue_corrected", unit[:-1], on))
    rows: list[tuple[str, str, float, str]] = []
    for test, pairs, p, unit, on in looks:
        found = pairs[pairs["method_a"].isin([a, b]) & pairs["method_b"].isin([a, b])]
        for row in found.to_dict("records"):
            how = f", {name(row['method_a'])} {row['direction']}" if row.get("direction") else ""
            doubt = f" (in doubt: {row['doubt']})" if row.get("doubt") else ""
            by = f", by {name(row['measure'])}" if unit == "instance" else ""
            says = f"{'' if row['separated'] else 'not '}separated{how}{doubt}"
            rows.append((f"{test}{by}", f"{count(int(row['n']), unit)}{on}", row[p], says))
    if not rows:
        return []
    which, overs, pvalues, verdicts = zip(*rows, strict=True)
    columns = [
        Column("test", which, "wrap"),
        doc.pvalues("p", pvalues),
        Column("says", verdicts, "wrap"),
        Column("over", overs, "<", keep=1),
    ]
    note = "p-values are corrected as in the report, each for all that its test looks at."
    title = "What each test says"
    return [doc.Table(columns, title=title, things="tests", note=note, depth=ALWAYS)]


def _profiles(c: Comparison, a: str, b: str) -> list[doc.Figure]:
    """The ratio of their loss profiles, a line a dataset that has both."""
    profiles = c.profiles
    if profiles is None or not any({a, b} <= {*profiles.methods_on(d)} for d in profiles.datasets):
        return []
    from mlflow_mleval.report.figures.lines import ratio_panels

    both = [profiles.ratios.index.isin([a, b], level=of) for of in ("method_a", "method_b")]
    caption = f"The loss of {name(b)} over that of {name(a)}: above 1 {name(a)} is better."
    drawn = profiles.ratios[both[0] & both[1]], profiles.crossings, [(a, b)]
    svg = ratio_panels(*drawn, profiles.options["family"], "Ratio of losses")
    return [doc.Figure(svg, caption, title="Their loss profiles, a line a dataset")]


def _heaviest(c: Comparison, held: pd.DataFrame) -> list[Column]:
    """Columns of what is compared and of the measures of most weight, in the study's order."""
    kept = sorted(c.fusion.by_weight, key=lambda m: m != c.on)[:HEAVIEST]
    shown = [m for m in c.study.measures if m in kept and m in held]
    return doc.by_measure(held[shown], c.study.directions, 18)
