"""Which differences are more than chance: tests over datasets, critical-difference diagram, every
pair.
"""

from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.pairs import apart, cliques_with_letters
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    ALWAYS,
    PAGE,
    PAPER,
    SHOWN,
    Column,
    Data,
    Figure,
    Frames,
    Late,
    Section,
    Sentence,
    Table,
    Text,
    claim,
    listed,
)
from mlflow_mleval.report.content.decision import (
    by_fold,
    deciding_test,
    needed_in_words,
    verdict,
)
from mlflow_mleval.report.content.ranking import best, rows_among
from mlflow_mleval.report.figures import TOP
from mlflow_mleval.report.figures.comparisons import (
    MOST_BARS,
    critical_difference,
    in_tikz,
    pairwise_matrix,
    shown_cliques,
)
from mlflow_mleval.report.text import confidence, number, pvalue
from mlflow_mleval.sentences import count
from mlflow_mleval.validation import present

#: More pairs than this are for the CSV file.
PAIRS = 500
#: So many pairs a page shows at once, and all that are separated.
FEW = 3
#: Marks a row whose verdict the assumptions do not carry.
NOT_TRUSTED = "[!]"


def section(c: Comparison, depth: int = PAPER) -> Section:
    """Friedman, the diagram, the matrix and the table of pairs, tests and table down to `depth`; or
    why there are none.
    """
    if c.deciding is None:
        return Section(
            "differences", "Differences", [Text([c.decision], depth=PAGE if depth else ALWAYS)]
        )
    found = f"{len(c.separated)} of {count(len(c.pairs), 'pair')} separated"

    def blocks() -> list[Any]:
        tests = Text([*omnibus(c), f"For pairs: {c.decision}"], depth=depth)
        pairs = measure_pairs(c, depth)
        if c.options["control"] is not None:
            return [tests, _diagram(c), pairs]
        return [doc.Beside([tests, _diagram(c)], [_matrix(c)]), pairs]

    return Section("differences", "Differences", Late(blocks), found)


def data(c: Comparison) -> Data:
    found = c.nemenyi
    test = c.pairwise
    nemenyi = found and {
        "test": "nemenyi" if found.control is None else "bonferroni-dunn",
        **doc.named(
            found,
            "critical_difference",
            "alpha",
            "control",
            "significant_pairs",
            "warnings",
        ),
    }
    wilcoxon = test and {
        "test": "wilcoxon",
        "correction": test.correction,
        "alternative": "two-sided",
        **doc.named(test, "alpha", "n_comparisons", "control", "significant_pairs"),
        "pairs": rows_among(c.pairs, best(c)),
        "warnings": test.warnings,
    }
    keys = (
        "alpha",
        "n_comparisons",
        "control",
        "exact",
        "n_resamples",
        "seed",
        "significant_pairs",
        "warnings",
    )
    max_t = c.max_t and {"test": "max-t", **doc.named(c.max_t, *keys)}
    rest = doc.named(c, "skillings_mack", "feasibility") | _decided(c)
    tests = {"max_t": max_t, "nemenyi": nemenyi, "pairwise": wilcoxon}
    asked = {
        test.key: {
            "test": test.name,
            **doc.named(result, "alpha", "significant_pairs", "warnings"),
        }
        for test, result in c.posthoc
        if test.key not in tests
    }
    return {"friedman": c.friedman, **tests, **asked, **rest}


def _decided(c: Comparison) -> Data:
    """What decides, and the pairs that it separates: other units where datasets cannot."""
    told = doc.named(c, "decides", "decision", "separated", "cliques")
    unit = c.decides_over
    if unit and (c.deciding is None or c.deciding.test.over != unit):
        said = [c.decision, *(doc.plain(sentence.text) for sentence in by_fold(c))]
        cliques, _ = cliques_with_letters(apart(c.order, c.told_apart))
        told = {"decides": unit, "decision": " ".join(said), "separated": c.told_apart}
        told["cliques"] = cliques
    return told | {"separations": c.needed_by}


def frames(c: Comparison) -> Frames:
    return {"pairs": rows_among(c.pairs, best(c))}


def pairs_verdict(c: Comparison) -> list[Sentence]:
    """The answer about pairs: what the design can show at all, which methods the deciding test
    separates, and the folds.

    >>> import pandas as pd
    >>> from mlflow_mleval.analysis.comparison import compare
    >>> from mlflow_mleval.report.blocks import plain
    >>> from mlflow_mleval.study import Study
    >>> frame = pd.DataFrame({"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]})
    >>> plain(pairs_verdict(compare(Study.from_frame(frame)))[-1].text)
    'The evidence separates none of 1 pair (step-down max-T, α = .05).'
    """  # noqa: E501
    if c.deciding is None:
        return [Sentence(c.decision, claim("untested", "decision")), *by_fold(c)]
    said = c.deciding.test.possible(c.deciding.result)
    possible = [Sentence(said, claim("feasible", c.deciding.test.key))] if said else []
    if not c.letters_apply:
        apart_by = [s for s in verdict(c) if "separated" in s.rests_on]
        return [*possible, *apart_by, *needed_in_words(c), *by_fold(c)]
    total = count(len(c.order) * (len(c.order) - 1) // 2, "pair")
    pairs = [f"{listed([better])} above {listed([worse])}" for better, worse in c.separated[:SHOWN]]
    more = f" and {len(c.separated) - SHOWN:,} more" if len(c.separated) > SHOWN else ""
    found = (
        f"separates {len(c.separated):,} of {total}: {', '.join(pairs)}{more}"
        if pairs
        else f"separates none of {total}"
    )
    says = claim("separated" if pairs else "none separated")
    apart = Sentence(f"The evidence {found} ({deciding_test(c)}).", says)
    return [*possible, apart, *needed_in_words(c), *by_fold(c)]


def omnibus(c: Comparison) -> list[str]:
    """The tests over all methods together, a sentence each."""
    lines = []
    if (f := c.friedman) is not None:
        low, high = f.iman_davenport_df
        filled = (
            f", missing results filled by the policy {c.study.missing}" if c.study.filled else ""
        )
        tests = (
            f"Friedman χ²({f.df}) = {number(f.statistic)}, {pvalue(f.pvalue)}; Iman–Davenport "
            f"F({low}, {high}) = {number(f.iman_davenport_statistic)}, "
            f"{pvalue(f.iman_davenport_pvalue)}"
        )
        if f.exact_pvalue is not None:  # beside which the approximations are rough, or false
            tests = f"Friedman's test by all orders of the methods, {pvalue(f.exact_pvalue)}"
        notes = f.warnings if f.exact_pvalue is None else ()
        lines.append(" ".join([f"All methods together{filled}: {tests}.", *notes]))
    if (s := c.skillings_mack) is not None:
        lines.append(
            f"With the gaps left empty: Skillings–Mack χ²({s.df}) = {number(s.statistic)}, "
            f"{pvalue(s.pvalue)}."
        )
    return lines


def only_best(total: int, what: str = "methods") -> str:
    """That a figure shows only the best, if so."""
    return (
        ""
        if total <= TOP
        else f" The best {TOP} of {total:,} {what} are shown; the JSON and CSV data hold all."
    )


def _diagram(c: Comparison) -> Figure:
    control = c.options["control"]
    mean = c.ranks.mean()[c.order]
    bars = c.cliques
    says = "A bar joins methods that are not separated"
    if control is not None:
        bars = [[m for m in c.order if m == control or not c.is_separated(m, control)]]
        says = (
            f"The bar joins what is not separated from the control {listed([control])}; no other "
            "pairs were compared"
        )
    more = len(shown_cliques(bars, c.order[:TOP])) - MOST_BARS
    caption = (
        f"Mean ranks over {count(len(c.ranks), 'dataset')}, 1 is best. {says}; dotted, it passes "
        f"over others.{only_best(len(c.order))}"
    )
    if more > 0:
        caption += f" The {MOST_BARS} longest bars are drawn, {more} more are not."
    drawn = (mean, bars, present(c.deciding).critical_difference)
    return Figure(
        critical_difference(*drawn),
        caption,
        title="Critical-difference diagram",
        tikz=in_tikz(*drawn),
    )


def _matrix(c: Comparison) -> Figure:
    test = present(c.deciding).test
    units = "repeats" if test.over == "repeats" and not test.by_unit else "datasets"
    caption = (
        f"Row against column: mean difference of {_what(c)}, {units} won/tied/lost, and p. Blue, "
        f"+: the row is better; orange, −: the column. Framed: separated.{only_best(len(c.order))}"
    )
    return Figure(
        pairwise_matrix(c.pairs, c.order, test.column),
        caption,
        title="Every pair",
    )


def _what(c: Comparison) -> str:
    return c.compared if c.on == FUSED else doc.name(c.on)


def measure_pairs(c: Comparison, depth: int) -> Table:
    """The pairs, separated ones first, on a page the others folded; what decides comes right after
    the difference, other tests where one was asked for.
    """
    shown = c.pairs.head(PAIRS)
    asked = c.options["test"] != "max-t"
    made = sorted(c.posthoc, key=lambda made: made.test is not present(c.deciding).test)
    decided, *others = [
        doc.pvalues(m.test.head, shown[m.test.column], keep=1 if i else 9)
        for i, m in enumerate(made)
        if asked or not i
    ]
    columns = [*doc.pair(shown), *differences(c, shown), decided, _separated(c, shown)]
    if shown["n"].min() < len(c.ranks):
        note = "Datasets: on which both finished."
        columns.append(Column("datasets", [*map(str, shown["n"])], keep=3, note=note))
    columns += [doc.won_tied_lost(shown, keep=3), *others]
    title = "Pairs" if depth else ""
    if c.options["control"] is not None:
        title = "Every method against the control"
    return Table(
        columns,
        len(c.pairs),
        title,
        "Pairs of methods",
        key="pairs",
        things="pairs",
        shown=max(len(c.separated), FEW),
        depth=depth,
    )


def differences(c: Comparison, shown: pd.DataFrame) -> list[Column]:
    """How far the first is better in the units of what is compared, and in net flows with the
    intervals of the deciding test, where it has some.
    """
    limits = shown[["flow_difference", "flow_low", "flow_high"]]
    has_limits = bool(np.isfinite(limits[["flow_low", "flow_high"]].astype(float)).any(axis=None))
    columns = []
    if c.on != FUSED or not has_limits:
        turned = " with its sign turned" if c.study.directions.get(c.on) == "min" else ""
        note = f"Mean difference: of {_what(c)}{turned}, positive where the first is better."
        columns = [doc.numbers("mean difference", shown["mean_difference"], keep=5, note=note)]
    if has_limits:
        of = "" if c.on == FUSED else f" by {_what(c)}"
        note = (
            f"Difference of net flows φ{of}; the {confidence(c.options['alpha'])} intervals hold "
            "together: one excludes 0, or ends at it, where the pair is separated."
        )
        columns.append(doc.intervals("difference in φ", limits, keep=4, note=note))
    return columns


def _separated(c: Comparison, shown: pd.DataFrame) -> Column:
    """Which pairs the deciding test separates, and which verdicts are not to be trusted."""
    reverse = {(worse, better) for better, worse in c.separated}
    cells = []
    for row in shown.itertuples():
        text = "yes, reversed" if (row.method_a, row.method_b) in reverse else "yes"
        cells.append(f"{text}{f' {NOT_TRUSTED}' if row.doubts else ''}" if row.separated else "")
    doubts = "; ".join(filter(None, shown["doubts"])).split("; ")
    reasons = [*dict.fromkeys(filter(None, doubts))]
    note = ""
    if (test := present(c.deciding).test).by_unit:
        note = f"Separated: where {test.over} tell two apart, and none says the opposite."
    if reasons:
        note = f"{NOT_TRUSTED}: not to be trusted, since {' or '.join(reasons)}."
    return Column("separated", cells, "<", note=note)
