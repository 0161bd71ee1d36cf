"""Loss profiles: where the order changes while more labels have to be right together."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.loss_profiles import ProfileComparison
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import Column, Data, Frames, listed, name
from mlflow_mleval.report.content import units
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.figures import TOP
from mlflow_mleval.report.figures.lines import DETAILED, NAMED, SYMBOLS, profile_lines, ratio_panels
from mlflow_mleval.report.text import confidence, level, number
from mlflow_mleval.sentences import count, grouped

DATASETS = PANELS = 12  #: datasets and pairs that are drawn
#: Rows of tables; pairs on a terminal.
METHODS, PAIRS, AT_ONCE = 100, 500, 3
TOLD = 2  #: crossings of which the sentences tell
NOTES = 4  #: on a terminal
KINDS = {"hard": "predicted label sets", "soft": "scores"}
#: How the summaries of a profile are called, with their better directions.
SUMMARIES = {
    "hamming": "Hamming ↓",
    "subset": "subset 0/1 ↓",
    "area": "area ↓",
    "slope": "slope ↓",
    "relative_gain": "relative gain ↑",
}


def described(comparison: ProfileComparison) -> ProfileComparison:
    """The profiles without what tests say of them, for a report in which other tests decide."""
    absent = {k: why for k, why in comparison.absent.items() if not k.startswith("tests.")}
    return replace(
        comparison,
        table=comparison.table.assign(pvalue_corrected=np.nan, separated=False),
        crossings=comparison.crossings.assign(certain=False),
        claims=comparison.claims.iloc[:0],
        absent=absent,
    )


def document(comparison: ProfileComparison, provenance: doc.Provenance) -> Document:
    """What a comparison of loss profiles says; as CSV a row a dataset and pair."""
    methods = comparison.curves.index.unique("method")
    datasets, o = comparison.datasets, comparison.options
    return Document.of(
        provenance,
        f"Loss profiles of {count(len(methods), 'method')} on {count(len(datasets), 'dataset')}",
        [replace(section(comparison, decides=True), depth=doc.PAPER)],
        about=f"{KINDS[o['kind']]} · {o['family']} family · {listed(datasets)}",
        data=lambda: {
            **units.shape({"": comparison}, comparison.absent, ()),
            "profiles": _record(comparison),
            "provenance": provenance,
        },
        frames=lambda: {"profile_patterns": comparison.patterns, **comparison.frames},
        main="profile_patterns",
    )


def section(comparison: ProfileComparison, decides: bool = False) -> doc.Section:
    """The sentences, tables and notes, and the figures; by default for a report in which other
    tests decide."""
    comparison = comparison if decides else described(comparison)
    datasets = comparison.datasets

    def blocks() -> list[Any]:
        made: list[Any] = [doc.Text(sentences(comparison), role="flow")]
        missing = []  # what shares a reason together
        for key, reason in comparison.absent.items():
            head = "Not tested over folds" if key.startswith("tests.") else "Left out"
            missing.append(((head, reason.rstrip(".")), key.removeprefix("tests.")))
        absent = [
            f"{head}: {listed(what, most=8)} ({reason})."
            for (head, reason), what in grouped(missing).items()
        ]
        made += doc.points([*comparison.warnings, *absent], "Doubts", most=NOTES)
        if len(comparison.ratios):
            made.append(pairs_table(comparison))
        pairs = comparison.ratios.index.droplevel(["dataset", "parameter"]).unique()
        crossed = comparison.crossings.groupby(["method_a", "method_b"]).size()
        crossed = crossed.reindex(pairs, fill_value=0).sort_values(ascending=False, kind="stable")
        caption = (
            "The second method's loss over the first's, a line a dataset: above 1 the first is "
            "better. Circles: crossings."
        )
        if len(pairs) > PANELS:
            caption += f" The {PANELS} of {len(pairs):,} pairs with most crossings are drawn."
        if len(datasets) > NAMED:
            caption += f" Of the datasets the {NAMED} farthest from 1 are named."
        lines = comparison.ratios, comparison.crossings, [*crossed.index[:PANELS]]
        drawn = []
        if len(pairs):
            svg = ratio_panels(*lines, comparison.options["family"], "Ratios of losses")
            drawn = [doc.Figure(svg, caption, title="Where they cross")]
        made.append(doc.Beside(drawn, [awareness_table(comparison)]))
        made += [curves_figure(comparison, dataset) for dataset in datasets[:DATASETS]]
        if len(datasets) > DATASETS:
            rest = f"The first {DATASETS} of {len(datasets)} datasets are shown"
            made.append(doc.note(f"{rest}; the JSON and CSV data hold all."))
        return made

    return doc.Section("profiles", "Loss profiles", doc.Late(blocks))


def curves_figure(comparison: ProfileComparison, dataset: str) -> doc.Figure:
    """The curves of a dataset in a picture."""
    methods = comparison.methods_on(dataset)
    curves = comparison.curves.xs(dataset, level="dataset").loc[methods[:TOP]]
    caption = f"Mean loss of {KINDS[comparison.options['kind']]}; 0 is best."
    if curves["low"].notna().any() and len(methods) <= DETAILED:
        level_of_bands = confidence(comparison.options["alpha"])
        caption += f" Bands: {level_of_bands} intervals of the mean over folds, each point alone."
    if len(methods) > TOP:
        caption += f" The {TOP} of {len(methods):,} methods with the least mean loss are drawn."
    svg = profile_lines(curves, comparison.options["family"], f"Loss profiles on {dataset}")
    return doc.Figure(svg, caption, title=f"On {name(dataset)}")


def sentences(comparison: ProfileComparison) -> list[str]:
    """What the profiles say, a sentence each: crossings, claims and their error rate."""
    ratios = comparison.ratios
    if ratios.empty:
        return ["No two methods have a profile on the same dataset."]
    tested, alpha = ratios["pvalue"].notna(), level(comparison.options["alpha"])
    changes = crossings(comparison)
    told = changes[:TOLD] or [
        "No two of the profiles cross: who is ahead by the Hamming loss is ahead throughout."
    ]
    if len(changes) > TOLD:
        told.append(f"The table tells of {count(len(changes) - TOLD, 'more change')}.")
    if changes and tested.any() and not comparison.crossings["certain"].any():
        told.append(
            "These are mean losses: no change of order is certain, for nowhere are the folds "
            "sure of both sides."
        )
    if not tested.any():
        return [*told, "Which of this is more than chance is not tested here."]
    total = count(len(ratios.index.droplevel("parameter")[tested].unique()), "pair")
    rows = comparison.claims.itertuples()
    apart = {(row.dataset, frozenset((row.better, row.worse))) for row in rows}
    by, over = " by dataset", "parameters, pairs and datasets"
    if len(comparison.datasets) == 1:
        by, over = "", "parameters and pairs"
    claims = (
        f"Somewhere along the profile the folds separate {len(apart):,} of {total}{by}; the "
        f"chance that any of these claims is wrong, over all {over}, is at most {alpha}."
    )
    if not apart:
        claims = f"The folds separate none of {total} anywhere along the profile (α = {alpha})."
    return [*told, claims]


def crossings(comparison: ProfileComparison) -> list[str]:
    """Where the order changes, a sentence a dataset and pair, certain ones first."""
    table = comparison.patterns[comparison.patterns["crossings"] > 0]
    texts = []
    for row in table.sort_values("certain", ascending=False, kind="stable").itertuples():
        certain = certain_spans(comparison, row.dataset)
        a, b = name(row.method), name(row.against)
        at = _at(comparison, row)
        text = f"{b} overtakes {a} above {at}"
        if row.crossings > 1:
            text = f"the profiles of {a} and {b} cross {row.crossings} times, first above {at}"
        if comparison.tested_on(row.dataset):
            pairs = (row.method, row.against), (row.against, row.method)
            sure = [f"of {name(pair[0])} {certain[pair]}" for pair in pairs if pair in certain]
            text += f"; the folds are sure {' and '.join(sure) or 'of neither'}"
        texts.append(f"On {name(row.dataset)} {text}.")
    return texts


def _at(comparison: ProfileComparison, row: Any) -> str:
    """Where profiles cross: the last whole k before, or α."""
    if comparison.options["family"] == "polynomial":
        return f"α = {number(row.parameter, 3)}"
    return f"k = {math.floor(row.parameter + 1e-9)} of {comparison.ends(row.dataset)[1]:g}"


def certain_spans(comparison: ProfileComparison, dataset: str) -> dict[tuple[str, str], str]:
    """Where on a dataset one method is certainly better: by (better, worse), "up to k = 4"."""
    symbol, ends = SYMBOLS[comparison.options["family"]], comparison.ends(dataset)

    def said(first: float, last: float) -> str:
        low, high = f"{symbol} = {number(first, 3)}", number(last, 3)
        if first == last:
            return f"at {low}"
        if (first, last) == ends:
            return f"for every {symbol}"
        if first == ends[0]:
            return f"up to {symbol} = {high}"
        return f"from {low}" if last == ends[1] else f"for {low} to {high}"

    stretches = comparison.certain_stretches(dataset)
    return {pair: doc.joined([said(*of) for of in spans]) for pair, spans in stretches.items()}


def pairs_table(comparison: ProfileComparison) -> doc.Table:
    """One row a dataset and pair: who is ahead at small parameters, where the other overtakes, what
    is certain; certain crossings first, then the others."""
    table = comparison.patterns
    symbol = SYMBOLS[comparison.options["family"]]
    keys = pd.DataFrame({"a": ~table["certain"], "b": table["crossings"] == 0})
    shown = table.loc[keys.sort_values(["a", "b"], kind="stable").index].head(PAIRS)
    certain = {d: certain_spans(comparison, d) for d in comparison.datasets}
    overtaken = []
    for row in shown.itertuples():
        where = "equal" if row.tied else "never"
        if row.crossings and not row.tied:
            more = f" and {row.crossings - 1} more" if row.crossings > 1 else ""
            where = f"{_at(comparison, row)}{more}"
        overtaken.append(where)
    columns = [
        doc.names(f"ahead at small {symbol}", shown["method"], "method"),
        doc.names("against", shown["against"]),
        Column("overtaken above", overtaken, "<"),
    ]
    if len(comparison.datasets) > 1:
        columns.insert(0, doc.names("dataset", shown["dataset"]))
    if any(map(comparison.tested_on, comparison.datasets)):
        rows = [*shown.itertuples()]
        better = [certain[r.dataset].get((r.method, r.against), "") for r in rows]
        worse = [certain[r.dataset].get((r.against, r.method), "") for r in rows]
        note = f"Certainly: corrected for all {symbol} and all pairs."
        columns += [
            Column("certainly better", better, "<", keep=2),
            Column("certainly worse", worse, "<", keep=2, note=note),
        ]
    return doc.Table(
        columns, len(table), "Every pair", "profiles", things="pairs", most=AT_ONCE, shown=PANELS
    )


def awareness_table(comparison: ProfileComparison) -> doc.Table:
    """One row a method, the flattest first: means over datasets of its summaries."""
    means = comparison.awareness_means
    shown = means.head(METHODS)
    columns = [doc.names("method", shown.index)]
    for summary, head in SUMMARIES.items():
        keep = 1 if summary in ("hamming", "subset") else 2
        columns.append(doc.alike(head, shown[summary], 3, keep=keep))
    shared, every = comparison.shared_awareness.index.unique("dataset"), comparison.datasets
    notes = []
    if not comparison.same_datasets:
        notes.append("No dataset is shared by all methods: the means cannot be compared.")
    elif len(shared) < len(every):
        notes.append(f"Means over {len(shared)} of {len(every)} datasets that all methods share.")
    if comparison.options["kind"] == "soft":
        notes.append("Losses of scores, not of the label sets that follow from them.")
    title = "How aware of the dependence of labels each method is"
    return doc.Table(
        columns, len(means), title, key="awareness", things="methods", note=" ".join(notes), most=15
    )


def data(comparison: ProfileComparison) -> Data:
    return {"profiles": {**_record(comparison), "sentences": sentences(described(comparison))}}


def frames(comparison: ProfileComparison) -> Frames:
    return comparison.frames


def _record(comparison: ProfileComparison) -> Data:
    """A comparison of profiles as plain data; tables as lists of rows."""
    return {
        "sentences": sentences(comparison),
        **{key.removeprefix("profile_"): frame for key, frame in comparison.frames.items()},
        **doc.named(comparison, "n_labels", "absent", "warnings", "options"),
    }
