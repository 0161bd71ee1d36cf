"""The report inside a run: what one method reached on one dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.measure_intervals import MeasureIntervals, measure_intervals
from mlflow_mleval.evaluation import Evaluation
from mlflow_mleval.measures.curves import MICRO
from mlflow_mleval.measures.hierarchy import Hierarchy
from mlflow_mleval.measures.owa import Profile
from mlflow_mleval.measures.registry import LABEL_SETS, MEASURES, ONE_LABEL
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import ALWAYS, PAGE, Column, Data, Frames, listed, name
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.figures import TOP
from mlflow_mleval.report.figures.lines import (
    SCORE_CURVES_NAMED,
    profile_lines,
    reliability,
    score_curves,
)
from mlflow_mleval.report.text import NONE, aligned, number, terminal
from mlflow_mleval.sentences import agree, count, grouped, plural
from mlflow_mleval.validation import present

if TYPE_CHECKING:
    from mlflow_mleval.analysis.fold_protocol import FoldStatistics

_PARAMETERS = 1_000  #: of more labels, not every k of a loss profile is computed
#: More rows than these are left to the files beside the report.
_LABELS, _FOLDS, _ERRORS = 200, 30, 20
#: What the lines of a profile are called.
KINDS = {"soft": "scores", "hard": "label sets"}
#: The measures that lead, in the order of preference, and those that a sentence names beside.
_LEADS = ("top1_accuracy", "f1", "h_f1", "lca_f1", "hamming_loss")
_BESIDE = ("balanced_accuracy", "macro_f1", "subset_accuracy", "exact_match", "hamming_loss")


@dataclass(frozen=True)
class Curves:
    """The curves of an evaluation's scores: precision against recall, ROC and reliability."""

    ev: Evaluation

    @cached_property
    def whole(self) -> Mapping[str, float]:
        """The areas under the curves of all label cells together."""
        counts = present(self.ev.total.counts_by_score).pooled
        return {"average_precision": float(counts.ap[0][0]), "auroc": float(counts.auroc[0][0])}

    @cached_property
    def areas(self) -> pd.DataFrame:
        """The areas by label, of labels with instances, those with the lowest first."""
        table = self.ev.labels
        if "average_precision" not in table:
            return table[:0]
        return table[table["support"] > 0].sort_values(
            ["average_precision", "support"], ascending=[True, False], kind="stable"
        )

    @cached_property
    def points(self) -> pd.DataFrame:
        """The points of the curves that a file holds, of which the first are drawn."""
        return self.ev.curves(list(self.areas.index[:TOP]))

    @cached_property
    def bins(self) -> pd.DataFrame:
        """What probabilities promise and what is true, all together."""
        return self.ev.reliability([])

    @property
    def several(self) -> bool:
        """Whether there are curves of several classes."""
        return present(self.ev.total.counts_by_score).n_classes > 1

    @property
    def together(self) -> str:
        """What the curve of all is called."""
        if not self.several:
            return terminal(str(self.ev.label_names[-1]))
        return "all classes" if self.ev.kind == ONE_LABEL else "all labels"

    def lines(
        self, area: str, columns: list[str], start: tuple[float, float] | None
    ) -> dict[str, tuple[np.ndarray, float]]:
        """Curves with their areas, from `start`, else from recall 0 with the first precision."""

        def curve(part: pd.DataFrame) -> np.ndarray:
            found = part[columns].to_numpy(float)
            return np.vstack([[0.0, found[0, 1]] if start is None else start, found])

        micro = self.points["scope"] == MICRO
        lines = {self.together: (curve(self.points[micro]), self.whole[area])}
        if not self.several:
            return lines
        by_label = dict(iter(self.points[~micro].groupby("label", sort=False)))
        for label, value in self.areas[area].head(SCORE_CURVES_NAMED).dropna().items():
            text = terminal(label)
            text = f"{text} (label)" if text in lines else text
            lines[text] = curve(by_label[label]), float(value)
        return lines


@dataclass(frozen=True)
class RunReport:
    """Everything that the report of one run may say."""

    ev: Evaluation
    method: str  #: empty where nobody says, like the dataset
    dataset: str
    means: Mapping[str, float]  #: the values that count: means over folds where there are folds
    statistics: FoldStatistics | None = None  #: of the folds, if there are at least two
    hierarchy: Hierarchy | None = None  #: the classes, to show labels by their place
    provenance: doc.Provenance = field(default_factory=dict)
    time: str = ""
    remarks: tuple[str, ...] = ()  #: further doubts

    @classmethod
    def of(
        cls, ev: Evaluation, method: str = "", dataset: str = "", ratio: float | None = None
    ) -> RunReport:
        """What an Evaluation by itself says; `ratio` is that of its test to training data."""
        means = ev.folds.mean(skipna=False).dropna().to_dict() if len(ev.folds) else ev.measures
        statistics = None
        if len(ev.folds) > 1:
            from mlflow_mleval.analysis.fold_protocol import fold_statistics

            statistics = fold_statistics(ev.folds, test_to_train=ratio)
        return cls(ev, method, dataset, means, statistics, ev.taxonomy)

    @property
    def title(self) -> str:
        """What was evaluated on what."""
        return " on ".join(map(name, filter(None, (self.method, self.dataset)))) or "Evaluation"

    @property
    def size(self) -> list[str]:
        """How many instances, labels (or classes) and folds."""
        labels, folds = len(self.ev.label_names), len(self.ev.folds)
        counts = {"instance": self.ev.total.n, self.noun: labels, "fold": folds}
        return [count(n, what) for what, n in counts.items() if n]

    @property
    def decision(self) -> str:
        """How labels were predicted, and under which conventions."""
        cut = self.ev.threshold
        least = "a threshold of their own" if isinstance(cut, tuple) else number(cut)
        if self.one_label and cut is not None:
            return f"the second class where its score is above {least}"
        if self.one_label:
            given = "y_pred" in self.ev.inputs
            return "classes as given" if given else "the class with the highest score"
        rule = "label sets as given" if cut is None else f"labels with a score of at least {least}"
        return f"{rule}, conventions {self.ev.conventions}"

    @property
    def one_label(self) -> bool:
        """Whether each instance has one class."""
        return self.ev.kind == ONE_LABEL

    @property
    def noun(self) -> str:
        """What is predicted."""
        return "class" if self.one_label else "label"

    @cached_property
    def labels(self) -> pd.DataFrame:
        """The labels that occur or are predicted, with the lowest F1 and most instances first."""
        table = self.ev.labels
        table = table[(table["support"] > 0) | (table["predicted"] > 0)]
        return table.sort_values(["f1", "support"], ascending=[True, False], kind="stable")

    @cached_property
    def measures(self) -> pd.DataFrame:
        """One row a measure in the registry's order: value, half the corrected interval over folds,
        and that of all instances together, whose interval is from ci_low to ci_high."""
        values = {"value": self.means, "whole": self.ev.measures}
        table = pd.DataFrame(values, index=list(self.ev.measures), dtype=float)
        half = pd.Series(dtype=float)
        if self.statistics is not None:
            found = self.statistics.table
            half = found["corrected_high"] - found["mean"]
        return table.assign(half=half, **self.intervals.table[["ci_low", "ci_high"]])

    @cached_property
    def intervals(self) -> MeasureIntervals:
        """What other instances would give, with the models as they were trained."""
        return measure_intervals(self.ev)

    @cached_property
    def profiles(self) -> dict[str, Profile]:
        """The binomial loss profiles over all instances, by kind; not of classes or one label."""
        n = len(self.ev.label_names)
        if self.ev.kind != LABEL_SETS or n < 2:
            return {}
        kinds = ["hard", "soft"] if self.ev.total.errors is not None else ["hard"]
        ks = np.unique(np.linspace(1, n, min(n, _PARAMETERS)).round().astype(int))
        return {kind: self.ev.profile("binomial", ks=ks, kind=kind) for kind in kinds}

    @cached_property
    def curves(self) -> Curves | None:
        """The curves of the scores, if their counts were kept."""
        return None if self.ev.total.counts_by_score is None else Curves(self.ev)

    def doubts(self) -> list[str]:
        """What a reader must know before believing the numbers."""
        ev, warnings = self.ev, [*self.ev.warnings]
        lost = []
        if self.statistics is not None:
            warnings += self.statistics.warnings
            if left := self.statistics.left_out:
                lost = [f"Some fold does not give {listed(left)}: no mean over folds is told."]
        found = [*self.remarks, *(f"{doc.capitalised(text)}." for text in warnings), *lost]
        if len(ev.folds) and ev.kind == LABEL_SETS:
            total = ev.total.by_label[2]
            lacking = [(sums.by_label[2] == 0) & (total > 0) for sums in ev.sums.values()]
            if without := int(np.any(lacking, axis=0).sum()):
                found.append(
                    f"Of the labels that occur in the data, {without:,} lack any instance in at "
                    "least one fold; what they count in that fold's macro averages is "
                    "convention."
                )
        # nobody expects times, nor hierarchical measures without a hierarchy
        hopeless = ("cost", "hierarchical") if ev.hierarchy is None else ("cost",)
        missed = []
        for measure, why in ev.absent.items():
            known = MEASURES[measure]
            fits = ev.kind in known.kinds and not known.family.startswith(hopeless)
            if (fits and "asked" not in why) or measure in ev.asked:
                missed.append((why, measure))
        return [
            *found,
            *(f"Not computed, for {why}: {listed(ms, 8)}." for why, ms in grouped(missed).items()),
        ]


def document(report: RunReport | Evaluation, provenance: doc.Provenance | None = None) -> Document:
    """The report of one run; of an Evaluation, `provenance` names the method and the dataset."""
    if isinstance(report, Evaluation):
        report = RunReport.of(report, **(provenance or {}))
    run = report
    topics = (measures, _labels, _curves, _profile, _hierarchy, _folds)
    found = [section for make in topics if (section := make(run)) is not None]
    given = doc.named(run, "method", "dataset")
    rows = [(what, name(text, 80)) for what, text in given.items() if text]
    rows.append(("predicted", run.decision))
    rows += [(key, name(value, 120)) for key, value in run.provenance.items()]
    found.append(doc.Section("provenance", "Provenance", [doc.Terms(rows)]))
    return Document(
        run.title,
        [*beginning(run), *found],
        about=" · ".join(filter(None, [*run.size, run.decision, run.time])),
        time=run.time,
        data=lambda: data(run),
        frames=lambda: frames(run),
        main="measures",
    )


def description(report: RunReport) -> str:
    """The summary and the doubts as Markdown: what MLflow shows on the run's page."""
    about = " · ".join([*report.size, report.decision])
    return Document(report.title, beginning(report), about=about).to_markdown()


def data(report: RunReport) -> Data:
    ev = report.ev
    return {
        **doc.named(report, "method", "dataset"),
        **ev.statistics,
        **doc.named(ev, "conventions", "absent", "warnings"),
        "measures": report.means,
        "intervals": report.intervals.table[["ci_low", "ci_high"]].dropna().to_dict("index"),
        "folds": {str(fold): row.dropna().to_dict() for fold, row in ev.folds.iterrows()},
    }


def frames(report: RunReport) -> Frames:
    known = {m: (x, MEASURES[m].direction, MEASURES[m].family) for m, x in report.means.items()}
    found = pd.DataFrame.from_dict(known, "index", columns=["value", "better", "family"])
    found = found.rename_axis("measure").join(report.intervals.table[["ci_low", "ci_high"]])
    tables = {"measures": found, "labels": report.ev.labels, "folds": report.ev.folds}
    made = {key: table.reset_index() for key, table in tables.items()}
    if report.curves is not None:
        made |= {"curves": report.curves.points, "reliability": report.curves.bins}
    return made


def beginning(report: RunReport) -> list[doc.Section]:
    """The answer and the doubts, which stand on the run's page, too."""
    ev, confused = report.ev, ""
    if report.one_label:
        pairs = present(ev.total.confusion).tocoo()
        wrong = np.flatnonzero((pairs.row != pairs.col) & (pairs.data > 0))
        most = sorted(wrong, key=lambda i: (-pairs.data[i], pairs.row[i], pairs.col[i]))[:3]
        names = [*map(name, ev.label_names)]
        shown = "{:,}".format if ev.total.weight is None else number
        told = [
            f"{names[pairs.row[i]]} taken for {names[pairs.col[i]]} ({shown(pairs.data[i])})"
            for i in most
        ]
        confused = f"The most frequent errors are {', '.join(told)}" if told else ""
    lowest, table = "", report.labels[report.labels["support"] > 0]
    if len(table) > 1:
        named = [f"{name(label)} ({number(f1, 3)})" for label, f1 in table["f1"].head(3).items()]
        lowest = f"The {plural(report.noun)} with the lowest F1 are {', '.join(named)}"
        if never := int((table["tp"] == 0).sum()):
            are = agree(never, "is")
            lowest += (
                f"; {count(never, report.noun)} of {len(table):,} that occur {are} never found"
            )
    texts = (_lead(report), lowest, confused)
    block = doc.Text([f"{text}." for text in texts if text], "lead", depth=ALWAYS)
    return [doc.Section("verdict", "In short", [block]), *doc.doubts(report.doubts())]


def _lead(report: RunReport) -> str:
    """The measure that leads, with its interval, and others."""
    means, parts = report.means, []
    lead = next((m for m in _LEADS if m in means), None)
    if lead:
        value, half, low, high = report.measures.loc[lead, ["value", "half", "ci_low", "ci_high"]]
        ends = [value - half, value + half] if half >= 0 else []
        if report.statistics is None and low >= 0:
            ends = [low, high]
        interval = " (95% interval {} to {})".format(*aligned(ends)) if len(ends) else ""
        parts.append(f"{lead} is {number(means[lead])}{interval}")
    beside = [m for m in _BESIDE if m in means and m != lead]
    return ", ".join([*parts, *(f"{m} {number(means[m])}" for m in beside)])


def measures(report: RunReport) -> doc.Section:
    """Every measure, with what the folds say of it."""
    table, folds = report.measures, report.statistics
    keys = ["value", "half", "whole", "ci_low", "ci_high"]
    cells = pd.DataFrame([aligned(row) for row in table[keys].to_numpy()], columns=keys)
    note = "↑ larger is better, ↓ smaller is."
    columns = [
        doc.names("measure", [f"{m} {MEASURES[m].arrow}" for m in table.index]),
        Column("value" if folds is None else "mean", [*cells["value"]], note=note),
    ]
    if folds is not None:
        note = (
            f"Mean over {count(folds.n_folds, 'fold')} with a 95% interval, each alone, that "
            "allows for training data they share; value over all instances together."
        )
        half = ["" if h == NONE else f"± {h}" for h in cells["half"]]
        columns += [
            Column("95%", half, keep=4, note=note),
            Column("all instances", [*cells["whole"]], keep=1),
        ]
    ends = zip(cells["ci_low"], cells["ci_high"], strict=True)
    if any(interval := ["" if low == NONE else f"{low} – {high}" for low, high in ends]):
        n = report.intervals.n_clusters
        together = f", by {count(n, 'cluster')} of instances" if n else ""
        note = (
            f"ci: 95% interval, each alone, of the value over all instances{together}, for others "
            "like these and the models as they are."
        )
        columns.append(Column("ci", interval, keep=4 if folds is None else 1, note=note))
    absent = grouped((why, m) for m, why in report.intervals.absent.items() if m in table.index)
    without = (f"No interval for {listed(ms, 8)}: {why}." for why, ms in absent.items())
    made = doc.Table(columns, things="measures", depth=ALWAYS, most=len(MEASURES))
    blocks = [made, *map(doc.note, [*report.intervals.warnings, *without])]
    return doc.Section("measures", "Measures", blocks)


def _labels(report: RunReport) -> doc.Section | None:
    table, noun = report.labels, report.noun
    if table.empty:
        return None
    shown = table.head(_LABELS)
    columns = [
        doc.names(noun, shown.index),
        *_counts(shown, "support", "tp", "fp", "fn", "tn"),
        *(doc.decimals(c.replace("f1", "F1"), shown[c], 3) for c in ("precision", "recall", "f1")),
    ]
    note = "The lowest F1 first."
    if silent := len(report.ev.label_names) - len(table):
        note += f" Left out: {count(silent, noun)} without a true or predicted instance."
    made = doc.Table(columns, len(table), things=plural(noun), note=note)
    return doc.Section("labels", "Classes" if report.one_label else "Labels", [made])


def _counts(table: pd.DataFrame, *columns: str, **heads: str) -> list[Column]:
    """Columns of counts, or of sums of weights."""
    made = []
    for key in columns:
        values, head = table[key], heads.get(key, key)
        weights = (values % 1).any()
        made.append(doc.decimals(head, values, 2) if weights else doc.counts(head, values))
    return made


def _curves(report: RunReport) -> doc.Section | None:
    """The curves with what they say, and the areas in numbers."""
    curves, noun = report.curves, report.noun
    if curves is None:
        return None
    areas = curves.areas
    lowest = f"the {plural(noun)} with the lowest average precision"
    drawn = f"Thick: {curves.together}, pooled. Thin: {lowest}."
    over = " Each curve joins the instances of all folds." if len(report.ev.folds) else ""
    blocks: list[Any] = []
    if not np.isnan(curves.whole["average_precision"]):
        lines = curves.lines("average_precision", ["recall", "precision"], None)
        heads = "Recall", "Precision", "average precision"
        svg = score_curves(lines, heads, "Precision against recall")
        caption = f"{drawn}{over}" if curves.several else over
        shown = areas.head(_LABELS)
        known = {"average_precision": "average precision", "auroc": "AUROC"}
        known |= {"brier_score": "Brier score"}
        columns = [doc.names(noun, shown.index), doc.counts("support", shown["support"])]
        columns += [doc.decimals(head, shown[c], 3) for c, head in known.items() if c in shown]
        title, things = "Areas in numbers, the lowest first", plural(noun)
        table = doc.Table(columns, len(areas), title, things=things, folded=True, depth=PAGE)
        blocks += [doc.Figure(svg, caption), *([table] if curves.several else [])]
    if not np.isnan(curves.whole["auroc"]):
        lines = curves.lines("auroc", ["fpr", "recall"], (0.0, 0.0))
        heads = "False positive rate", "Recall (true positive rate)", "AUROC"
        svg = score_curves(lines, heads, "ROC curves", diagonal=True)
        blocks.append(doc.Figure(svg, "Scores that tell nothing would follow the dashed line."))
    if len(curves.bins):
        what, share = "labels by their probability", "that is true"
        if report.one_label:
            what, share = "instances by their highest probability", "whose class is right"
        caption = (
            f"A dot is one of {count(len(curves.bins), 'bin')} of {what}: their mean, and the "
            f"share {share}. Below the dashed line probabilities are too high, above it too low."
        )
        bins = curves.bins[["mean_score", "share"]].to_numpy(float)
        svg = reliability(bins, "Reliability of the probabilities")
        blocks.append(doc.Figure(svg, caption))
    return doc.Section("curves", "Curves", blocks) if blocks else None


def _profile(report: RunReport) -> doc.Section | None:
    profiles = report.profiles
    if not profiles:
        return None
    caption = (
        "Binomial loss: the mean over all sets of k labels of the largest error in the set, from "
        f"the Hamming loss (k = 1) to the subset 0/1 loss (k = {len(report.ev.label_names)}). The "
        f"flatter the line, the more the errors fall on the same instances."
    )
    losses = {KINDS[kind]: pd.Series(p.losses, p.parameters) for kind, p in profiles.items()}
    curves = pd.DataFrame({"loss": pd.concat(losses), "low": np.nan, "high": np.nan})
    figure = doc.Figure(profile_lines(curves, "binomial", "Loss profile"), caption)
    return doc.Section("profile", "Loss profile", [figure])


def _hierarchy(report: RunReport) -> doc.Section | None:
    """The options of the measures, and where the errors lie."""
    if report.ev.hierarchy is None:
        return None
    given = report.ev.hierarchy.items()
    told = [(k.replace("_", " "), str(v)) for k, v in given if k != "hierarchy" and v is not None]
    blocks: list[Any] = [doc.Terms(told, "Options of the hierarchical measures")]
    if report.hierarchy is not None:
        errors = report.labels.assign(errors=report.labels["fp"] + report.labels["fn"])
        most = errors.sort_values("errors", ascending=False, kind="stable").head(_ERRORS)
        places = []
        for label in most.index:
            path = [label]
            while parents := report.hierarchy.parents(path[-1]):
                path.append(min(parents, key=str))
            places.append(name(" › ".join(map(str, path[::-1])), 50))
        heads = {"fp": "predicted wrongly", "fn": "missed"}
        counted = _counts(most, "errors", "fp", "fn", "support", **heads)
        columns = [Column("class", places, "<"), *counted]
        blocks.insert(0, doc.Table(columns, title="Classes with the most errors", depth=PAGE))
    return doc.Section("hierarchy", "Hierarchy", blocks)


def _folds(report: RunReport) -> doc.Section | None:
    if report.statistics is None:
        return None
    folds = report.ev.folds
    shown = folds.head(_FOLDS)
    columns = [
        doc.names("fold", shown.index),
        doc.counts("instances", report.ev.fold_sizes[shown.index]),
        *(doc.alike(name(m), shown[m]) for m in shown),
    ]
    table = doc.Table(columns, len(folds), things="folds", depth=PAGE)
    return doc.Section("folds", "Folds", [table])
