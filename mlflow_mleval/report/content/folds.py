"""The tests over the folds of each dataset: several measures tested together, pair by pair, with
pictures of the folds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.analysis.folds.fold_comparison import FoldComparison, lost_pairs
from mlflow_mleval.analysis.folds.manova import ManovaResult
from mlflow_mleval.analysis.folds.protocol import UNPAIRED
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    ALWAYS,
    PAGE,
    Beside,
    Column,
    Figure,
    Section,
    Table,
    Terms,
    listed,
    name,
)
from mlflow_mleval.report.content.definitions import doubts, glossary
from mlflow_mleval.report.content.differences import NOT_TRUSTED
from mlflow_mleval.report.content.provenance import made_from, when
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.figures.lines import DETAILED, INSIDE, fold_histogram, fold_scatter
from mlflow_mleval.report.svg import TOP
from mlflow_mleval.report.text import (
    ARROWS,
    aligned,
    fixed,
    level,
    number,
    percent,
    pvalue,
    with_intervals,
)
from mlflow_mleval.validation import present
from mlflow_mleval.words import count

Folds = Mapping[str, FoldComparison]

#: Datasets that are drawn, and histograms of each; rows of tables; groups, and methods of an
#: ordering, that are named.
DATASETS, HISTOGRAMS, METHODS, PAIRS, GROUPS, ORDERED = 12, 4, 100, 500, 4, 15


def section(c: Comparison) -> Section | None:
    """The folds of every dataset that has any; nothing where none has."""
    absent = {
        key.removeprefix("folds."): why for key, why in c.absent.items() if key.startswith("folds.")
    }
    return _section(c.folds, absent, alone=False) if c.folds or absent else None


def document(found: FoldComparison, provenance: Mapping[str, Any]) -> Document:
    """What the folds of one dataset say."""
    return folds_document({found.dataset: found}, {}, (), provenance)


def folds_document(
    found: Folds, absent: Mapping[str, str], notes: Sequence[str], provenance: Mapping[str, Any]
) -> Document:
    """What the folds of several datasets say; `absent` says why a dataset has none, `notes` are
    doubts about the study.
    """
    ends = {"absent": absent, "doubts": notes, "provenance": provenance}
    return Document(
        f"Tests over folds: {listed(found)}",
        [_section(found, absent, alone=True), *doubts(notes), made_from(provenance)],
        time=when(provenance),
        data=lambda: {"over": "folds", "datasets": _records(found), **ends},
        frames=lambda: tables(found),
        main="fold_pairs",
    )


def _section(folds: Folds, absent: Mapping[str, str], alone: bool) -> Section:
    """All datasets, on a terminal too, if they are the document; in the report of a study the first
    ones.
    """
    at = {"depth": ALWAYS} if alone else {}
    blocks: list[Any] = [overview_table(folds, **at)] if len(folds) > 1 else []
    for i, (dataset, found) in enumerate(folds.items(), start=1):
        if i <= DATASETS or alone:
            blocks += on_dataset(dataset, found, i, at)
    if len(folds) > DATASETS:
        rest = "drawn" if alone else "shown; the JSON and CSV data hold all"
        blocks.append(doc.note(f"The first {DATASETS} of {len(folds)} datasets are {rest}."))
    blocks += doc.points(
        [f"{name(dataset)} was not tested: {why}" for dataset, why in absent.items()],
        "Not tested",
        **at,
    )
    if terms := {word: text for found in folds.values() for word, text in words(found)}:
        blocks.append(Terms(list(terms.items()), doc.WORDS))
    total, apart = (
        sum(len(f.pairs) for f in folds.values()),
        sum(f.pairs["significant"].sum() for f in folds.values()),
    )
    hint = (
        f"{apart:,} of {count(total, 'pair')} separated on {count(len(folds), 'dataset')}"
        if folds
        else "not tested"
    )
    return Section("folds", "By fold", blocks, hint + lost_pairs(folds.values()))


def on_dataset(dataset: str, found: FoldComparison, i: int, at: Mapping[str, Any]) -> list[Any]:
    shared = found.n_shared_folds == found.n_folds
    where = (
        f"over {count(found.n_folds, 'fold')}{'' if shared else ', as far as a method has them,'} "
        f"of {name(dataset)}"
    )
    of_pairs = (
        where if shared else f"over the {found.folds_of_a_pair} of {name(dataset)} that both have"
    )
    blocks: list[Any] = [
        doc.Text(sentences(found), title=f"On {name(dataset)}", **at),
        means_table(found, caption=f"Means {where}", key=f"fold-means-{i}", **at),
        *doc.points(found.doubts, "Doubts about these verdicts", **at),
        fold_pairs(
            found,
            title="Every pair",
            caption=f"Pairs of methods {of_pairs}",
            key=f"fold-pairs-{i}",
            **at,
        ),
    ]
    if len(found.measures) > 1:
        title = "By each measure alone; methods that share a letter are not separated by it"
        title += " (corrected on this dataset only)" if found.n_datasets > 1 else ""
        blocks.append(Terms(orderings(found), title, **at))
    if i <= DATASETS:
        blocks.append(
            Beside([*_scatter(dataset, found), *_learned(dataset, found)], _histograms(found))
        )
    return blocks


def headline_test(found: FoldComparison) -> str:
    """The headline test, with what corrects it; on one measure it is a t test."""
    if found.is_five_by_two:
        return "the combined 5x2 cv F test"
    test = "Hotelling's T²" if len(found.measures) > 1 else "Student's t"
    test = f"{test} of {'paired' if found.paired else 'unpaired'} folds"
    if found.protocol.ratio is None:
        return test
    twice = (
        " by twice n_test/n_train" if found.protocol.headline_ratio != found.protocol.ratio else ""
    )
    return f"{test} (corrected for shared training data{twice})"


def sentences(found: FoldComparison) -> list[str]:
    """What the folds of one dataset say, a sentence each: pairs, all methods, groups, learned
    measures, normality, refusals.
    """
    refused = {
        "naive": "The uncorrected test was",
        "manova": "MANOVA was",
        "mardia": "Mardia's test was",
        "pairs": "Pairs were",
    }
    said = [_pairs(found), _overall(found), _groups(found), _combination(found), _normality(found)]
    said += [
        f"{refused[key]} refused: {reason.rstrip('.')}." for key, reason in found.refusals.items()
    ]
    return [text for text in said if text]


def _pairs(found: FoldComparison) -> str:
    table = found.pairs
    untested, apart = found.untested, int(table["significant"].sum())
    each = (
        ""
        if found.n_shared_folds == found.n_folds
        else f", each pair on the {found.folds_of_a_pair} that both have"
    )
    text = (
        f"{count(found.n_folds, 'fold')}, {count(len(found.methods), 'method')}, tested on "
        f"{listed(found.measures, most=8)}"
        f"{' together' if len(found.measures) > 1 else ''}: {headline_test(found)} separates "
        f"{apart} of {count(len(table), 'pair')}{each} (Holm's correction{_over(found)}, α = "
        f"{level(found.alpha)})"
    )
    if "naive" not in found.refusals and found.shares_training:
        naive = int(table["naive_significant"].sum())
        text += "; without that correction it would be " + (
            "just as many" if naive == apart else str(naive)
        )
    if found.pairs["plain_pvalue"].notna().any():
        plain = int(table["plain_significant"].sum())
        text += "; corrected by n_test/n_train alone it would be " + (
            "just as many" if plain == apart else str(plain)
        )
    for why, n in untested.items():
        text += f"; {count(n, 'pair')} could not be tested" + (
            f": {why}" if why != UNPAIRED else ""
        )
    if found.n_lost:
        gone = listed(dict.fromkeys(e.name for e in found.excluded if e.kind == "method"))
        text += (
            f"; {count(found.n_lost, 'further pair')} of {gone} could not be tested for want of "
            "folds in common"
        )
    return f"{text}."


def _over(found: FoldComparison) -> str:
    """What the correction counts, where that is more than the pairs of this dataset."""
    return f" over the pairs of all {found.n_datasets} datasets" if found.n_datasets > 1 else ""


def _overall(found: FoldComparison) -> str:
    m = found.manova
    if m is None or len(found.methods) < 3:
        return ""
    naive = found.naive_manova if m.ratio is not None else None
    of = (
        ""
        if found.n_shared_folds == found.n_folds
        else f" on the {count(found.n_shared_folds, 'fold')} that all have"
    )
    return (
        f"All methods together{of}: MANOVA, {m.design}, Wilks Λ = {number(m.statistic)}, "
        f"F({', '.join(map(number, m.df))}) = {number(m.f_statistic)}, "
        f"{pvalue(m.pvalue)}{'' if naive is None else f' (not corrected: {pvalue(naive.pvalue)})'}."
    )


def _groups(found: FoldComparison) -> str:
    groups = [g for g in found.cliques if len(g) > 1]
    if not groups or not found.pairs["significant"].any():
        return f"{'No' if groups else 'Every'} two methods are separated."
    if len(groups) > GROUPS:
        largest = max(map(len, groups))
        return (
            f"The methods form {len(groups)} groups of up to {largest} in which no two are "
            "separated: see the letters."
        )
    alone = [g[0] for g in found.cliques if len(g) == 1]
    return (
        "Not separated from each other: "
        f"{'; '.join(listed(g, most=8) for g in groups)}.{doc.from_all_others(alone)}"
    )


def _combination(found: FoldComparison) -> str:
    learned = found.learned
    if learned is None or len(learned.weights) < 2:
        return ""
    first = learned.shares.index[0]
    weights = learned.scaled_weights[first].sort_values(key=abs, ascending=False)
    terms = " ".join(
        f"{'−' if w < 0 else '+'} {number(abs(w), 2)} {name(m)}" for m, w in weights.items()
    ).removeprefix("+ ")
    dimensions = int((learned.dimensions["pvalue"] <= found.alpha).cumprod().sum())
    real = (
        "one dimension of difference is"
        if dimensions == 1
        else f"{dimensions or 'no'} dimensions of difference are"
    )
    return (
        f"The combination of measures that tells the methods apart best, {first}, holds "
        f"{percent(learned.shares.iloc[0])} of what separates them: {terms} (weights per "
        f"standard deviation); {real} more than chance."
    )


def _normality(found: FoldComparison) -> str:
    m = found.mardia
    if m is None:
        return ""
    says = "do not look normal" if m.pvalue <= found.alpha else "show no departure from normality"
    caveat = (
        " With so few rows it can hardly show one." if m.warnings and m.pvalue > found.alpha else ""
    )
    return (
        f"The residuals {says} (Mardia: skewness {pvalue(m.skewness_pvalue)}, kurtosis "
        f"{pvalue(m.kurtosis_pvalue)}).{caveat}"
    )


def words(found: FoldComparison) -> list[tuple[str, str]]:
    """What the words of the verdict mean and when not to trust them: (word, explanation), only for
    those that are used.
    """
    learned = found.learned is not None and len(found.measures) > 1
    used = {
        "corrected": found.shares_training,
        NOT_TRUSTED: not found.pairs["reliable"].all(),
        "learned measures": learned,
    }
    ratio = number(found.protocol.headline_ratio)
    return [
        (word, text.format(ratio=ratio))
        for word, text in glossary("folds").items()
        if used.get(word, True)
    ]


def _heads(found: FoldComparison) -> list[str]:
    return [f"{m} {ARROWS[o.direction]}" for m, o in found.orderings.items()]


def means_table(found: FoldComparison, **options: Any) -> Table:
    """Means over folds with their intervals and the groups, best mean rank first."""
    shown = found.order[:METHODS]
    first = (
        "The best mean rank over these measures comes first."
        if len(found.measures) > 1
        else "The best comes first."
    )
    shared = "" if found.protocol.ratio is None else ", as wide as shared training data make it"
    columns = [
        doc.names(
            "method",
            shown,
            note=f"{first} Means with {100 * (1 - found.alpha):g}% intervals{shared}.",
        )
    ]
    if found.n_shared_folds < found.n_folds:
        own = found.values.groupby(level=0).size()
        note = "Folds: how many the method has; its means are over them."
        columns.append(Column("folds", [str(own[m]) for m in shown], note=note))
    for i, (measure, head) in enumerate(zip(found.measures, _heads(found), strict=True)):
        means = found.means.xs(measure, level="measure").loc[shown, ["mean", "low", "high"]]
        columns.append(Column(head, with_intervals(means.to_numpy()), keep=len(found.measures) - i))
    letters = [found.letters[m] for m in shown]
    columns.append(
        doc.names("groups", letters, note="Methods that share a letter are not separated.")
    )
    return Table(columns, len(found.methods), things="methods", **options)


def fold_pairs(found: FoldComparison, **options: Any) -> Table:
    """The pairs, the better method by mean rank first: separated ones first, then by p-value."""
    total, shown = len(found.ordered_pairs), found.ordered_pairs.head(PAIRS)
    apart = np.where(
        shown["pvalue"].isna(), "not tested", np.where(shown["significant"], "yes", "no")
    )
    marked = [
        text if fine else f"{text} {NOT_TRUSTED}"
        for text, fine in zip(apart, shown["reliable"], strict=True)
    ]
    columns = [
        *doc.pair(shown),
        Column("Λ" if found.is_five_by_two else "T²", aligned(shown["statistic"]), keep=1),
        doc.pvalues(
            "p (Holm)",
            shown["pvalue_corrected"],
            keep=4,
            note=(
                f"p: {headline_test(found)}; Holm over {count(total, 'pair')}"
                f"{f' of each of {found.n_datasets} datasets together' if found.n_datasets > 1 else ''}."  # noqa: E501
            ),
        ),
        Column(
            "separated",
            marked,
            "<",
            note=""
            if shown["reliable"].all()
            else f"{NOT_TRUSTED}: not to be trusted, see the doubts.",
        ),
        Column(
            "direction",
            shown["direction"].tolist(),
            "<",
            keep=3,
            note=(
                "Direction: how the means lie by each measure; the test says that two differ, "
                "not which is better."
            ),
        ),
        Column(
            "carried by",
            shown["carried"].tolist(),
            "<",
            note=(
                "Carried by: measures that differ on their own, + where the first is better, − "
                "where the second is."
            ),
        ),
        doc.pvalues("p", shown["pvalue"], keep=2),
    ]
    if found.n_shared_folds < found.n_folds:
        columns.insert(
            2,
            Column(
                "folds",
                shown["folds"].map(str).tolist(),
                keep=3,
                note="Folds: how many both methods have.",
            ),
        )
    if shown["plain_pvalue"].notna().any():
        note = "Plain: Holm's p of the test that is corrected by n_test/n_train alone."
        columns.append(doc.pvalues("plain", shown["plain_pvalue_corrected"], keep=3, note=note))
    if found.shares_training and shown["naive_pvalue"].notna().any():
        note = "Uncorrected: Holm's p of the test that ignores shared training data."
        columns.append(
            doc.pvalues("uncorrected", shown["naive_pvalue_corrected"], keep=3, note=note)
        )
    return Table(columns, total, things="pairs", **options)


def orderings(found: FoldComparison) -> list[tuple[str, str]]:
    """The order of the methods by each measure alone, with letters."""
    more = f" and {len(found.order) - ORDERED} more" if len(found.order) > ORDERED else ""
    said = (
        ", ".join(f"{name(m)} {o.letters[m]}" for m in o.order[:ORDERED]) + more
        for o in found.orderings.values()
    )
    return list(zip(_heads(found), said, strict=True))


def overview_table(folds: Folds, **options: Any) -> Table:
    """One row a dataset: how many pairs the tests separate, and what was tested where that
    differs.
    """
    found = list(folds.values())
    tested = {
        "folds": [f.folds_of_a_pair for f in found],
        "methods": [count(len(f.methods), "method") for f in found],
        "measures": [listed(f.measures, most=8) for f in found],
    }
    same = [cells[0] for cells in tested.values() if len(set(cells)) == 1]
    lost = [sum(f.untested.values()) + f.n_lost for f in found]
    naive = [
        "refused" if "naive" in f.refusals else str(int(f.pairs["naive_significant"].sum()))
        for f in found
    ]
    columns = [
        doc.names("dataset", folds, note=f"On every dataset: {', '.join(same)}." if same else ""),
        Column(
            "pairs separated",
            [f"{int(f.pairs['significant'].sum())} of {len(f.pairs)}" for f in found],
        ),
        *([Column("not tested", [str(n or "") for n in lost])] if any(lost) else []),
        Column("doubt", ["" if f.pairs["reliable"].all() else NOT_TRUSTED for f in found], "<"),
        Column("uncorrected", naive, keep=2),
        doc.pvalues(
            "MANOVA p", [None if f.manova is None else f.manova.pvalue for f in found], keep=3
        ),
        *(
            Column(what, cells, "<", keep=1)
            for what, cells in tested.items()
            if len(set(cells)) > 1
        ),
    ]
    return Table(columns, title="Every dataset", key="folds", things="datasets", **options)


def _shown(found: FoldComparison) -> str:
    many = len(found.methods)
    most = f" (of the best {TOP} of {many})" if many > TOP else ""
    return (
        f" Folds and ellipses of the best {DETAILED} are drawn, of others the mean{most}."
        if many > DETAILED
        else ""
    )


def _scatter(dataset: str, found: FoldComparison) -> list[Figure]:
    if len(found.measures) < 2:
        return []
    caption = (
        f"Each point is a fold, the large mark the mean. The ellipse holds {INSIDE:.0%} of the "
        "normal distribution that fits the folds of the method; it shows how they scatter, not "
        f"how sure the mean is.{_shown(found)}"
    )
    if len(found.measures) > 2:
        caption += f" Drawn are the first two of {len(found.measures)} measures."
    svg = fold_scatter(
        found.values.iloc[:, :2], found.order, _heads(found)[:2], f"Folds on {dataset}"
    )
    return [Figure(svg, caption, title="Folds on two measures")]


def _histograms(found: FoldComparison) -> list[Figure]:
    svgs = [
        fold_histogram(
            found.values[measure], found.order, head, found.means.xs(measure, level="measure")
        )
        for measure, head in zip(found.measures[:HISTOGRAMS], _heads(found), strict=False)
    ]
    caption = (
        "How many folds fall where; the tall line is the mean, the thick one at the foot its "
        "interval."
    )
    return [Figure(svgs[0], caption, title="Folds on each measure alone"), *map(Figure, svgs[1:])]


def _learned(dataset: str, found: FoldComparison) -> list[Any]:
    """Projections on the learned measures, their weights and tests."""
    learned = found.learned
    if learned is None or len(learned.weights) < 2:
        return []
    shares, shown = learned.shares, learned.projections.columns[:2]
    heads = [f"{m} ({percent(shares[m])} of what separates)" for m in shown]
    caption = (
        "The folds on the combinations of measures that tell the methods apart best "
        "(eigenvectors of E⁻¹H). They were learned from these folds, so some distance is there "
        f"by construction.{_shown(found)}"
    )
    if len(shown) > 1:
        svg = fold_scatter(
            learned.projections[list(shown)], found.order, heads, f"Learned measures on {dataset}"
        )
    else:
        svg = fold_histogram(learned.projections[shown[0]], found.order, heads[0])
    columns = [
        doc.names("measure", [*learned.scaled_weights.index, "share", "p of it and those after it"])
    ]
    for k in shares.index:
        cells = [*(fixed(w, 2) for w in learned.scaled_weights[k]), percent(shares[k])]
        columns.append(
            Column(str(k), [*cells, pvalue(learned.dimensions.loc[k, "pvalue"], bare=True)])
        )
    note = (
        "Weights per standard deviation of what is left of fold and method: comparable between "
        "measures."
    )
    weights = Table(columns, title="Weights of the learned measures", note=note, depth=PAGE)
    first = shares.index[0]
    tests = present(found.learned_tests).query("learned == @first")
    least = tests.nsmallest(PAIRS, "pvalue")
    columns = [
        *doc.pair(least),
        Column("difference", [*map(number, least["mean_difference"])]),
        doc.pvalues("p (Holm)", least["pvalue_corrected"]),
        Column("t", [*map(number, least["statistic"])]),
    ]
    note = (
        "p holds for any choice of weights, so that the choice that was made on these folds is "
        "allowed for."
    )
    pairs = Table(
        columns,
        len(tests),
        f"Every pair on {first}",
        things="pairs",
        note=note,
        folded=True,
        depth=PAGE,
    )
    return [Figure(svg, caption, weights, title="Learned measures"), pairs]


def data(c: Comparison) -> dict[str, Any]:
    return {"folds": _records(c.folds)}


def frames(c: Comparison) -> dict[str, pd.DataFrame]:
    return tables(c.folds)


def _records(folds: Folds) -> dict[str, Any]:
    return {dataset: _record(found) for dataset, found in folds.items()}


def _record(found: FoldComparison) -> dict[str, Any]:
    learned = found.learned
    return {
        "sentences": sentences(found),
        "test": headline_test(found),
        **doc.named(
            found,
            "dataset",
            "methods",
            "measures",
            "n_folds",
            "n_shared_folds",
            "protocol",
            "paired",
            "alpha",
            "pairs",
        ),
        "directions": found.directions,
        "means": found.means.reset_index(),
        "manova": _manova(found.manova),
        "naive_manova": _manova(found.naive_manova),
        "orderings": {
            m: doc.named(o, "direction", "order", "groups", "letters")
            for m, o in found.orderings.items()
        },
        "learned": learned
        and {
            "weights": learned.weights.to_dict(),
            "scaled_weights": learned.scaled_weights.to_dict(),
            "dimensions": learned.dimensions.to_dict(orient="index"),
            "tests": found.learned_tests,
            **doc.named(learned, "eigenvalues", "shares"),
        },
        **doc.named(
            found,
            "posthoc",
            "mardia",
            "cliques",
            "letters",
            "excluded",
            "refusals",
            "warnings",
            "n_datasets",
        ),
    }


def _manova(found: ManovaResult | None) -> dict[str, Any] | None:
    names = (
        "statistic",
        "pvalue",
        "f_statistic",
        "df",
        "design",
        "approximation",
        "ratio",
        "warnings",
    )
    return (
        None
        if found is None
        else {**doc.named(found, *names), "table": found.table.to_dict(orient="index")}
    )


def tables(folds: Folds) -> dict[str, pd.DataFrame]:
    """The tables of all datasets by name, unrounded."""
    index = ["method", "fold"]
    parts: dict[str, dict[str, pd.DataFrame]] = {}
    for dataset, f in folds.items():
        values = f.values.rename_axis(index).reset_index().melt(index, var_name="measure")
        found = {
            "pairs": f.pairs,
            "posthoc": f.posthoc,
            "means": f.means.reset_index(),
            "values": values,
        }
        for key, table in found.items():
            parts.setdefault(f"fold_{key}", {})[dataset] = table
    return {
        key: pd.concat(tables, names=["dataset"]).reset_index("dataset")
        for key, tables in parts.items()
    }
