"""What each method of a comparison is, in a line, and where it comes from; only those that a comparison used.

The publications stand in ``references.bib``; they are cited here, and found there, by author and year.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.measures.registry import MEASURES

#: Letters of surnames that BibTeX writes in its own way.
_LETTERS = {r"{\v{s}}": "š", r"{\i}": "ı", r"{\"u}": "ü"}


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
    authors, year = (re.search(rf"\b{field} = {{(.*?)}},", bibtex)[1] for field in ("author", "year"))
    for written, letter in _LETTERS.items():
        authors = authors.replace(written, letter)
    surnames = [author.partition(",")[0] for author in authors.split(" and ")]
    return f"{' & '.join(surnames) if len(surnames) < 3 else f'{surnames[0]} et al.'} {year}"


#: The publications by how they are cited.
REFERENCES = {
    (cite := _cite(entry)): Reference(cite, entry)
    for entry in (files("mlflow_mleval.report") / "references.bib").read_text("utf-8").strip().split("\n\n")
}


class _Method(NamedTuple):
    name: str
    line: str
    sources: str
    used: Callable[[Comparison], object] = lambda c: True


def _several(c: Comparison) -> bool:
    return len(c.study.measures) > 1


def _any_fold(has: Callable[..., object]) -> Callable[[Comparison], bool]:
    """Whether the tests over folds of any dataset have something."""
    return lambda c: any(map(has, c.folds.values()))


def _along(has: Callable[..., object]) -> Callable[[Comparison], object]:
    """Whether there are profiles that have something."""
    return lambda c: c.profiles is not None and has(c.profiles)


def _beyond(kind: str, by_fold: Callable[..., object]) -> Callable[[Comparison], object]:
    """Whether something was computed beyond p-values, over datasets or over the folds of any of them."""
    return lambda c: c.beyond is not None and (
        getattr(c.beyond, kind) is not None or any(by_fold(p) for parts in c.beyond.by_fold.values() for p in parts.values())
    )


#: In the order of the report; between the two stand the post-hoc tests, which describe themselves.
_FIRST = (
    _Method("PROMETHEE II", "φ⁺ is how far a method is preferred to the others on average, φ⁻ how far they are preferred to it, "
            "over the measures by weight; it ranks by φ = φ⁺ − φ⁻, on every dataset by itself",
            "Brans & Vincke 1985; Eftimov & Kocev 2019"),
    _Method("PROMETHEE I", "keeps only what φ⁺ and φ⁻ agree on; the rest is incomparable", "Brans & Vincke 1985"),
    _Method("entropy weights", "a measure weighs the more, the more unevenly it spreads the methods of a dataset; they sum to 1",
            "Eftimov & Kocev 2019", lambda c: _several(c) and c.options["weights"] == "entropy"),
    _Method("GAIA plane", "first two principal components of the net flows by single measures", "Mareschal & Brans 1988",
            lambda c: c.plane),
    _Method("Friedman", "tests whether all methods have the same mean rank over the datasets", "Friedman 1937; Demšar 2006",
            lambda c: c.friedman),
    _Method("Iman–Davenport", "F version of the same, less conservative", "Iman & Davenport 1980; Demšar 2006",
            lambda c: c.friedman),
)  # fmt: skip
_THEN = (
    _Method("Holm", "corrects p-values for the number of pairs; the chance of any false separation is at most α", "Holm 1979",
            lambda c: c.pairwise and c.options["correction"] == "holm"),
    _Method("Skillings–Mack", "Friedman's test for tables with gaps", "Skillings & Mack 1981", lambda c: c.skillings_mack),
    _Method("groups and letters", "maximal sets of methods of which no pair is separated", "Piepho 2004", lambda c: c.friedman),
    _Method("pairwise matrix", "mean difference, wins, ties and losses, and p-value of each pair", "Ismail-Fawaz et al. 2023",
            lambda c: c.pairwise),
    _Method("Kendall's τ", "agreement of two rankings, from −1 to 1, corrected for ties", "Kendall 1938", _several),
    _Method("redundancy filter", "drops one of each pair of measures whose correlation, averaged over datasets, exceeds the "
            "threshold", "Eftimov & Kocev 2019; Kuhn 2008", lambda c: c.redundancy),
    _Method("rank acceptability", "how often a method takes a rank under weights drawn uniformly from all weights",
            "Lahdelma & Salminen 2001", lambda c: _several(c) and c.stability),
    _Method("Hotelling's T²", "tests a pair on several measures at once over the folds of a dataset",
            "Hotelling 1931; Yıldız & Alpaydın 2014", _any_fold(lambda f: not f.is_five_by_two)),
    _Method("combined 5x2 cv test", "the same for five repetitions of two folds", "Alpaydın 1999; Yıldız & Alpaydın 2014",
            _any_fold(lambda f: f.is_five_by_two)),
    _Method("correction for shared training data", "widens the variance over folds by n_test/n_train, because training parts "
            "overlap", "Nadeau & Bengio 2003", _any_fold(lambda f: f.protocol.ratio is not None)),
    _Method("MANOVA", "tests all methods together on several measures, and learns the combinations that tell them apart",
            "Wilks 1932; Yıldız & Alpaydın 2014", _any_fold(lambda f: f.manova)),
    _Method("Mardia", "tests whether what is left of fold and method looks normal", "Mardia 1970", _any_fold(lambda f: f.mardia)),
    _Method("loss profiles", "losses from the Hamming to the subset 0/1 loss: whose errors fall together loses least on the way",
            "Hüllermeier et al. 2022", _along(lambda p: True)),
    _Method("tests along profiles", "t tests over folds at every parameter, judged by the largest of them, then Holm over pairs",
            "Nadeau & Bengio 2003; Hothorn et al. 2008; Holm 1979", _along(lambda p: p.ratios["pvalue"].notna().any())),
    _Method("profiles over datasets", "changes of sign, judged by the largest statistic over positions and pairs",
            "Westfall & Young 1993", _along(lambda p: p.across is not None)),
    _Method("awareness over datasets", "Wilcoxon's signed ranks on the area, slope and relative gain of profiles",
            "Wilcoxon 1945; Holm 1979; Hüllermeier et al. 2022",
            _along(lambda p: any(test is not None for test in p.awareness_tests.values()))),
    _Method("Bayesian tests", "how probable it is that one method is better by more than the rope, or neither",
            "Benavoli et al. 2017", _beyond("bayes", lambda part: True)),
    _Method("equivalence", "two one-sided tests show that a difference is below the rope", "Schuirmann 1987",
            _beyond("equivalence", lambda part: part.equivalence)),
    _Method("possible ranks", "ranks of the mean that no test of all pairs together excludes", "Mogstad et al. 2024",
            _beyond("ranks", lambda part: False)),
)  # fmt: skip


def methods_used(c: Comparison) -> Iterator[tuple[str, str, list[Reference]]]:
    """Name, line and sources of every method that the comparison used."""
    first, then = ([(m.name, m.line, m.sources.split("; ")) for m in part if m.used(c)] for part in (_FIRST, _THEN))
    tests = [(test.title, test.summary, test.sources) for test, _ in reversed(c.posthoc)]
    yield from ((name, line, [REFERENCES[cite] for cite in sources]) for name, line, sources in (*first, *tests, *then))


def bibliography(c: Comparison) -> list[Reference]:
    """The sources of the methods and measures that were used, each once, by year."""
    found = {r for _, _, sources in methods_used(c) for r in sources}
    cited = (MEASURES[m].source.partition(",")[0] for m in c.study.measures if m in MEASURES)
    return sorted(found.union(REFERENCES[cite] for cite in cited if cite in REFERENCES), key=lambda r: (r.cite[-4:], r.cite))
