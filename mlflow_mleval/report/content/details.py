"""A closer look at one thing in a comparison: a method, a dataset, a cell (a method on a dataset),
or a pair of methods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

import pandas as pd

from mlflow_mleval.analysis import recommendation as part
from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import ALWAYS, IMPUTED, Column, listed, name
from mlflow_mleval.report.content import profiles as along
from mlflow_mleval.report.content import units
from mlflow_mleval.report.content.decision import deciding_test
from mlflow_mleval.report.content.ranking import grid
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.figures.lines import ratio_panels
from mlflow_mleval.report.text import aligned, confidence, fixed, number, terminal
from mlflow_mleval.sentences import count, some
from mlflow_mleval.validation import one_of

#: Measures in a table that has a column for each, those of most weight; runs and folds that stand
#: open on a page; rows of a table.
MEASURES = 6
RUNS, FOLDS = 3, 12
ROWS = 500
KINDS = ("method", "dataset", "cell", "pair")
#: How the values of a cell scatter, and what is known of a run: columns and their heads.
_SCATTER = {
    "sd": ("± sd", "± sd: over repeats; SE: standard error of their mean."),
    "standard_error": ("SE", ""),
    "fold_sd": ("sd over folds", ""),
}
_FACTS = {
    "dataset": "dataset",
    "experiment": "experiment",
    "status": "status",
    "repeat": "seed",
    "start_time": "started",
}


def document(
    c: Comparison,
    provenance: doc.Provenance,
    *,
    method: str = "",
    dataset: str = "",
    against: str = "",
) -> Document:
    """The details of a method, of a dataset, of a method on a dataset, or of a method against
    another.
    """
    of = "pair" if against else "cell" if method and dataset else "method" if method else "dataset"
    found = section(c, of, method=method, dataset=dataset, against=against)
    first = " on ".join(name(x) for x in (method, dataset) if x)
    title = f"{first} against {name(against)}" if against else first
    return Document.of(provenance, title, [found])


def section(
    c: Comparison,
    of: str,
    *,
    method: str = "",
    dataset: str = "",
    against: str = "",
    base: str = "",
) -> doc.Section:
    """The same as a section, `of` one of `KINDS`; with the address of a server as `base`, runs lead
    to MLflow's pages.

    A name may be given as it is or as it is shown. IncomparableRunsError where the comparison has
    none such.
    """
    one_of(of, "of", KINDS)
    if of == "dataset":
        blocks = _dataset(c, _known_name(dataset, c.study.datasets, "dataset"))
        return doc.Section("detail", "A closer look", blocks, open=True)
    first = _known_name(method, c.study.methods, "method")
    if of == "pair":
        other = _known_name(against, c.study.methods, "method")
        if first == other:
            raise IncomparableRunsError(f"a pair needs two methods, got {terminal(first)!r} twice.")
        blocks = _pair(c, first, other)
    elif of == "cell":
        blocks = _cell(c, first, _known_name(dataset, c.study.datasets, "dataset"), base)
    else:
        blocks = _method(c, first, base)
    return doc.Section("detail", "A closer look", blocks, open=True)


def _known_name(asked: str, names: Sequence[str], what: str) -> str:
    found = [n for n in names if n == asked] or [n for n in names if terminal(n) == asked]
    if len(found) != 1:
        has = some(map(terminal, names))
        raise IncomparableRunsError(
            f"the comparison has no {what} {terminal(asked)!r}; it has {has}."
        )
    return found[0]


def _flow(texts: Sequence[str]) -> doc.Text:
    return doc.Text(texts, role="flow", depth=ALWAYS)


def _open_table(columns: Sequence[Column], title: str, **more: Any) -> doc.Table:
    return doc.Table(columns, title=title, depth=ALWAYS, **more)


# ---- A cell --------------------------------------------------------------------------------------


def _cell(c: Comparison, method: str, dataset: str, base: str) -> list[Any]:
    looks = (part.measures_of_cell, part.runs_of_cell, part.folds_of_cell)
    values, runs, folds = (look(c, dataset, method) for look in looks)
    imputed = [(dataset, method, m) in c.study.imputed for m in values.index]
    alone = "Rank and φ: by this measure alone, on this dataset."
    cells = doc.starred(map(number, values["value"]), imputed)
    columns = [
        *_measures(c, values.index),
        Column("value", cells, note=IMPUTED if any(imputed) else ""),
        *(
            doc.numbers(head, values[key], note=text)
            for key, (head, text) in _SCATTER.items()
            if values[key].notna().any()
        ),
        doc.numbers("rank", values["rank"], note=alone),
        doc.decimals("φ", values["phi"], 2),
    ]
    study, who = c.study, f"{name(method)} on {name(dataset)}"
    repeats = 0 if study.repeats is None else int(study.n_repeats.get((dataset, method), 0))
    made_of = "those of one run" if len(runs) else "as given"
    made_of = f"means over {repeats} runs" if repeats > 1 else made_of
    over = f", over {count(len(folds), 'fold')}" if len(folds) else ""
    about = f"The values of {who} are {made_of}{over}."
    if (dataset, method) in study.filled:
        reasons = {"dnf": "did not finish", "complete": "lacks a value of some measure"}
        why = reasons.get(study.statuses().get((dataset, method), ""), "has no result")
        about = (
            f"{who} {why}: what is missing counts as the worst of the dataset (policy "
            f"{study.missing})."
        )
    blocks: list[Any] = [
        _flow([about]),
        _open_table(columns, "Values", most=len(values)),
    ]
    if len(runs):
        blocks.append(_runs(c, runs, _heaviest(c), base))
    if total := len(folds):
        kept = [m for m in _heaviest(c) if m in folds]
        table = grid(folds[kept].iloc[:ROWS], "fold", _narrow(c, kept), number, title="By fold")
        blocks.append(replace(table, total=total, things="folds", folded=total > FOLDS))
    return blocks


def _runs(c: Comparison, runs: pd.DataFrame, measures: Sequence[str], base: str) -> doc.Table:
    """The runs, which lead to MLflow's pages where the server is known, and what is known of
    them.
    """
    shown = runs.head(ROWS)
    experiments = shown.get("experiment_id", [None] * len(shown))
    links = []
    for run, experiment in zip(map(str, shown["run_id"]), experiments, strict=True):
        place = f"#/experiments/{quote(str(experiment), safe='')}/runs/{quote(run, safe='')}"
        there = base and isinstance(experiment, str)
        address = f"{base}{place}?workflowType=machine_learning"
        links.append(doc.Link.to(run, address if there else ""))
    columns = [Column("run", links, "<")]
    facts = shown.reindex(columns=[*_FACTS]).astype(object).fillna("")
    for key, values in facts.items():
        cells = [f"{x:%Y-%m-%d %H:%M}" if isinstance(x, pd.Timestamp) else str(x) for x in values]
        if any(cells) and (key != "dataset" or len({*cells}) > 1):  # a cell is of one
            strange = key if key in ("dataset", "experiment") else ""
            columns.append(Column(_FACTS[key], cells, "<", name=strange))
    held = {m: shown[m] for m in measures if m in shown}
    columns += _by_weight(c, {m: aligned(values) for m, values in held.items()})
    return doc.Table(columns, len(runs), title="Runs", things="runs", depth=ALWAYS)


# ---- A method ------------------------------------------------------------------------------------


def _method(c: Comparison, method: str, base: str) -> list[Any]:
    study, ranks, runs = c.study, c.ranks[method], c.study.n_repeats
    gaps = {m: [(d, method, m) in study.imputed for d in ranks.index] for m in _heaviest(c)}
    values = {m: doc.starred(aligned(study.cells(m)[method]), gaps[m]) for m in gaps}
    columns = [
        doc.names("dataset", ranks.index, about={"method": method}),
        doc.numbers("rank", ranks),
        doc.decimals("φ", c.fusion.phi[method], 3),
        *_by_weight(c, values),
    ]
    if len(runs):
        columns.append(doc.numbers("runs", (runs.get((d, method)) for d in ranks.index)))
    note = IMPUTED if any(map(any, gaps.values())) else ""
    measures = part.measures_of_method(c, method)
    places = [*map(str, measures["place"])]
    by_measure = [
        *_measures(c, measures.index),
        doc.decimals("weight", measures["weight"], 3),
        doc.decimals("φ", measures["phi"], 2),
        doc.decimals("mean rank", measures["mean_rank"], 2),
        Column("place", places, note="φ, mean rank and place: by it alone."),
    ]
    row = c.ranking.set_index("method").loc[method]
    what = "by all measures fused" if c.on == FUSED else f"by {name(c.on)}"
    rank = f"a mean rank of {fixed(row['mean_rank'], 2)} over {count(len(ranks), 'dataset')}"
    place = f"place {row['position']} of {len(c.order)} {what}"
    blocks: list[Any] = [
        _flow([f"{name(method)} has {place}, with {rank}."]),
        _open_table(columns, "On each dataset", things="datasets", note=note),
        _open_table(by_measure, "By each measure", most=len(measures)),
    ]
    if c.deciding is not None:
        pairs = part.pairs_of(c, method)
        apart = dict.fromkeys(c.separated, "better")
        apart |= {(worse, better): "worse" for better, worse in c.separated}
        against = [
            doc.names("against", pairs["method_b"], about={"method": method}),
            *units.differences(c, pairs),
            doc.pvalues("p", pairs[c.deciding.test.column], note=f"p: {deciding_test(c)}."),
            Column(
                "separated", [apart.get((method, other), "") for other in pairs["method_b"]], "<"
            ),
            doc.won_tied_lost(pairs),
        ]
        blocks.append(_open_table(against, "Against the others", things="methods"))
    of_method = study.runs[study.runs["method"] == method] if len(study.runs) else ()
    if base and len(of_method):
        blocks.append(replace(_runs(c, of_method, [], base), folded=len(of_method) > RUNS))
    return blocks


# ---- A dataset -----------------------------------------------------------------------------------


def _dataset(c: Comparison, dataset: str) -> list[Any]:
    fused = c.fusion.results[dataset]
    flows = fused.flows.sort_values("rank", kind="stable").head(ROWS)
    filled = [m for m in c.order if (dataset, m) in c.study.filled]
    values = {}
    for m in _heaviest(c):
        gaps = [(dataset, method, m) in c.study.imputed for method in flows.index]
        shown = aligned(c.study.cells(m).loc[dataset, flows.index])
        values[m] = doc.starred(shown, gaps)
    columns = [
        doc.numbers("rank", flows["rank"]),
        doc.names("method", flows.index, about={"dataset": dataset}),
        doc.decimals("φ", flows["phi"], 3),
        *_by_weight(c, values),
    ]
    first = flows.index[flows["rank"] == flows["rank"].iloc[0]]
    lead = "leads" if len(first) == 1 else "tie for the lead"
    among = count(len(c.fusion.phi.columns), "method")
    texts = [f"{listed(first)} {lead} by all measures fused among {among}."]
    if filled:
        missing = f"missing and count as the worst (policy {c.study.missing})"
        texts.append(f"Results of {listed(filled)} are {missing}.")
    if f"folds.{dataset}" in c.absent:
        texts.append(f"Its folds were not tested: {c.absent[f'folds.{dataset}']}")
    blocks: list[Any] = [
        _flow(texts),
        _open_table(
            columns,
            "Ranking on this dataset",
            total=len(fused.flows),
            things="methods",
            note=IMPUTED if filled else "",
        ),
    ]
    if len(c.study.measures) > 1:
        alone = fused.unicriterion.loc[flows.index]
        title = "Net flow φ by each measure alone, on this dataset"
        blocks.append(
            grid(alone, "method", _narrow(c, alone), partial(fixed, decimals=2), title=title)
        )
    for unit in ("folds", "instances"):
        if (tests := c.tests_over(unit).get(dataset)) is not None:
            blocks += units.told({dataset: tests}, doc.PAPER)
    if c.profiles is not None and dataset in c.profiles.datasets:
        blocks.append(along.curves_figure(c.profiles, dataset))
    return blocks


# ---- A pair --------------------------------------------------------------------------------------


def _pair(c: Comparison, a: str, b: str) -> list[Any]:
    measures = part.measures_of_pair(c, a, b)
    means = [aligned(row) for row in measures[["mean_a", "mean_b"]].to_numpy()]
    note = (
        f"Difference: positive where {name(a)} is better, whichever way the measure goes, with its "
        f"{confidence(c.options['alpha'])} interval, not corrected for their number. Means "
        "are over the datasets that both finished."
    )
    difference = doc.numbers("difference", measures["difference"], note=note)
    if measures["low"].notna().any():
        limits = measures[["difference", "low", "high"]]
        difference = doc.intervals("difference", limits, by_row=True, note=note)
    heads = (name(a, 18), name(b, 18))
    columns = [
        doc.names("measure", measures.index),
        difference,
        doc.won_tied_lost(measures),
        *map(Column, heads, zip(*means, strict=True)),
        doc.better(c.study.directions[m] for m in measures.index),
        doc.decimals("weight", measures["weight"], 3),
    ]
    ranks, phi = c.ranks[[a, b]], c.fusion.phi[[a, b]]
    less = f"φ difference: the net flow of {name(a)} less that of {name(b)}."
    by_dataset = [
        doc.names("dataset", ranks.index),
        *(doc.numbers(f"rank of {head}", ranks[m]) for head, m in zip(heads, ranks, strict=True)),
        doc.decimals("φ difference", phi[a] - phi[b], 3, note=less),
    ]
    rows = c.ranking.set_index("method").loc[[a, b]]
    places = [
        f"{name(m)} has place {row.position} (mean rank {fixed(row.mean_rank, 2)})"
        for m, row in rows.iterrows()
    ]
    texts = [f"{doc.joined(places)}."]
    if c.deciding is None:
        texts.append(c.decision)
    tried = None if c.stability is None else c.stability.separations
    for pair in c.separated:
        if {*pair} == {a, b} and tried is not None and pair in tried.stays:
            stays, of = tried.counts[pair]
            texts.append(f"The separation stays under {stays} of {of} other choices.")
    return [
        _flow(texts),
        *_tests(c, a, b),
        _open_table(columns, "By each measure, over the datasets", most=len(measures)),
        _open_table(by_dataset, "On each dataset", things="datasets"),
        *_profiles(c, a, b),
    ]


def _tests(c: Comparison, a: str, b: str) -> list[doc.Table]:
    """What each test says, the deciding one first: over datasets, folds and instances."""
    rows: list[tuple[str, str, float, str]] = []
    says = {True: "separated", False: "not separated"}
    made = sorted(c.posthoc, key=lambda one: one is not c.deciding)
    for row in _rows_of_pair(part.pairs_of(c, a), a, b) if c.deciding is not None else ():
        for one in made:
            apart = any({a, b} == {*pair} for pair in one.result.significant_pairs)
            wording = f"{one.wording}{' (decides)' if one is c.deciding else ''}"
            over = count(int(row["n"]), "dataset")
            rows.append((wording, over, row[one.test.column], says[apart]))
    for unit in ("folds", "instances"):
        for dataset, tests in c.tests_over(unit).items():
            for row in _rows_of_pair(tests.ordered, a, b):
                test, how = f"{tests.test}, by {name(row['measure'])}", ""
                if unit == "folds":
                    test = tests.test
                    direction = c.folds[dataset].direction(a, b, listed)
                    how = f", {name(a)} {direction}" if row["separated"] else ""
                doubt = f" (in doubt: {row['doubt']})" if row["doubt"] else ""
                over = f"{count(int(row['n']), unit[:-1])} of {name(dataset)}"
                said = f"{says[row['separated']]}{how}{doubt}"
                rows.append((test, over, row["pvalue_corrected"], said))
    if not rows:
        return []
    which, overs, pvalues, verdicts = zip(*rows, strict=True)
    columns = [
        Column("test", which, "wrap"),
        doc.pvalues("p", pvalues),
        Column("says", verdicts, "wrap"),
        Column("over", overs, "<", keep=1),
    ]
    note = "p-values are corrected as in the report, each for all that its test looks at."
    return [_open_table(columns, "What each test says", things="tests", note=note)]


def _rows_of_pair(pairs: pd.DataFrame, a: str, b: str) -> list[doc.Data]:
    return pairs[pairs["method_a"].isin([a, b]) & pairs["method_b"].isin([a, b])].to_dict("records")


def _profiles(c: Comparison, a: str, b: str) -> list[doc.Figure]:
    """The ratio of their loss profiles, a line a dataset that has both."""
    profiles = c.profiles
    if profiles is None or not any({a, b} <= {*profiles.methods_on(d)} for d in profiles.datasets):
        return []
    both = [profiles.ratios.index.isin([a, b], level=of) for of in ("method_a", "method_b")]
    caption = f"The loss of {name(b)} over that of {name(a)}: above 1 {name(a)} is better."
    drawn = profiles.ratios[both[0] & both[1]], profiles.crossings, [(a, b)]
    svg = ratio_panels(*drawn, profiles.options["family"], "Ratio of losses")
    return [doc.Figure(svg, caption, title="Their loss profiles, a line a dataset")]


def _measures(c: Comparison, measures: pd.Index) -> list[Column]:
    """Measures, and which way each is better."""
    directions = (c.study.directions[m] for m in measures)
    return [doc.names("measure", measures), doc.better(directions)]


def _heaviest(c: Comparison) -> list[str]:
    """The measures of most weight, with the one that is compared, in the study's order."""
    weights = c.fusion.weights.mean().sort_values(ascending=False, kind="stable")
    first = [c.on] if c.on != FUSED else []
    kept = {*[*first, *(m for m in weights.index if m not in first)][:MEASURES]}
    return [m for m in c.study.measures if m in kept]


def _by_weight(c: Comparison, cells: Mapping[str, Sequence[str]]) -> list[Column]:
    """A column a measure; where room lacks the last go first."""
    keeps = range(len(cells), 0, -1)
    heads = zip(_narrow(c, cells), cells.values(), keeps, strict=True)
    return [Column(head, values, keep=keep) for head, values, keep in heads]


def _narrow(c: Comparison, measures: Iterable[str]) -> list[str]:
    return [doc.heading(c.study.directions, m, 18) for m in measures]
