"""Post-hoc tests: which pairs of methods differ over datasets. One module a test; a new one joins the list."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_mleval.analysis.posthoc.bonferroni_dunn import BonferroniDunn
from mlflow_mleval.analysis.posthoc.description import Made, Posthoc, Tested
from mlflow_mleval.analysis.posthoc.nemenyi import Nemenyi
from mlflow_mleval.analysis.posthoc.wilcoxon import Wilcoxon

#: The first that could reject anything decides, unless another is asked for.
TESTS: list[Posthoc] = [Wilcoxon(), Nemenyi(), BonferroniDunn()]


def asked_names() -> list[str]:
    """What `compare(test=)` takes.

    >>> asked_names()
    ['auto', 'wilcoxon', 'nemenyi']
    """
    return ["auto", *dict.fromkeys(test.asked for test in TESTS)]


def make(tested: Tested, asked: str = "auto") -> list[Made]:
    """The tests that apply: those that are always made, and the one that is asked for; ValueError where that does not apply."""
    chosen = [test for test in TESTS if test.applies(tested) and (test.always or test.asked == asked)]
    if asked != "auto" and all(test.asked != asked for test in chosen):
        need = "a control" if tested.control is None else "all pairs, not those with a control"
        raise ValueError(f"`test` must be one that applies, got {asked!r}, which needs {need}.")
    return [Made(test, test.run(tested)) for test in chosen]


def deciding(made: Sequence[Made], asked: str = "auto") -> tuple[Made, str]:
    """The test that gives the verdict about pairs, and a sentence that says why it does."""
    first, *others = made
    unable = first.test.unable(first.result)
    if asked == first.test.asked or (asked == "auto" and not unable):
        return first, f"{first.test.sentence(first.result)}."
    able = (m for m in others if (m.test.asked == asked if asked != "auto" else not m.test.unable(m.result)))
    found = next(able)
    return found, f"{found.test.sentence(found.result)}, {f'because {unable}' if asked == 'auto' else 'as asked'}."
