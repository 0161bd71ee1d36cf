"""The tests over the folds of each dataset: several measures tested together, pair by pair, with
pictures of the folds.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.folds.fold_comparison import FoldComparison
from mlflow_mleval.analysis.folds.multivariate import ManovaResult
from mlflow_mleval.analysis.folds.protocol import UNPAIRED
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    ALWAYS,
    Beside,
    Column,
    Data,
    Figure,
    Table,
    Terms,
    glossary,
    listed,
    name,
    within_range,
)
from mlflow_mleval.report.content.differences import NOT_TRUSTED
from mlflow_mleval.report.figures.lines import DETAILED, INSIDE, fold_histogram, fold_scatter
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.report.text import (
    ARROWS,
    aligned,
    confidence,
    level,
    number,
    with_intervals,
)
from mlflow_mleval.sentences import count

Folds = Mapping[str, FoldComparison]

#: Datasets that are drawn, and histograms of each; rows of tables; groups, and methods of an
#: ordering, that are named.
DATASETS = 12
HISTOGRAMS = 4
METHODS = 100
PAIRS = 500
GROUPS = 4
ORDERED = 15


def above(comparison: FoldComparison, i: int, dataset: str) -> list[Any]:
    """The means of the methods, over the table of pairs."""
    shared = comparison.n_shared_folds == comparison.n_folds
    far = "" if shared else ", as far as a method has them,"
    caption = f"Means over {count(comparison.n_folds, 'fold')}{far} of {name(dataset)}"
    return [means_table(comparison, caption=caption, key=f"fold-means-{i}", depth=ALWAYS)]


def below(comparison: FoldComparison, i: int, dataset: str) -> list[Any]:
    """The order by each measure, and pictures of the first datasets."""
    blocks: list[Any] = []
    if len(comparison.measures) > 1 and comparison.table["separated"].any():
        title = "By each measure alone; methods that share a letter are not separated by it"
        title += " (corrected on this dataset only)" if comparison.n_datasets > 1 else ""
        blocks.append(Terms(orderings(comparison), title, depth=ALWAYS))
    if i <= DATASETS:
        blocks.append(Beside(_scatter(dataset, comparison, i), _histograms(comparison, i)))
    return blocks


def sentences(comparison: FoldComparison) -> list[str]:
    """What the folds of one dataset say beside the verdict, a sentence each: what was tested,
    groups, refusals.
    """
    refused = {"naive": "The uncorrected test was", "pairs": "Pairs were"}
    refusals = [
        f"{refused[key]} refused: {reason.rstrip('.')}."
        for key, reason in comparison.refusals.items()
        if key in refused
    ]
    return [text for text in (_pairs(comparison), _groups(comparison), *refusals) if text]


def _pairs(comparison: FoldComparison) -> str:
    """What was tested, and what could not be."""
    together = " together" if len(comparison.measures) > 1 else ""
    each = f"each pair on the {comparison.folds_of_a_pair} that both have, "
    text = (
        f"{count(len(comparison.methods), 'method')}, "
        f"{'' if comparison.n_shared_folds == comparison.n_folds else each}tested on "
        f"{listed(comparison.measures, most=8)}{together} (Holm's correction"
        f"{_over(comparison)}, α = {level(comparison.alpha)})"
    )
    for why, n in comparison.untested.items():
        text += "" if why == UNPAIRED else f"; {count(n, 'pair')} could not be tested: {why}"
    if comparison.n_lost:
        gone = listed(dict.fromkeys(e.name for e in comparison.excluded if e.kind == "method"))
        text += (
            f"; {count(comparison.n_lost, 'further pair')} of {gone} could not be tested for want "
            "of folds in common"
        )
    return f"{text}."


def _over(comparison: FoldComparison) -> str:
    """What the correction counts, where that is more than the pairs of this dataset."""
    return (
        f" over the pairs of all {comparison.n_datasets} datasets"
        if comparison.n_datasets > 1
        else ""
    )


def _groups(comparison: FoldComparison) -> str:
    """Groups in which no two are separated, where some are."""
    groups = [g for g in comparison.cliques if len(g) > 1]
    if not comparison.table["separated"].any():
        return ""
    if len(groups) > GROUPS:
        largest = max(map(len, groups))
        return (
            f"The methods form {len(groups)} groups of up to {largest} in which no two are "
            "separated: see the letters."
        )
    alone = [g[0] for g in comparison.cliques if len(g) == 1]
    if not groups:
        return "Every two methods are separated."
    return (
        "Not separated from each other: "
        f"{'; '.join(listed(g, most=8) for g in groups)}.{doc.from_all_others(alone)}"
    )


def words(comparison: FoldComparison) -> list[tuple[str, str]]:
    """What the words of the verdict mean and when not to trust them: (word, explanation), only for
    those that are used.
    """
    used = {
        "corrected": comparison.shares_training,
        NOT_TRUSTED: (comparison.table["doubt"] != "").any(),
    }
    ratio = number(comparison.protocol.headline_ratio)
    return [
        (word, text.format(ratio=ratio))
        for word, text in glossary("folds").items()
        if used.get(word, True)
    ]


def _heads(comparison: FoldComparison) -> list[str]:
    return [f"{m} {ARROWS[o.direction]}" for m, o in comparison.orderings.items()]


def means_table(comparison: FoldComparison, **options: Any) -> Table:
    """Means over folds with their intervals and the groups, best mean rank first."""
    shown = comparison.order[:METHODS]
    first = (
        "The best mean rank over these measures comes first."
        if len(comparison.measures) > 1
        else "The best comes first."
    )
    shared = (
        "" if comparison.protocol.ratio is None else ", as wide as shared training data make it"
    )
    columns = [
        doc.names(
            "method",
            shown,
            note=f"{first} Means with {confidence(comparison.alpha)} intervals{shared}.",
        )
    ]
    if comparison.n_shared_folds < comparison.n_folds:
        own = comparison.values.groupby(level=0).size()
        note = "Folds: how many the method has; its means are over them."
        columns.append(Column("folds", [str(own[m]) for m in shown], note=note))
    for i, (measure, head) in enumerate(zip(comparison.measures, _heads(comparison), strict=True)):
        means = comparison.means.xs(measure, level="measure").loc[shown, ["mean", "low", "high"]]
        cells = with_intervals(within_range(means, measure).to_numpy())
        columns.append(Column(head, cells, keep=len(comparison.measures) - i))
    letters = [comparison.letters[m] for m in shown]
    columns.append(
        doc.names("groups", letters, note="Methods that share a letter are not separated.")
    )
    return Table(columns, len(comparison.methods), things="methods", **options)


def columns(comparison: FoldComparison, shown: pd.DataFrame) -> tuple[list[Column], list[Column]]:
    """Columns of the table of pairs: p-values, and what else folds tell of a pair."""
    total = count(len(comparison.table), "pair")
    each = (
        f" of each of {comparison.n_datasets} datasets together"
        if comparison.n_datasets > 1
        else ""
    )
    pvalues = [
        Column("Λ" if comparison.is_five_by_two else "T²", aligned(shown["statistic"]), keep=1),
        doc.pvalues(
            "p (Holm)",
            shown["pvalue_corrected"],
            keep=4,
            note=f"p: {comparison.test}; Holm over {total}{each}.",
        ),
    ]
    note = "Direction: of the means; the test says that two differ, not which is better."
    others = [Column("direction", shown["direction"].tolist(), "<", keep=3, note=note)]
    if (shown["carried"] != "").any():
        note = "Carried by: what differs on its own, + where the first is better, else −."
        others.append(Column("carried by", shown["carried"].tolist(), "<", note=note))
    others.append(doc.pvalues("p", shown["pvalue"], keep=2))
    if comparison.n_shared_folds < comparison.n_folds:
        note = "Folds: how many both methods have."
        pvalues.insert(0, Column("folds", shown["n"].map(str).tolist(), keep=3, note=note))
    if comparison.shares_training and shown["naive_pvalue"].notna().any():
        note = "Uncorrected: Holm's p of the test that ignores shared training data."
        others.append(doc.pvalues("uncorrected", shown["naive_corrected"], keep=3, note=note))
    return pvalues, others


def orderings(comparison: FoldComparison) -> list[tuple[str, str]]:
    """The order of the methods by each measure alone, with letters."""
    more = f" and {len(comparison.order) - ORDERED} more" if len(comparison.order) > ORDERED else ""
    orders = (
        ", ".join(f"{name(m)} {o.letters[m]}" for m in o.order[:ORDERED]) + more
        for o in comparison.orderings.values()
    )
    return list(zip(_heads(comparison), orders, strict=True))


def overview_table(folds: Folds, **options: Any) -> Table:
    """One row a dataset: how many pairs the tests separate, and what was tested where that
    differs.
    """
    comparisons = list(folds.values())
    tested = {
        "folds": [f.folds_of_a_pair for f in comparisons],
        "methods": [count(len(f.methods), "method") for f in comparisons],
        "measures": [listed(f.measures, most=8) for f in comparisons],
    }
    differ = {what: cells for what, cells in tested.items() if len(set(cells)) > 1}
    same = [cells[0] for what, cells in tested.items() if what not in differ]
    rows = map(_overview, comparisons)
    apart, lost, doubt = (list(cells) for cells in zip(*rows, strict=True))
    columns = [
        doc.names("dataset", folds, note=f"On every dataset: {', '.join(same)}." if same else ""),
        Column("pairs separated", apart),
        *([Column("not tested", lost)] if any(lost) else []),
        Column("doubt", doubt, "<"),
        *(Column(what, cells, "<", keep=1) for what, cells in differ.items()),
    ]
    return Table(columns, title="Every dataset", key="folds", things="datasets", **options)


def _overview(comparison: FoldComparison) -> tuple[str, str, str]:
    """How many pairs are separated, how many not tested, whether in doubt."""
    table = comparison.table
    doubt = NOT_TRUSTED if (table["doubt"] != "").any() else ""
    lost = str(sum(comparison.untested.values()) + comparison.n_lost or "")
    return f"{table['separated'].sum()} of {len(table)}", lost, doubt


def _shown(comparison: FoldComparison) -> str:
    many = len(comparison.methods)
    most = f" (of the best {TOP} of {many})" if many > TOP else ""
    return (
        f" Folds and ellipses of the best {DETAILED} are drawn, of others the mean{most}."
        if many > DETAILED
        else ""
    )


def _scatter(dataset: str, comparison: FoldComparison, i: int) -> list[Figure]:
    if len(comparison.measures) < 2:
        return []
    caption = ""
    if i == 1:
        caption = (
            "Each point is a fold, the large mark the mean. The ellipse shows how the folds "
            f"scatter ({INSIDE:.0%} of a normal distribution), not how sure the mean is."
        )
    caption += _shown(comparison)
    if len(comparison.measures) > 2:
        caption += f" Drawn are the first two of {len(comparison.measures)} measures."
    svg = fold_scatter(
        comparison.values.iloc[:, :2],
        comparison.order,
        _heads(comparison)[:2],
        f"Folds on {dataset}",
    )
    return [Figure(svg, caption.strip(), title="Folds on two measures")]


def _histograms(comparison: FoldComparison, i: int) -> list[Figure]:
    svgs = [
        fold_histogram(
            comparison.values[measure],
            comparison.order,
            head,
            comparison.means.xs(measure, level="measure"),
        )
        for measure, head in zip(comparison.measures[:HISTOGRAMS], _heads(comparison), strict=False)
    ]
    caption = "How many folds fall where; the tall line is the mean, with its interval at the foot."
    caption = caption if i == 1 else ""
    return [Figure(svgs[0], caption, title="Folds on each measure alone"), *map(Figure, svgs[1:])]


def record(comparison: FoldComparison) -> Data:
    """What JSON holds of the folds of one dataset beside what it holds of all tests of pairs."""
    learned = comparison.learned
    return {
        "sentences": sentences(comparison),
        **doc.named(comparison, "cliques", "letters", "directions"),
        "manova": _manova(comparison.manova),
        "naive_manova": _manova(comparison.naive_manova),
        "orderings": {
            m: doc.named(o, "direction", "order", "groups", "letters")
            for m, o in comparison.orderings.items()
        },
        "learned": learned
        and {
            "weights": learned.weights.to_dict(),
            "scaled_weights": learned.scaled_weights.to_dict(),
            "dimensions": learned.dimensions.to_dict(orient="index"),
            "tests": comparison.learned_tests,
            **doc.named(learned, "eigenvalues", "shares"),
        },
    }


def _manova(manova: ManovaResult | None) -> Data | None:
    if manova is None:
        return None
    names = ("statistic", "pvalue", "f_statistic", "df", "design", "warnings")
    return {**doc.named(manova, *names), "table": manova.table.to_dict(orient="index")}
