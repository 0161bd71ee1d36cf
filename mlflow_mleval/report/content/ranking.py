"""The ranking: one row a method, best first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.paired import mean_intervals
from mlflow_mleval.analysis.promethee import PrometheeResult
from mlflow_mleval.naming import count
from mlflow_mleval.report import document as doc
from mlflow_mleval.report.content.best_methods import best
from mlflow_mleval.report.content.sliders import sliders
from mlflow_mleval.report.content.verdict import choices
from mlflow_mleval.report.document import (
    ALWAYS,
    PAGE,
    Column,
    Section,
    Sliders,
    Table,
    listed,
    name,
)
from mlflow_mleval.report.figures.strips import CELLS, flow_bar, rank_strip
from mlflow_mleval.report.numerals import ARROWS, aligned, fixed, number, with_intervals

#: Rows of a table of methods.
METHODS = 100
#: Columns of the table of ranks on each dataset.
DATASETS = 100
FLOWS = ["phi_plus", "phi_minus", "phi"]


def section(c: Comparison) -> Section:
    """The ranking with a bar of net flow and a strip of ranks in each row, and the ranks in
    numbers.
    """
    blocks: list[Any] = [_ranking(c)]
    weights = sliders(c, METHODS)
    if len(c.order) > METHODS:
        mean = c.ranks.mean()[c.order[METHODS:]]
        words = (
            f"The other {len(mean)} have mean ranks from {number(mean.iloc[0])} to "
            f"{number(mean.iloc[-1])}: "
        )
        blocks.append(doc.note(f"{words}{listed(mean.index, 12)}."))
    if len(c.ranks) > 1:
        frame, total = (
            c.ranks[c.order[:METHODS]].T.iloc[:, :DATASETS].rename_axis(columns="dataset"),
            len(c.ranks),
        )
        some = (
            f"The first {DATASETS} of {total:,} datasets are shown; ranks_by_dataset.csv holds all."
        )
        about = {
            "key": "ranks",
            "title": "Rank on each dataset",
            "note": some if total > DATASETS else "",
        }
        blocks.append(grid(frame, "method", [name(d, 18) for d in frame], number, **about))
    if c.on == FUSED:
        blocks.append(doc.note(_partial_order(c)))
    if isinstance(weights, Sliders):
        blocks = [doc.Beside([weights], blocks)]
    elif weights is not None:
        blocks.append(weights)
    return Section("ranking", "Ranking", blocks)


def data(c: Comparison) -> dict[str, Any]:
    by_dataset = c.by_dataset.groupby("dataset", sort=False)[["method", "rank", *FLOWS]]
    return {"ranking": c.ranking, "datasets": dict(iter(by_dataset)), "promethee": _Promethee(c)}


def frames(c: Comparison) -> dict[str, pd.DataFrame]:
    return {"ranking": c.ranking, "ranks_by_dataset": c.by_dataset, "values": c.values_long}


def grid(
    frame: pd.DataFrame, head: str, columns: Sequence[str], cell: Any, **options: Any
) -> Table:
    """A folded table of a frame whose rows are named; `cell` turns a value into what is shown.

    A frame whose columns are called dataset has heads that say which one.
    """
    called = [{"dataset": str(d)} if frame.columns.name == "dataset" else {} for d in frame.columns]
    parts = zip(columns, frame.to_numpy().T, called, strict=True)
    shown = [Column(text, [*map(cell, values)], marks=marks) for text, values, marks in parts]
    return Table(
        [doc.names(head, frame.index), *shown], **{"folded": True, "depth": PAGE} | options
    )


def _ranking(c: Comparison) -> Table:
    shown, several = c.ranking.head(METHODS), len(c.ranks) > 1
    methods = shown["method"]
    mean = [fixed(r, 2) if several else f"{r:g}" for r in shown["mean_rank"]]
    columns = [
        Column("#", shown["position"].astype(str).tolist(), marks={"key": "position"}),
        doc.names("method", methods),
        Column(
            "mean rank" if several else "rank",
            mean,
            note="Rank 1 is best.",
            marks={"key": "mean-rank"},
        ),
        *(_possible(c, shown) if several else []),
    ]
    values, minor = _flows(c, shown) if c.on == FUSED else _values(c, shown)
    columns += values
    if c.letters_apply:
        note = "Methods with a letter in common are not separated."
        columns.append(Column("groups", shown["letters"].tolist(), "<", note=note))
    if several:
        strips = [rank_strip(c.ranks[m], len(c.order)) for m in methods]
        tip = (
            "A cell a dataset, the stronger the better; a dot marks rank 1."
            if len(c.ranks) <= CELLS
            else (
                "The datasets from the method's best rank to its worst; the stronger, the better."
            )
        )
        columns.append(Column("rank on each dataset", strips, "<", tip=tip, marks={"key": "strip"}))
    columns += [*(_best_worst(shown) if several and not c.letters_apply else []), *minor]
    if c.study.repeats is not None:
        runs = [
            c.study.n_repeats.xs(m, level=1)
            if m in c.study.n_repeats.index.get_level_values(1)
            else None
            for m in methods
        ]
        cells = [
            "–" if n is None else f"{n.min()}–{n.max()}" if n.min() < n.max() else str(n.max())
            for n in runs
        ]
        note = "Runs: how many repeats each value is the mean of."
        columns.append(Column("runs", cells, keep=2, note=note, marks={"key": "runs"}))
    by = (
        f"all measures fused ({choices(c.options, len(c.study.measures))})"
        if c.on == FUSED
        else listed([c.on])
    )
    datasets = c.study.datasets
    where = (
        f"over {count(len(datasets), 'dataset')}" if len(datasets) > 1 else f"on {listed(datasets)}"
    )
    caption = f"Ranking of {count(len(c.study.methods), 'method')} {where} by {by}"
    return Table(
        columns,
        len(c.ranking),
        caption=caption,
        key="ranking",
        things="methods",
        first=True,
        depth=ALWAYS,
        most=15,
    )


def _possible(c: Comparison, shown: pd.DataFrame) -> list[Column]:
    if not c.letters_apply:
        return []
    cells = [
        f"{low}–{high}" if low < high else str(low)
        for low, high in zip(shown["low"], shown["high"], strict=True)
    ]
    return [
        Column("possible", cells, keep=2, note="Possible: ranks that the separated pairs leave.")
    ]


def _best_worst(shown: pd.DataFrame) -> list[Column]:
    span = zip(shown["best_rank"], shown["worst_rank"], strict=True)
    return [
        Column(
            "best–worst",
            [f"{low:g}–{high:g}" if low < high else f"{low:g}" for low, high in span],
            keep=1,
        )
    ]


def _flows(c: Comparison, shown: pd.DataFrame) -> tuple[list[Column], list[Column]]:
    """Net flow in numbers and as a bar; and the flows of which it is made, which a narrow page may
    cut off.
    """
    limit = max(c.fusion.ranking["phi"].abs().max(), 1e-9)
    bars = [flow_bar(x, limit) for x in shown["phi"]]
    note = "φ: how far it is preferred to others (φ⁺), less how far they are to it (φ⁻)."
    net = [
        doc.decimals("φ", shown["phi"], 3, keep=3, note=note, marks={"key": "phi"}),
        Column("− | +", bars, "<", tip="φ as a bar around zero", marks={"key": "bar"}),
    ]
    return net, [
        doc.decimals(head, shown[flow], 3, keep=1)
        for head, flow in (("φ⁺", "phi_plus"), ("φ⁻", "phi_minus"))
    ]


def _values(c: Comparison, shown: pd.DataFrame) -> tuple[list[Column], list[Column]]:
    """The measure that is compared; and the rank by all measures fused."""
    values, arrow = c.study.cells(c.on)[shown["method"]], ARROWS[c.study.directions[c.on]]
    if len(c.ranks) > 1:
        alpha = c.options["alpha"]
        cells = with_intervals(mean_intervals(values, alpha).to_numpy())
        note = (
            f"Mean: over datasets, with its {100 * (1 - alpha):g}% interval; how methods differ, "
            "the pairs say."
        )
        column = Column(f"mean {name(c.on)} {arrow}", cells, keep=3, note=note)
    else:
        column = Column(f"{name(c.on)} {arrow}", aligned(values.iloc[0]), keep=3)
    return [column], [doc.decimals("fused rank", shown["rank"], 2, keep=1)]


def _partial_order(c: Comparison) -> str:
    """PROMETHEE I on the mean flows: whom the leader really beats, where strengths and weaknesses
    disagree.
    """
    order, (a, b) = c.fusion.ranking.index, c.incomparable
    against = order[b[a == 0]].tolist()
    n_pairs, n_apart = len(order) * (len(order) - 1) // 2, len(a)
    if not n_apart:
        return "PROMETHEE I leaves no pair incomparable: φ⁺ and φ⁻ agree on the whole order."
    words = (
        f"PROMETHEE I, which lets no strength make up for a weakness, leaves {n_apart:,} of "
        f"{n_pairs:,} pairs incomparable"
    )
    return f"{words}; the leader " + (
        f"cannot be compared with {listed(against, 12)}." if against else "is in none of them."
    )


class _Promethee(Mapping[str, dict[str, Any]]):
    """`_promethee` by dataset, each made when it is asked for: together they may be larger than all
    else.
    """

    def __init__(self, c: Comparison) -> None:
        self.results, self.methods = c.fusion.results, best(c)

    def __getitem__(self, dataset: str) -> dict[str, Any]:
        return _promethee(self.results[dataset], self.methods)

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


def _promethee(result: PrometheeResult, methods: pd.Index) -> dict[str, Any]:
    """Flows by measure, thresholds, the pairs of these methods that PROMETHEE I leaves open, and
    the GAIA plane of a dataset.
    """
    gaia, kept = result.gaia(), result.flows[result.flows.index.isin(methods)]
    a, b = replace(result, flows=kept).incomparable()
    return {
        "unicriterion": result.unicriterion.to_dict(orient="index"),
        "thresholds": result.thresholds.to_dict(orient="index"),
        "incomparable": list(zip(kept.index[a], kept.index[b], strict=True)),
        "gaia": {
            "methods": gaia.methods.to_dict(orient="index"),
            "measures": gaia.measures.to_dict(orient="index"),
            **doc.named(gaia, "axis", "explained"),
        },
    }
