"""Post-hoc tests: which pairs of methods differ over datasets.

A new test joins the list; `max_t` has what all of them are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlflow_mleval.package import imported

if TYPE_CHECKING:
    from mlflow_mleval.analysis.posthoc.max_t import Posthoc, Tested

#: By what name it is asked for, its module and its class; imported on first use, so that a list of
#: the names costs nothing. The first decides unless another is asked for.
_TESTS = (
    ("max-t", "max_t", "MaxT"),
    ("nemenyi", "rank_tests", "Nemenyi"),
    ("wilcoxon", "rank_tests", "Wilcoxon"),
    ("bonferroni-dunn", "rank_tests", "BonferroniDunn"),
    ("benjamini-hochberg", "rank_tests", "BenjaminiHochberg"),
)


def asked_names() -> list[str]:
    """What `compare(test=)` takes; the first is the default.

    >>> asked_names()
    ['max-t', 'nemenyi', 'wilcoxon', 'bonferroni-dunn', 'benjamini-hochberg']
    """
    return [asked for asked, _, _ in _TESTS]


def tests() -> list[type[Posthoc]]:
    """Every test, in the order of the list."""
    return [imported(f"analysis.posthoc.{module}", name) for _, module, name in _TESTS]


def make_tests(tested: Tested, asked: str) -> list[Posthoc]:
    """The tests that are always made and the one asked for; ValueError if it does not apply."""
    has_control = tested.control is not None
    applying = [test for test in tests() if test.control in (None, has_control)]
    chosen = [test(tested) for test in applying if test.always or test.asked == asked]
    if all(test.asked != asked for test in chosen):
        need = "all pairs, not those with a control" if has_control else "a control"
        raise ValueError(f"`test` must be one that applies, got {asked!r}, which needs {need}.")
    return chosen
