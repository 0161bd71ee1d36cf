"""What each method of a comparison is, in a line, and where it comes from; only those that a
comparison used.

The lines stand in ``methods.txt``, the publications in ``references.bib``; they are cited there by
author and year.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.measures.registry import MEASURES

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
        re.search(rf"\b{field} = {{(.*?)}},", bibtex)[1] for field in ("author", "year")
    )
    for written, letter in _LETTERS.items():
        authors = authors.replace(written, letter)
    surnames = [author.partition(",")[0] for author in authors.split(" and ")]
    return f"{' & '.join(surnames) if len(surnames) < 3 else f'{surnames[0]} et al.'} {year}"


def _entries(file: str) -> list[str]:
    """What stands between empty lines of a file beside this one."""
    return (files("mlflow_mleval.report") / file).read_text("utf-8").strip().split("\n\n")


#: The publications by how they are cited.
REFERENCES = {
    (cite := _cite(entry)): Reference(cite, entry) for entry in _entries("references.bib")
}
#: Method -> its line, and the sources as they are cited.
_METHODS = {
    name: (line, sources.split("; "))
    for name, line, sources in map(str.splitlines, _entries("methods.txt"))
}


def _beyond(kind: str, by_fold: Callable[..., object]) -> Callable[[Comparison], object]:
    """Whether something was computed beyond p-values, over datasets or over the folds of any of
    them.
    """
    return lambda c: (
        c.beyond is not None
        and (
            getattr(c.beyond, kind) is not None
            or any(by_fold(p) for parts in c.beyond.by_fold.values() for p in parts.values())
        )
    )


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
    "Holm": lambda c: c.pairwise and c.options["correction"] == "holm",
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
    "Welch's t": lambda c: c.repeat_tests,
    "permutation of repeats": lambda c: c.repeat_tests,
    "MANOVA": lambda c: any(f.manova for f in c.folds.values()),
    "Mardia": lambda c: any(f.mardia for f in c.folds.values()),
    "loss profiles": lambda c: c.profiles,
    "tests along profiles": lambda c: c.profiles and c.profiles.ratios["pvalue"].notna().any(),
    "profiles over datasets": lambda c: c.profiles and c.profiles.across is not None,
    "awareness over datasets": lambda c: (
        c.profiles and any(t is not None for t in c.profiles.awareness_tests.values())
    ),
    "Bayesian tests": _beyond("bayes", lambda part: True),
    "equivalence": _beyond("equivalence", lambda part: part.equivalence),
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
