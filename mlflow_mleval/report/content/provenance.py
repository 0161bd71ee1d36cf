"""Methods and provenance: every choice, what was computed and after whom, and what reproduces
it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    ALWAYS,
    PAGE,
    PAPER,
    Column,
    Data,
    Late,
    Provenance,
    Section,
    Table,
    Text,
    definitions,
    glossary,
    listed,
    name,
    note,
)
from mlflow_mleval.report.content.decision import PREFERENCES
from mlflow_mleval.report.text import level, number
from mlflow_mleval.sentences import count
from mlflow_mleval.study import Study
from mlflow_mleval.validation import present

# --------------------------------------------------------------------------------------------------
# Of very many methods, tables of pairs in JSON hold the best only; and the page says so.

#: Methods whose pairs and flows by dataset the data hold; two thousand have four million pairs.
MOST = 100
_TABLES = (
    "promethee.DATASET.unicriterion",
    "promethee.DATASET.incomparable",
    "stability.acceptability.shares",
    "stability.leave_one_out.ranks",
    "stability.leave_one_out.reversals",
    "pairwise.pairs",
)


def best(c: Comparison) -> pd.Index:
    """The methods whose pairs JSON holds, by the fused ranking."""
    return c.fusion.ranking.index[:MOST]


def rows_among(
    table: pd.DataFrame,
    methods: pd.Index,
    a: str = "method_a",
    b: str = "method_b",
) -> pd.DataFrame:
    """The rows of a table of pairs of which both are among the methods."""
    return table[table[a].isin(methods) & table[b].isin(methods)]


def best_methods_data(c: Comparison) -> Data:
    """Which keys of JSON hold the best methods only."""
    total = len(c.order)
    return {
        "shortened": dict.fromkeys(_TABLES, f"the best {MOST} of {total:,} methods")
        if total > MOST
        else {}
    }


def told(c: Comparison) -> list[Text]:
    """What data are left out, where they are many, and where they are."""
    if len(c.order) <= MOST:
        return []
    held = f"hold the best {MOST} of {len(c.order):,} methods"
    where = "`mleval compare -o pairs.csv` has them all" if len(c.ranks) > 1 else "Python has all"
    return [note(f"The tables of pairs in the data {held}; {where}.")]


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


def _cite(bibtex: str) -> str:
    """Author and year.

    >>> _cite(r"@book{k, author = {Dem{\\v{s}}ar, Janez and Holm, Sture}, year = {1979}, }")
    'Demšar & Holm 1979'
    """
    authors, year = (
        present(re.search(rf"\b{field} = {{(.*?)}},", bibtex))[1] for field in ("author", "year")
    )
    for written, letter in _LETTERS.items():
        authors = authors.replace(written, letter)
    surnames = [author.partition(",")[0] for author in authors.split(" and ")]
    return f"{' & '.join(surnames) if len(surnames) < 3 else f'{surnames[0]} et al.'} {year}"


def _entries_of_file(file: str) -> list[str]:
    """What stands between empty lines of a file beside this one."""
    return (files("mlflow_mleval.report") / file).read_text("utf-8").strip().split("\n\n")


#: The publications by how they are cited.
REFERENCES = {
    (cite := _cite(entry)): Reference(cite, entry) for entry in _entries_of_file("references.bib")
}
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
    yield from (
        (name, line, [REFERENCES[cite] for cite in sources])
        for name, line, sources in (*first, *tests, *then)
    )


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


def section(c: Comparison, provenance: Provenance, depth: int = PAPER) -> Section:
    """What reproduces the report, choices, definitions and sources."""

    def blocks() -> list[Any]:
        return [
            *(replace(block, depth=depth) for block in made_from(provenance).blocks),
            *told(c),
            note("report.json holds the ids of the runs and the sources as BibTeX."),
            _choices(c),
            _used(c),
            definitions({m: c.study.directions[m] for m in c.study.measures}),
        ]

    hint = "every choice, its source, and what reproduces it"
    return Section("provenance", "Methods and provenance", Late(blocks), hint=hint)


def made_from(provenance: Provenance) -> Section:
    """What reproduces a document, in a line."""
    runs, experiments, uri = (
        provenance.get(key) for key in ("run_ids", "experiments", "tracking_uri")
    )
    selected = (
        f"{count(len(runs), 'run')}{f' of {listed(experiments)}' if experiments else ''}"
        if runs
        else ""
    )
    version = (provenance.get("versions") or {}).get("mlflow-mleval")
    parts = [
        " ".join(filter(None, [selected, f"in {uri}" if uri else ""])),
        str(provenance.get("results") or ""),
        *(
            f"{key} {provenance[key]}"
            for key in ("filter", "policy", "seed")
            if provenance.get(key) not in (None, "")
        ),
        f"mlflow-mleval {version}" if version else "",
        str(provenance.get("time") or ""),
        f"command: {provenance['command']}" if provenance.get("command") else "",
    ]
    line = "; ".join(filter(None, parts))
    return Section("provenance", "Made from", [doc.note(line, ALWAYS)] if line else [])


def when(provenance: Provenance) -> str:
    """When it was made, to the second; nothing if unknown."""
    return str(provenance.get("time") or "").replace("T", " ", 1).replace("+00:00", " UTC")


def data(c: Comparison) -> Data:
    """What JSON holds, but for the provenance."""
    filled = [{"dataset": dataset, "method": method} for dataset, method in c.study.filled]
    values = c.study.values.rename_axis(["dataset", "method"]).reset_index()
    known = doc.named(c.study, "methods", "datasets", "measures", "missing", "runs")
    return {
        "study": {**known, "filled": filled, "values": values},
        "options": c.options,
        "references": [reference.bibtex for reference in bibliography(c)],
    }


def conventions(study: Study) -> str:
    """Under which conventions so many runs were computed."""
    found = study.runs.get("conventions", pd.Series(dtype=str)).value_counts()
    return ", ".join(f"{each} ({n})" for each, n in found.items()) or "none"


def _choices(c: Comparison) -> Table:
    """What was chosen or follows from the study."""
    o = c.options
    chosen = c.study.source.get("measures_by")
    rows = [
        *([("measures", f"{len(c.study.measures)}: {chosen}")] if chosen else []),
        ("compared", "net flows φ and their ranks" if c.on == FUSED else name(c.on)),
        ("preference function", _given(o["preference"], PREFERENCES)),
        (
            "thresholds",
            "; ".join(f"{key} = {_given(o[key], {})}" for key in "pqs" if o[key] is not None)
            or "from the largest difference of each measure on each dataset",
        ),
        (
            "weights",
            _given(o["weights"], {})
            + (" (measures that do not differ weigh nothing)" if o["drop_constant"] else ""),
        ),
        ("conventions for empty sets and ties", conventions(c.study)),
        ("missing results", f"{glossary('policies')[o['missing']]} (policy {o['missing']})"),
        ("significance level", f"α = {level(o['alpha'])}"),
        ("ties of ranks", glossary("ties")[o["ties"]]),
        ("control", name(o["control"]) if o["control"] is not None else "none: all pairs"),
        ("redundant above", f"{o['threshold']:g} (absolute correlation)"),
        (
            "random weights",
            f"{o['n_draws']:,} draws, seed {o['seed']}"
            if c.stability is not None
            else "not examined",
        ),
    ]
    what, which = zip(*rows, strict=True)
    columns = [Column("choice", what, "<"), Column("", which, "wrap")]
    return Table(columns, title="Choices", depth=PAGE)


def _given(choice: Any, words: Mapping[str, str]) -> str:
    """A choice by name, or per measure."""
    if isinstance(choice, Mapping):
        return listed(
            [
                f"{m} {words.get(x, x) if isinstance(x, str) else number(x)}"
                for m, x in choice.items()
            ],
            40,
        )
    return words.get(choice, str(choice)) if isinstance(choice, str) else str(choice)


def _used(c: Comparison) -> Table:
    methods, lines, sources = zip(*methods_used(c), strict=True)
    columns = [
        Column("method", methods, "<"),
        Column("what it does", [f"{line}." for line in lines], "wrap"),
        Column("after", ["; ".join(source.cite for source in cited) for cited in sources], "wrap"),
    ]
    return Table(columns, title="What was computed", depth=PAGE)
