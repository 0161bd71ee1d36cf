"""The report inside a run: what one method reached on one dataset."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
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
from mlflow_mleval.measures.registry import CLASS_SETS, LABEL_SETS, MEASURES, ONE_LABEL
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    ALWAYS,
    PAGE,
    Column,
    Data,
    Figure,
    Frames,
    Provenance,
    Section,
    Table,
    Terms,
    Text,
    definitions,
    doubts,
    listed,
    name,
)
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.figures import TOP, Svg
from mlflow_mleval.report.figures.lines import (
    SCORE_CURVES_NAMED,
    profile_lines,
    reliability,
    run_folds,
    run_labels,
    score_curves,
)
from mlflow_mleval.report.text import NONE, aligned, number, terminal
from mlflow_mleval.sentences import agree, count, grouped, plural
from mlflow_mleval.validation import present

if TYPE_CHECKING:
    from mlflow_mleval.analysis.fold_protocol import FoldStatistics

# --------------------------------------------------------------------------------------------------
# The curves of one run's scores: precision against recall, ROC, and what probabilities keep of what
# they promise.


@dataclass(frozen=True)
class Curves:
    """The curves that an evaluation gives."""

    ev: Evaluation

    @cached_property
    def whole(self) -> Mapping[str, float]:
        """The areas under the curves of all label cells together."""
        counts = present(self.ev.total.counts_by_score).pooled
        return {
            "average_precision": float(counts.ap[0][0]),
            "auroc": float(counts.auroc[0][0]),
        }

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
        """The points of the curves that are drawn."""
        return self.ev.curves(list(self.areas.index[:TOP]))

    @cached_property
    def bins(self) -> pd.DataFrame:
        """What probabilities promise and what is true, all together."""
        return self.ev.reliability([])

    @property
    def together(self) -> str:
        """What the curve of all is called."""
        if present(self.ev.total.counts_by_score).n_classes == 1:
            return terminal(str(self.ev.label_names[-1]))
        return "all classes" if self.ev.kind == ONE_LABEL else "all labels"

    @cached_property
    def figures(self) -> dict[str, Svg]:
        """The drawings by name, as far as there is something to draw."""
        found = {}
        if not np.isnan(self.whole["average_precision"]):
            lines = self._lines("average_precision", ["recall", "precision"], None)
            axes = "Recall", "Precision", "average precision"
            found["precision_recall"] = score_curves(*lines, axes, "Precision against recall")
        if not np.isnan(self.whole["auroc"]):
            lines = self._lines("auroc", ["fpr", "recall"], (0.0, 0.0))
            axes = "False positive rate", "Recall (true positive rate)", "AUROC"
            found["roc"] = score_curves(*lines, axes, "ROC curves", diagonal=True)
        if len(self.bins):
            bins = self.bins[["mean_score", "share"]].to_numpy(float)
            found["reliability"] = reliability(bins, "Reliability of the probabilities")
        return found

    def _lines(
        self, area: str, columns: list[str], start: tuple[float, float] | None
    ) -> tuple[dict[str, tuple[np.ndarray, float]], list[tuple[str, np.ndarray]]]:
        """The named curves with their areas, and the others; each from its start, else from recall
        0 with the first precision.
        """

        def curve(part: pd.DataFrame) -> np.ndarray:
            found = part[columns].to_numpy(float)
            return np.vstack([[0.0, found[0, 1]] if start is None else start, found])

        micro = self.points["scope"] == MICRO
        lines = {self.together: (curve(self.points[micro]), self.whole[area])}
        others: list[tuple[str, np.ndarray]] = []
        if present(self.ev.total.counts_by_score).n_classes > 1:
            drawn: dict[Hashable, pd.DataFrame] = dict(
                iter(self.points[~micro].groupby("label", sort=False))
            )
            for i, label in enumerate(self.areas.index[:TOP]):
                text = terminal(str(label))
                value = float(self.areas[area].iloc[i])
                if np.isnan(value):
                    continue
                if i < SCORE_CURVES_NAMED:
                    lines[text + " (label)" * (text in lines)] = curve(drawn[label]), value
                else:
                    others.append((text, curve(drawn[label])))
        return lines, others


def _curves(report: RunReport) -> Section | None:
    """The curves with what they say, and the areas in numbers."""
    curves, noun = report.curves, report.noun
    if curves is None or not curves.figures:
        return None
    areas = curves.areas
    several = present(curves.ev.total.counts_by_score).n_classes > 1
    drawn = f"Thick: {curves.together}, pooled. Thin: each {noun}."
    if len(areas) > SCORE_CURVES_NAMED:
        named = f"Named: the {plural(noun)} with the lowest average precision"
        drawn = f"Thick: {curves.together}, pooled. {named}; grey: others."
    over = " Each curve joins the instances of all folds." if len(report.ev.folds) else ""
    of_one = curves.ev.kind == ONE_LABEL
    what = "instances by their highest probability" if of_one else "labels by their probability"
    share = "whose class is right" if of_one else "that is true"
    captions = {
        "precision_recall": f"{drawn}{over}" if several else over,
        "roc": "Scores that tell nothing would follow the dashed line.",
        "reliability": (
            f"A dot is one of {count(len(curves.bins), 'bin')} of {what}: their mean, and the "
            f"share {share}. Below the dashed line probabilities are too high, above it too low."
        ),
    }
    shown = areas.head(_LABELS)
    heads = {
        "average_precision": "average precision",
        "auroc": "AUROC",
        "brier_score": "Brier score",
    }
    columns = [doc.names(noun, shown.index), doc.counts("support", shown["support"])]
    columns += [doc.decimals(head, shown[c], 3) for c, head in heads.items() if c in shown]
    title = "Areas in numbers, the lowest first"
    table = Table(columns, len(areas), title=title, things=plural(noun), folded=True, depth=PAGE)
    blocks = [
        Figure(svg, captions[which], table if several and which == "precision_recall" else None)
        for which, svg in curves.figures.items()
    ]
    return Section("curves", "Curves", blocks, hint="precision and recall, ROC, reliability")


#: Of more labels than these, not every k of a loss profile is computed; of that many values of k
#: stand in its table.
_PARAMETERS = 1_000
_SHOWN = 30
#: More rows than these are left to the files beside the report.
_LABELS = 200
_FOLDS = 30
_ERRORS = 20
#: What the lines of a profile are called.
KINDS = {"soft": "scores", "hard": "label sets"}
#: What the measures of a family look at.
FAMILIES = {
    "example": "label sets",
    "label": "labels",
    "ranking": "order of scores",
    "dependence": "dependence",
    "cost": "seconds",
    "hierarchical-set": "classes and those above",
    "hierarchical-pair": "distances",
    "hierarchical-lca": "common ancestors",
    "one-label": "classes",
    "probability": "probabilities",
    "curve": "order of scores",
    "at-k": "highest scores",
    "further-label": "labels",
    "hierarchical-level": "levels of classes",
    "hierarchical-threshold": "all thresholds",
}
#: The measures that lead, in the order of preference, and how a sentence begins that gives them.
_LEADS = {
    "top1_accuracy": "The share of instances whose class is predicted is {}",
    "f1": "The mean F1 of an instance is {}",
    "h_f1": "The mean hierarchical F1 of an instance is {}",
    "lca_f1": "The mean LCA-based F1 of an instance is {}",
    "hamming_loss": "The share of wrong label cells is {}",
}
#: Families of which a reader misses a measure that is not there.
_EXPECTED = {
    LABEL_SETS: ("ranking", "dependence"),
    ONE_LABEL: ("probability", "curve"),
    CLASS_SETS: (),
}
_AGAIN = (
    "import json\nfrom zipfile import ZipFile\nfrom mlflow_mleval import Evaluation\n"
    'ev = Evaluation.from_dict(json.loads(ZipFile("data.zip").read("evaluation.json")))'
)


@dataclass(frozen=True)
class RunReport:
    """Everything that the report of one run may say."""

    ev: Evaluation
    method: str  #: empty where nobody says, like the dataset
    dataset: str
    means: Mapping[str, float]  #: the values that count: means over folds where there are folds
    statistics: FoldStatistics | None = None  #: of the folds, if there are at least two
    hierarchy: Hierarchy | None = None  #: the classes, to show labels by their place
    provenance: Provenance = field(default_factory=dict)
    time: str = ""
    remarks: tuple[str, ...] = ()  #: further doubts
    portable: bool = True  #: whether the Evaluation itself lies beside the report

    @classmethod
    def of(cls, ev: Evaluation, method: str = "", dataset: str = "") -> RunReport:
        """What an Evaluation by itself says, with folds as of one cross-validation."""
        means = ev.folds.mean(skipna=False).dropna().to_dict() if len(ev.folds) else ev.measures
        statistics = None
        if len(ev.folds) > 1:
            from mlflow_mleval.analysis.fold_protocol import fold_statistics

            statistics = fold_statistics(ev.folds)
        return cls(ev, method, dataset, means, statistics, ev.taxonomy, portable=False)

    @property
    def title(self) -> str:
        """What was evaluated on what."""
        return " on ".join(map(name, filter(None, (self.method, self.dataset)))) or "Evaluation"

    @property
    def size(self) -> list[str]:
        """How many instances, labels (or classes) and folds."""
        counts = {
            "instance": self.ev.total.n,
            self.noun: len(self.ev.label_names),
            "fold": len(self.ev.folds),
        }
        return [count(n, what) for what, n in counts.items() if n]

    @property
    def decision(self) -> str:
        """How labels were predicted, and under which conventions."""
        cut = self.ev.threshold
        least = "a threshold of their own" if isinstance(cut, tuple) else number(cut)
        if self.ev.kind == ONE_LABEL:
            if cut is not None:
                return f"the second class where its score is above {least}"
            given = "y_pred" in self.ev.inputs
            return "classes as given" if given else "the class with the highest score"
        rule = "label sets as given" if cut is None else f"labels with a score of at least {least}"
        return f"{rule}, conventions {self.ev.conventions}"

    @property
    def flat(self) -> bool:
        """Whether label matrices were given, and not sets of classes or one class."""
        return self.ev.kind == LABEL_SETS

    @property
    def noun(self) -> str:
        """What is predicted."""
        return "class" if self.ev.kind == ONE_LABEL else "label"

    @property
    def lead(self) -> str | None:
        """The measure that leads."""
        return next((m for m in _LEADS if m in self.means), None)

    @cached_property
    def labels(self) -> pd.DataFrame:
        """The labels that occur or are predicted, the worst first: lowest F1, then most
        instances.
        """
        table = self.ev.labels
        table = table[(table["support"] > 0) | (table["predicted"] > 0)]
        return table.sort_values(["f1", "support"], ascending=[True, False], kind="stable")

    @cached_property
    def measures(self) -> pd.DataFrame:
        """One row a measure in the registry's order: value, half the corrected interval, extremes
        over folds, all together.

        The interval from ci_low to ci_high is that of all instances together.
        """
        table = pd.DataFrame(
            {"value": self.means, "whole": self.ev.measures},
            index=list(self.ev.measures),
            dtype=float,
        )
        half = low = high = pd.Series(dtype=float)
        if self.statistics is not None:
            folds = self.ev.folds
            found = self.statistics.table
            half = found["corrected_high"] - found["mean"]
            low = folds.min()
            high = folds.max()
        return table.assign(
            half=half, low=low, high=high, **self.intervals.table[["ci_low", "ci_high"]]
        )

    @cached_property
    def intervals(self) -> MeasureIntervals:
        """What other instances would give, with the models as they were trained."""
        return measure_intervals(self.ev)

    @cached_property
    def profiles(self) -> dict[str, Profile]:
        """The binomial loss profiles over all instances, by kind; none of class sets or of one
        label.
        """
        n = len(self.ev.label_names)
        if not self.flat or n < 2:
            return {}
        kinds = ["hard", "soft"] if self.ev.total.errors is not None else ["hard"]
        ks = np.unique(np.linspace(1, n, min(n, _PARAMETERS)).round().astype(int))
        return {kind: self.ev.profile("binomial", ks=ks, kind=kind) for kind in kinds}

    @cached_property
    def curves(self) -> Curves | None:
        """The curves of the scores, if their counts were kept."""
        return None if self.ev.total.counts_by_score is None else Curves(self.ev)

    @cached_property
    def figures(self) -> dict[str, Svg]:
        """The drawings by name, as far as there is something to draw."""
        found: dict[str, Svg] = {}
        if len(self.labels):
            found["labels"] = run_labels(self.labels)
        if self.curves is not None:
            found |= self.curves.figures
        if self.profiles:
            curves = {
                KINDS[k]: pd.DataFrame({"loss": p.losses}, p.parameters)
                for k, p in self.profiles.items()
            }
            found["profile"] = profile_lines(
                pd.concat(curves).assign(low=np.nan, high=np.nan), "binomial", "Loss profile"
            )
        bounded = [m for m in self.ev.folds if MEASURES[m].range == (0, 1)]
        if self.statistics is not None and bounded:
            found["folds"] = run_folds(self.ev.folds[bounded], self.means)
        return found

    def doubts(self) -> list[str]:
        """What a reader must know before believing the numbers."""
        found = [*self.remarks, *map(_sentence, self.ev.warnings)]
        if self.statistics is not None:
            found += map(_sentence, self.statistics.warnings)
            if left := self.statistics.left_out:
                found.append(f"Some fold does not give {listed(left)}: no mean over folds is told.")
        if len(self.ev.folds) and self.flat:
            total = self.ev.total.by_label[2]
            if without := int(
                np.any(
                    [(s.by_label[2] == 0) & (total > 0) for s in self.ev.sums.values()], axis=0
                ).sum()
            ):
                found.append(
                    f"Of the labels that occur in the data, {without:,} lack any instance in at "
                    "least one fold; what they count in that fold's macro averages is "
                    "convention."
                )
        return [
            *found,
            *(
                f"Not computed, for {reason}: {listed(ms, 8)}."
                for reason, ms in self._absent().items()
            ),
        ]

    def _absent(self) -> dict[str, list[str]]:
        """Measures that are missing against expectation, by reason; nobody expects hierarchical
        ones without a hierarchy.
        """
        absent = self.ev.absent.items()
        return grouped((reason, m) for m, reason in absent if self._is_missed(m, reason))

    def _is_missed(self, measure: str, reason: str) -> bool:
        ev, family = self.ev, MEASURES[measure].family
        if ev.hierarchy is not None and family.startswith("hierarchical") and "asked" not in reason:
            return True
        fits = ev.kind in MEASURES[measure].kinds and family in _EXPECTED[ev.kind]
        return fits or measure in ev.asked

    def place(self, label: Hashable) -> list[Hashable]:
        """Where a label stands in the hierarchy: a path from a root down to it."""
        path = [label]
        while parents := present(self.hierarchy).parents(path[-1]):
            path.append(min(parents, key=str))
        return path[::-1]


def document(report: RunReport | Evaluation, provenance: Provenance | None = None) -> Document:
    """The report of one run; of an Evaluation, `provenance` names the method and the dataset."""
    if isinstance(report, Evaluation):
        report = RunReport.of(report, **(provenance or {}))
    found = [
        make(report)
        for make in (measures, _labels, _curves, _profile, _hierarchy, _folds, _provenance)
    ]
    return Document(
        report.title,
        [
            _summary(report),
            *doubts(report.doubts()),
            *(section for section in found if section is not None),
        ],
        about=" · ".join(filter(None, [*report.size, report.decision, report.time])),
        time=report.time,
        data=lambda: data(report),
        frames=lambda: frames(report),
        main="measures",
    )


def data(report: RunReport) -> Data:
    ev = report.ev
    folds = {str(fold): row.dropna().to_dict() for fold, row in ev.folds.iterrows()}
    about = {
        "method": report.method,
        "dataset": report.dataset,
        **ev.statistics,
        "conventions": ev.conventions,
    }
    known = report.intervals.table[["ci_low", "ci_high"]].dropna().to_dict("index")
    found = {"measures": report.means, "intervals": known, "folds": folds, "absent": ev.absent}
    return {**about, **found, "warnings": list(ev.warnings)}


def frames(report: RunReport) -> Frames:
    rows = [
        (m, value, MEASURES[m].direction, MEASURES[m].family) for m, value in report.means.items()
    ]
    found = pd.DataFrame(rows, columns=["measure", "value", "better", "family"])
    found = found.join(report.intervals.table[["ci_low", "ci_high"]], on="measure")
    tables = {
        "measures": found,
        "labels": report.ev.labels.reset_index(),
        "folds": report.ev.folds.reset_index(),
    }
    return tables | (
        {}
        if report.curves is None
        else {"curves": report.curves.points, "reliability": report.curves.bins}
    )


def _summary(report: RunReport) -> Section:
    """The answer in a few sentences, the most important first."""
    parts = (_lead, _cardinality, _majority, _lowest, _confused, _extremes)
    found = [text for make in parts if (text := make(report))]
    return Section(
        "verdict", "In short", [Text([f"{text}." for text in found], "lead", depth=ALWAYS)]
    )


def description(report: RunReport) -> str:
    """The summary and the doubts as Markdown: what MLflow shows on the run's page."""
    about = " · ".join([*report.size, report.decision])
    return Document(
        report.title, [_summary(report), *doubts(report.doubts())], about=about
    ).to_markdown()


def _lead(report: RunReport) -> str:
    means = report.means
    lead = report.lead
    parts = []
    if lead:
        value = means[lead]
        half = report.measures.loc[lead, "half"]
        ends = [value - half, value + half] if half >= 0 else []
        if report.statistics is None and report.measures.loc[lead, "ci_low"] >= 0:
            ends = report.measures.loc[lead, ["ci_low", "ci_high"]]
        interval = " (95% interval {} to {})".format(*aligned(ends)) if len(ends) else ""
        parts.append(_LEADS[lead].format(number(value) + interval))
    if report.ev.kind == ONE_LABEL:
        names = {
            "balanced_accuracy": "balanced accuracy",
            "macro_f1": "macro F1",
            "macro_auroc": "macro AUROC",
        }
        return "; ".join(
            [*parts, *(f"{what} {number(means[m])}" for m, what in names.items() if m in means)]
        )
    exact = "subset_accuracy" if "subset_accuracy" in means else "exact_match"
    told = {exact: "label sets are exactly right", "hamming_loss": "single labels are wrong"}
    return "; ".join(
        [
            *parts,
            *(
                f"{_percent(means[m])} of the {what}"
                for m, what in told.items()
                if m in means and m != lead
            ),
        ]
    )


def _cardinality(report: RunReport) -> str:
    if report.ev.kind == ONE_LABEL:
        return ""
    found = report.ev.statistics
    means = report.means
    predicted, true = (number(found[f"cardinality_{which}"], 3) for which in ("pred", "true"))
    text = f"On average {predicted} labels of an instance are predicted where {true} are true"
    kind = "micro_" if "micro_recall" in means else "micro_h_"
    if {f"{kind}precision", f"{kind}recall"} <= means.keys():
        right, reached = (_percent(means[f"{kind}{what}"]) for what in ("precision", "recall"))
        text += (
            f"; {right} of the predicted labels are right, and {reached} of the true ones are "
            "predicted"
        )
    return text


def _majority(report: RunReport) -> str:
    if report.ev.kind != ONE_LABEL:
        return ""
    table = report.labels
    share = _percent(table["support"].max() / report.ev.total.size)
    kappa = (
        f"; Cohen's κ, the agreement beyond chance, is {number(report.means['kappa'])}"
        if "kappa" in report.means
        else ""
    )
    return (
        f"Always the most frequent class, {name(table['support'].idxmax())}, would be right for "
        f"{share}{kappa}"
    )


def _confused(report: RunReport) -> str:
    """The pairs of classes that are confused most often."""
    if report.ev.kind != ONE_LABEL:
        return ""
    pairs = present(report.ev.total.classes).confusion.tocoo()
    wrong = np.flatnonzero((pairs.row != pairs.col) & (pairs.data > 0))
    most = sorted(wrong, key=lambda i: (-pairs.data[i], pairs.row[i], pairs.col[i]))[:3]
    names = report.ev.label_names
    weighted = report.ev.total.weight is not None
    counted = [number(n) if weighted else f"{n:,}" for n in pairs.data]
    told = [
        f"{name(names[pairs.row[i]])} taken for {name(names[pairs.col[i]])} ({counted[i]})"
        for i in most
    ]
    return f"The most frequent errors are {', '.join(told)}" if told else ""


def _lowest(report: RunReport) -> str:
    table = report.labels[report.labels["support"] > 0]
    never = int((table["tp"] == 0).sum())
    named = [f"{name(label)} ({number(row['f1'], 3)})" for label, row in table.head(3).iterrows()]
    noun = report.noun
    text = f"The {plural(noun)} with the lowest F1 are {', '.join(named)}"
    if never:
        are = agree(never, "is")
        text += f"; {count(never, noun)} of {len(table):,} that occur {are} never found"
    return text if len(table) > 1 else ""


def _extremes(report: RunReport) -> str:
    if report.statistics is None or report.lead is None:
        return ""
    column = report.ev.folds[report.lead]
    low, high = aligned([column.min(), column.max()])
    worst = name(column.idxmin())
    best = name(column.idxmax())
    if MEASURES[report.lead].direction == "min":
        worst, best = best, worst
    return (
        f"Over {len(column)} folds {report.lead} lies between {low} and {high}: best in fold "
        f"{best}, worst in fold {worst}"
    )


def measures(report: RunReport) -> Section:
    """Every measure, with what the folds say of it."""
    table = report.measures
    folds = report.statistics
    keys = ["value", "half", "low", "high", "whole", "ci_low", "ci_high"]
    cells = pd.DataFrame([aligned(row) for row in table[keys].to_numpy()], columns=keys)
    head = "value" if folds is None else "mean"
    note = "↑ larger is better, ↓ smaller is."
    columns = [
        doc.names("measure", [f"{m} {MEASURES[m].arrow}" for m in table.index]),
        Column(head, [*cells["value"]], note=note),
    ]
    if folds is not None:
        note = (
            f"Mean over {count(folds.n_folds, 'fold')} with a 95% interval, each alone, that "
            "allows for training data they share; smallest and largest fold; value over all "
            "instances together."
        )
        half = ["" if h == NONE else f"± {h}" for h in cells["half"]]
        columns += [
            Column("95%", half, keep=4, note=note),
            Column("folds", [*map(_interval_text, cells["low"], cells["high"])], keep=3),
            Column("all instances", [*cells["whole"]], keep=1),
        ]
    interval = [*map(_interval_text, cells["ci_low"], cells["ci_high"])]
    if any(interval):
        n = report.intervals.n_clusters
        together = f", by {count(n, 'cluster')} of instances" if n else ""
        note = (
            f"ci: 95% interval, each alone, of the value over all instances{together}, for others "
            "like these and the models as they are."
        )
        columns.append(Column("ci", interval, keep=4 if folds is None else 1, note=note))
    families = [FAMILIES[MEASURES[m].family] for m in table.index]
    columns.append(Column("looks at", families, "<", keep=2))
    blocks: list[Any] = [Table(columns, things="measures", depth=ALWAYS, most=len(MEASURES))]
    if notes := [*report.intervals.warnings, *_without_interval(report)]:
        blocks.append(Text(notes, "note", depth=PAGE))
    return Section("measures", "Measures", blocks, hint=f"{len(table)} of them, with directions")


def _interval_text(low: str, high: str) -> str:
    return "" if low == NONE else f"{low} – {high}"


def _without_interval(report: RunReport) -> list[str]:
    """Which measures have no interval, by reason."""
    absent = {m: why for m, why in report.intervals.absent.items() if m in report.measures.index}
    reasons = grouped((why, m) for m, why in absent.items())
    if len(reasons) == 1 and len(absent) == len(report.measures):
        return [f"No measure has an interval: {next(iter(reasons))}."]
    return [f"No interval for {listed(ms, 8)}: {why}." for why, ms in reasons.items()]


def _labels(report: RunReport) -> Section | None:
    table = report.labels
    if table.empty:
        return None
    noun = report.noun
    caption = (
        f"Of the instances with a {noun}, true or predicted: the share where it was found, missed, "
        "or predicted wrongly; the lowest F1 first."
    )
    if len(table) > TOP:
        caption += f" Drawn: {TOP} of {count(len(table), noun)}."
    if silent := len(report.ev.label_names) - len(table):
        caption += f" Not drawn: {count(silent, noun)} without a true or predicted instance."
    shown = table.head(_LABELS)
    columns = [
        doc.names(noun, shown.index),
        *(_column_of_counts(c, shown[c]) for c in ("support", "tp", "fp", "fn", "tn")),
        *(doc.decimals(c.replace("f1", "F1"), shown[c], 3) for c in ("precision", "recall", "f1")),
    ]
    numbers = Table(
        columns, len(table), title="In numbers, the lowest F1 first", things="labels", folded=True
    )
    title = "Classes" if noun == "class" else "Labels"
    return Section(
        "labels",
        title,
        [Figure(report.figures["labels"], caption, numbers)],
        hint="the worst first, with confusion counts",
    )


def _column_of_counts(head: str, values: pd.Series) -> Column:
    if (values % 1).any():  # sums of weights
        return doc.decimals(head, values, 2)
    return doc.counts(head, values)


def _profile(report: RunReport) -> Section | None:
    profiles = report.profiles
    if not profiles:
        return None
    rises = (
        f"Mean loss of {KINDS[kind]} over the degrees of dependence {number(p.area)}, rise "
        f"{number(p.slope)}."
        for kind, p in profiles.items()
    )
    caption = (
        "Binomial loss: the mean over all sets of k labels of the largest error in the set, from "
        f"the Hamming loss (k = 1) to the subset 0/1 loss (k = {len(report.ev.label_names)}). The "
        f"flatter the line, the more the errors fall on the same instances. {' '.join(rises)}"
    )
    ks = next(iter(profiles.values())).parameters
    at = np.unique(np.linspace(0, len(ks) - 1, min(len(ks), _SHOWN)).round().astype(int))
    columns = [Column("k", [*map(str, ks[at])], "<")]
    columns += [Column(KINDS[kind], aligned(p.losses[at])) for kind, p in profiles.items()]
    table = Table(columns, title="In numbers", folded=True, depth=PAGE)
    figure = Figure(report.figures["profile"], caption, table)
    return Section("profile", "Loss profile", [figure], hint="from Hamming to subset 0/1")


def _hierarchy(report: RunReport) -> Section | None:
    """How far the classes reach, level by level, and where the errors lie."""
    if report.ev.hierarchy is None:
        return None
    given = report.ev.hierarchy.items()
    told = [(k.replace("_", " "), str(v)) for k, v in given if k != "hierarchy" and v is not None]
    options = Terms(told, "Options of the hierarchical measures")
    levels = [] if report.hierarchy is None else [_levels_of_hierarchy(report)]
    hint = "classes by level, and where the errors lie"
    return Section("hierarchy", "Hierarchy", [*levels, options], hint=hint)


def _levels_of_hierarchy(report: RunReport) -> doc.Beside:
    table = report.labels
    paths = {label: report.place(label) for label in table.index}
    depth = [len(paths[label]) for label in table.index]
    sums = table.assign(classes=1).groupby(depth)[["classes", "tp", "fp", "fn"]].sum()
    tp, fp, fn = (sums[c] for c in ("tp", "fp", "fn"))
    sums.insert(1, "support", tp + fn)
    rates = {
        "precision": tp / (tp + fp),
        "recall": tp / (tp + fn),
        "F1": 2 * tp / (2 * tp + fp + fn),
    }
    columns = [
        Column("depth", [*map(str, sums.index)], "<"),
        *(_column_of_counts(c, sums[c]) for c in sums),
        *(doc.decimals(head, rate, 3) for head, rate in rates.items()),
    ]
    note = "1 is a root. Classes as they were assigned, without those above them."
    by_depth = Table(columns, title="By depth", depth=PAGE, note=note)
    errors = table.assign(errors=table["fp"] + table["fn"])
    most = errors.sort_values("errors", ascending=False, kind="stable").head(_ERRORS)
    heads = {"errors": "errors", "fp": "predicted wrongly", "fn": "missed", "support": "support"}
    places = [name(" › ".join(map(str, paths[label])), 50) for label in most.index]
    columns = [
        Column("class", places, "<"),
        *(_column_of_counts(head, most[c]) for c, head in heads.items()),
    ]
    return doc.Beside(
        [by_depth], [Table(columns, title="Classes with the most errors", depth=PAGE)]
    )


def _folds(report: RunReport) -> Section | None:
    if report.statistics is None:
        return None
    folds = report.ev.folds
    shown = folds.head(_FOLDS)
    columns = [
        doc.names("fold", shown.index),
        doc.counts("instances", report.ev.fold_sizes[shown.index]),
        *(Column(name(m), aligned(shown[m])) for m in shown),
    ]
    table = Table(
        columns, len(folds), title="All in numbers", things="folds", folded=True, depth=PAGE
    )
    others = [m for m in folds if MEASURES[m].range != (0, 1)]
    left = f" Not drawn, for their range is another: {listed(others, 8)}." if others else ""
    drawn = report.figures.get("folds")
    first = (
        table
        if drawn is None
        else Figure(drawn, f"A dot is a fold, the line its mean.{left}", table)
    )
    return Section("folds", "Folds", [first], hint=f"{len(folds)} of them, a dot each")


def _provenance(report: RunReport) -> Section:
    rows = [
        (what, name(given, 80))
        for what, given in (("method", report.method), ("dataset", report.dataset))
        if given
    ]
    rows += [
        ("predicted", report.decision),
        *((key, name(value, 120)) for key, value in report.provenance.items()),
    ]
    again = Text(
        [_AGAIN], role="pre", title="To read mleval/data.zip back", folded=True, depth=PAGE
    )
    directions = {m: MEASURES[m].direction for m in report.ev.measures}
    blocks = [Terms(rows), *([again] if report.portable else []), definitions(directions)]
    return Section("provenance", "Provenance", blocks, hint="data, conventions, versions")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _percent(share: float) -> str:
    """A share to read.

    >>> _percent(0.1234), _percent(0.00012), _percent(1.0)
    ('12.3%', '0.012%', '100%')
    """
    return f"{number(100 * share, 3 if share >= 0.001 else 2)}%"
