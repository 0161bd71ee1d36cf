"""Would it be better on the next dataset?

The hierarchical correlated t test, with raw and shrunken differences side by side.
"""

from typing import Any

import pandas as pd

from mlflow_mleval.analysis.comparison import Comparison
from mlflow_mleval.naming import count
from mlflow_mleval.report import document as doc
from mlflow_mleval.report.content.beyond import power_figure, probability
from mlflow_mleval.report.document import (
    PAGE,
    Beside,
    Column,
    Figure,
    Section,
    Sentence,
    Table,
    Terms,
    Text,
    name,
    names,
)
from mlflow_mleval.report.figures.shrinkage import shrinkage
from mlflow_mleval.report.glossary import glossary
from mlflow_mleval.report.numerals import fixed, number, with_intervals
from mlflow_mleval.validation import present

#: What the three masses are called where the first method is named.
LIKELIEST = {"share_better": "first", "share_equivalent": "neither", "share_worse": "second"}


def section(c: Comparison, depth: int = PAGE) -> Section | None:
    """Sentences, the pairs and the figure; nothing where fewer than two datasets have folds or
    repeats.
    """
    found = c.next_dataset
    if found is None:
        return None
    text = [s.text for s in sentences(c)]
    table = _table(c, depth)
    figures = [_figure(c, measure) for measure in found.pairs]
    how = "in that the interval of their typical difference by {} lies on one side of zero"
    figures += [
        power_figure(curve, how.format(name(m)), f", by {name(m)}")
        for m, curve in found.curves.items()
    ]
    words = Terms([*glossary("next_dataset").items()], doc.WORDS)
    blocks = [
        Text(text, depth=depth),
        *doc.points(found.doubts, "Doubts about these", depth=depth),
        table,
        Beside(figures[:1], figures[1:]) if len(figures) > 1 else figures[0],
        words,
    ]
    datasets = count(len(found.rho), "dataset")
    return Section(
        "next_dataset", "On the next dataset", blocks, f"from the {found.over} of {datasets}"
    )


def sentences(c: Comparison) -> list[Sentence]:
    """By measure: how probable it is that the better of the first pair stays so on the next
    dataset; what this rests on.
    """
    found = c.next_dataset
    if found is None:
        return []
    said = []
    for measure, pairs in found.pairs.items():
        row = found.table(measure, c.order).iloc[0]
        said.append(
            f"On the next dataset {name(row.method_a)} would be better than {name(row.method_b)} "
            f"by {name(measure)} with probability {probability(row.p_better)}, and worse with "
            f"{probability(row.p_worse)}; with {probability(row.p_equivalent)} they would differ "
            f"by no more than {number(pairs.rope)} ({found.ropes_from[measure]})."
        )
    for measure, curve in found.curves.items():
        said.append(
            curve.sentence(f" by the interval of their typical difference in {name(measure)}", name)
        )
        said += filter(None, [curve.sentence_on_more()])
    kind = {"folds": "their folds", "repeats": "repeats with other seeds"}[found.over]
    said.append(
        f"This rests on datasets that are drawn as these {len(found.rho)} were, each known as "
        f"well as {kind} tell (hierarchical correlated t test)."
    )
    return [Sentence(text, ("next_dataset",)) for text in said]


def _table(c: Comparison, depth: int) -> Table:
    found = present(c.next_dataset)
    parts = {measure: found.table(measure, c.order) for measure in found.pairs}
    table = pd.concat(
        [part.assign(measure=measure) for measure, part in parts.items()], ignore_index=True
    )
    pairs = next(iter(found.pairs.values()))
    likeliest = table[list(LIKELIEST)].idxmax(axis=1).map(LIKELIEST)
    share = [
        f"{word} {probability(x)}"
        for word, x in zip(likeliest, table[list(LIKELIEST)].max(axis=1), strict=True)
    ]
    columns = [
        *doc.pair(table),
        *([names("measure", table["measure"])] if len(parts) > 1 else []),
        Column(
            "P first",
            [*map(probability, table["p_better"])],
            note=(
                "P: probability that on the next dataset the first is better by more than the "
                "rope, neither is, or the second is; the mean of these over the posterior "
                "draws."
            ),
        ),
        Column("P same", [*map(probability, table["p_equivalent"])]),
        Column("P second", [*map(probability, table["p_worse"])]),
        Column(
            "typical difference",
            with_intervals(table[["mean_difference", "low", "high"]].to_numpy()),
            keep=3,
            note=(
                "Typical difference: positive where the first is better, with its "
                f"{pairs.credible_level:.0%} interval."
            ),
        ),
        Column(
            "likeliest in",
            share,
            "<",
            keep=2,
            note=(
                "Likeliest in: the share of draws in which this of the three is the most "
                "probable, as in the paper."
            ),
        ),
        Column("datasets", [*map(number, table["n"])], keep=1),
        Column(
            "R̂",
            [fixed(x, 3) for x in table["rhat"]],
            keep=1,
            note=(
                f"R̂ and effective sample size: the worst of each pair, of {pairs.n_resamples:,} "
                f"draws (seed {pairs.seed})."
            ),
        ),
        Column(
            "effective size", [number(x) for x in table["effective_sample_size"].round()], keep=1
        ),
    ]
    return Table(
        columns,
        title="Every pair on the next dataset",
        key="next-dataset",
        things="pairs",
        depth=depth,
    )


def _figure(c: Comparison, measure: str) -> Figure:
    """The differences of the first pair of the table: not every method has folds."""
    found = present(c.next_dataset)
    row, rope = found.table(measure, c.order).iloc[0], found.ropes[measure]
    first, second = row.method_a, row.method_b
    by_dataset = found.by_dataset(measure, first, second)
    svg = shrinkage(
        by_dataset,
        rope,
        row.mean_difference,
        f"{first} minus {second} by {measure}",
        (first, second),
    )
    better = "larger" if c.study.directions[measure] == "max" else "smaller"
    caption = (
        f"{name(first)} against {name(second)} by {name(measure)} ({better} is better). Rings "
        "are the differences as they were found, dots what remains of them when every dataset is "
        f"drawn towards the others, with their {1 - c.options['alpha']:.0%} credible intervals; "
        f"the dashed line is the typical difference, the band holds those up to {number(rope)}."
    )
    cells = [
        names("dataset", by_dataset.index),
        Column("n", [*map(number, by_dataset["n"])]),
        Column("found", [number(x, 3) for x in by_dataset["mean"]]),
        Column("shrunken", with_intervals(by_dataset[["shrunken", "low", "high"]].to_numpy())),
    ]
    return Figure(
        svg,
        caption,
        Table(
            cells,
            title="Found and shrunken differences",
            things="datasets",
            folded=True,
            depth=PAGE,
        ),
        "Found and shrunken differences",
    )


def data(c: Comparison) -> dict[str, Any]:
    found = c.next_dataset
    return {
        "next_dataset": found
        and {
            "sentences": [s.text for s in sentences(c)],
            "doubts": found.doubts,
            **doc.named(
                found, "over", "pairs", "ropes", "ropes_from", "rho", "methods", "absent", "curves"
            ),
        }
    }


def frames(c: Comparison) -> dict[str, pd.DataFrame]:
    found = c.next_dataset
    if found is None:
        return {}
    return {
        f"next_dataset_{key}": pd.concat(
            {m: getattr(p, table) for m, p in found.pairs.items()}, names=["measure"]
        ).reset_index(0)
        for key, table in (("pairs", "table"), ("shrunken", "shrunken"))
    }
