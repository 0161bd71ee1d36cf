"""What the tests over datasets say of the pairs of methods, in words."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.ranks import FriedmanResult
from mlflow_mleval.report.escape import number, pvalue
from mlflow_mleval.report.words import SHOWN, Sentence, count, deciding_test, listed, verdict


def pairs_verdict(comparison: Comparison) -> list[Sentence]:
    """The answer about pairs: what the design can show at all, which methods the deciding test separates, and the folds.

    >>> import pandas as pd
    >>> from mlflow_mleval.analysis.comparison import compare
    >>> from mlflow_mleval.study import Study
    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> pairs_verdict(compare(Study.from_frame(frame)))[-1].text
    'The evidence separates none of 1 pair (Nemenyi, critical difference 1.39, α = .05).'
    """
    c = comparison
    folds = [s for s in verdict(c) if s.rests_on == ("folds",)]
    if c.deciding is None:
        return [Sentence(c.decision, ("absent", "decision")), *folds]
    possible = Sentence(f"By signed ranks, {c.feasibility.message}", ("feasibility",))
    if not c.letters_apply:
        return [possible, *(s for s in verdict(c) if "separated" in s.rests_on), *folds]
    total = count(len(c.order) * (len(c.order) - 1) // 2, "pair")
    pairs = [f"{listed([better])} above {listed([worse])}" for better, worse in c.separated[:SHOWN]]
    more = f" and {len(c.separated) - SHOWN:,} more" if len(c.separated) > SHOWN else ""
    found = f"separates {len(c.separated):,} of {total}: {', '.join(pairs)}{more}" if pairs else f"separates none of {total}"
    apart = Sentence(f"The evidence {found} ({deciding_test(c)}).", ("separated", "decides"))
    return [possible, apart, *([Sentence(describe_cliques(c), ("cliques", "separated"))] if pairs else []), *folds]


def exact(found: FriedmanResult) -> str:
    """The exact p-value of Friedman's test, to be appended, where there is one."""
    return "" if found.exact_pvalue is None else f"; by all orders, {pvalue(found.exact_pvalue)}"


def omnibus(comparison: Comparison) -> list[str]:
    """The tests over all methods together, a sentence each."""
    lines = []
    if (f := comparison.friedman) is not None:
        low, high = f.iman_davenport_df
        lines.append(
            f"All methods together: Friedman χ²({f.df}) = {number(f.statistic)}, {pvalue(f.pvalue)}; "
            f"Iman–Davenport F({low}, {high}) = {number(f.iman_davenport_statistic)}, {pvalue(f.iman_davenport_pvalue)}"
            f"{exact(f)}."
        )
    if (s := comparison.skillings_mack) is not None:
        lines.append(f"With the gaps left empty: Skillings–Mack χ²({s.df}) = {number(s.statistic)}, {pvalue(s.pvalue)}.")
    return lines


def describe_cliques(comparison: Comparison) -> str:
    """The bars of the critical-difference diagram in words.

    >>> import pandas as pd
    >>> from mlflow_mleval.analysis.comparison import compare
    >>> from mlflow_mleval.study import Study
    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> describe_cliques(compare(Study.from_frame(frame)))
    'No two methods are separated.'
    """
    groups = sorted(comparison.cliques, key=lambda group: comparison.order.index(group[0]))
    if not comparison.separated:
        return "No two methods are separated."
    if all(len(group) == 1 for group in groups):
        return "Every two methods are separated."
    texts = [_group(comparison, group) for group in groups if len(group) > 1]
    alone = [group[0] for group in groups if len(group) == 1]
    more = f" and {len(texts) - SHOWN} more groups" if len(texts) > SHOWN else ""
    apart = f" {listed(alone)} {'is' if len(alone) == 1 else 'are'} separated from all others." if alone else ""
    return f"Not separated from each other: {'; '.join(texts[:SHOWN])}{more}.{apart}"


def _group(c: Comparison, group: Sequence[str]) -> str:
    places = [c.order.index(m) for m in group]
    if len(group) > 2 and places == list(range(places[0], places[0] + len(group))):
        return f"{listed(group[:1])} to {listed(group[-1:])} ({len(group)} methods)"
    return listed(group)
