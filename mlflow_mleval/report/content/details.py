"""A closer look at one thing in a comparison: a method, a dataset, a cell (a method on a dataset),
or a pair of methods.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from mlflow_mleval.analysis import recommendation as part
from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.instance_tests import InstanceTests
from mlflow_mleval.errors import IncomparableRunsError
from mlflow_mleval.report import blocks as doc
from mlflow_mleval.report.blocks import (
    ALWAYS,
    Column,
    Figure,
    Link,
    Section,
    Table,
    Text,
    joined,
    listed,
    name,
)
from mlflow_mleval.report.content import folds as by_fold
from mlflow_mleval.report.content import profiles as along
from mlflow_mleval.report.content.beyond import probability
from mlflow_mleval.report.content.measures import lost_choices
from mlflow_mleval.report.content.provenance import made_from, when
from mlflow_mleval.report.content.ranking import grid
from mlflow_mleval.report.content.units import blocks as by_instance
from mlflow_mleval.report.content.verdict import deciding_test
from mlflow_mleval.report.document import Document
from mlflow_mleval.report.figures.lines import profile_lines, ratio_panels
from mlflow_mleval.report.text import (
    ARROWS,
    NONE,
    aligned,
    fixed,
    number,
    pvalue,
    terminal,
    with_intervals,
)
from mlflow_mleval.validation import present
from mlflow_mleval.words import count, some

#: Measures in a table that has a column for each, those of most weight; measures a method is best
#: at; datasets whose profiles are drawn; rows of a table.
MEASURES, BEST, DRAWN, ROWS = 6, 3, 4, 500
KINDS = ("method", "dataset", "cell", "pair")
#: How the values of a cell scatter, and what is known of a run: columns and their heads.
_SCATTER = {
    "sd": ("± sd", "± sd: over repeats; SE: standard error of their mean."),
    "standard_error": ("SE", ""),
    "fold_sd": ("sd over folds", ""),
}
_FACTS = {"experiment": "experiment", "status": "status", "repeat": "seed", "start_time": "started"}
#: What marks a result that a policy supplied.
_FILLED = "Filled: what is missing counts as the worst of the dataset."


def document(
    c: Comparison,
    provenance: Mapping[str, Any],
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
    made = made_from(provenance)
    return Document(title, [found, *([made] if made.blocks else [])], time=when(provenance))


def section(
    c: Comparison,
    of: str,
    *,
    method: str = "",
    dataset: str = "",
    against: str = "",
    base: str = "",
) -> Section:
    """The same as a section, `of` one of `KINDS`; with the address of a server as `base`, runs lead
    to MLflow's pages.

    A name may be given as it is or as it is shown. IncomparableRunsError where the comparison has
    none such.
    """
    if of not in KINDS:
        raise ValueError(f"`of` must be one of {', '.join(KINDS)}, got {of!r}.")
    methods = [
        _known(m, c.study.methods, "method")
        for m in (method, against)[: {"dataset": 0, "pair": 2}.get(of, 1)]
    ]
    on = _known(dataset, c.study.datasets, "dataset") if of in ("cell", "dataset") else ""
    if of == "pair" and len({*methods}) < 2:
        raise IncomparableRunsError(
            f"a pair needs two methods, got {terminal(methods[0])!r} twice."
        )
    make: Any = {"method": _method, "dataset": _dataset, "cell": _cell, "pair": _pair}[of]
    blocks = make(c, *methods, *([on] if on else []), *([base] if of == "cell" else []))
    return Section("detail", "A closer look", blocks, open=True)


def _known(asked: str, names: Sequence[str], what: str) -> str:
    found = [n for n in names if n == asked] or [n for n in names if terminal(n) == asked]
    if len(found) != 1:
        raise IncomparableRunsError(
            f"the comparison has no {what} {terminal(asked)!r}; it has "
            f"{some(map(terminal, names))}."
        )
    return found[0]


# ---- A cell --------------------------------------------------------------------------------------


def _cell(c: Comparison, method: str, dataset: str, base: str) -> list[Any]:
    looks = (part.measures_of_cell, part.runs_of_cell, part.folds_of_cell)
    found, runs, folds = (look(c, dataset, method) for look in looks)
    shown = _heaviest(c)
    scatter = {key: told for key, told in _SCATTER.items() if found[key].notna().any()}
    blocks: list[Any] = [
        Text(_about_cell(c, method, dataset, len(runs), len(folds)), role="flow", depth=ALWAYS)
    ]
    columns = [
        doc.names("measure", found.index, "measure"),
        Column("better", [_arrow(c, m) for m in found.index], "^"),
        Column("value", [*map(number, found["value"])]),
        *(
            Column(head, [*map(number, found[key])], note=text)
            for key, (head, text) in scatter.items()
        ),
        Column(
            "rank",
            [*map(number, found["rank"])],
            note="Rank and φ: by this measure alone, on this dataset.",
        ),
        doc.decimals("φ", found["phi"], 2),
    ]
    blocks.append(Table(columns, title="Values", depth=ALWAYS, most=len(found)))
    if len(runs):
        blocks.append(_runs(c, runs, shown, base))
    if len(folds):
        kept = [m for m in shown if m in folds]
        about = {
            "title": "By fold",
            "total": len(folds),
            "things": "folds",
            "folded": len(folds) > 12,
        }
        blocks.append(grid(folds[kept].iloc[:ROWS], "fold", _heads(c, kept), number, **about))
    return blocks


def _about_cell(c: Comparison, method: str, dataset: str, n_runs: int, n_folds: int) -> list[str]:
    """What the values are made of, and where they put the method."""
    study, cell = c.study, (dataset, method)
    repeats = 0 if study.repeats is None else int(study.n_repeats.get(cell, 0))
    who = f"{name(method)} on {name(dataset)}"
    if cell in study.filled:
        reasons = {"dnf": "did not finish", "complete": "lacks a value of some measure"}
        why = reasons.get(study.statuses().get(cell, ""), "has no result")
        made = (
            f"{who} {why}: what is missing counts as the worst of the dataset (policy "
            f"{study.missing})."
        )
    else:
        of = (
            f"means over {repeats} runs"
            if repeats > 1
            else "those of one run"
            if n_runs
            else "as given"
        )
        over = f", over {count(n_folds, 'fold')}" if n_folds else ""
        made = f"The values of {who} are {of}{over}."
    ranks, phi = c.fusion.ranks.loc[dataset], c.fusion.phi.loc[dataset, method]
    return [
        made,
        f"By all measures fused it has rank {number(ranks[method])} of {len(ranks)} there (φ = "
        f"{fixed(phi, 3)}).",
    ]


def _runs(c: Comparison, runs: pd.DataFrame, measures: Sequence[str], base: str) -> Table:
    shown = runs.head(ROWS)
    columns = [Column("run", [*_links(shown, base)], "<")]
    for key, head in _FACTS.items():
        cells = [_text(x) for x in shown[key]] if key in shown else []
        if any(cells):
            columns.append(
                Column(head, cells, "<", name="experiment" if key == "experiment" else "")
            )
    columns += [
        Column(head, aligned(shown[m]), keep=i)
        for m, head, i in _columns(c, [m for m in measures if m in shown])
    ]
    return Table(columns, len(runs), title="Runs", things="runs", depth=ALWAYS)


def _links(runs: pd.DataFrame, base: str) -> Iterable[str]:
    """Run ids that lead to MLflow's pages where the server is known."""
    experiments = runs["experiment_id"] if "experiment_id" in runs else [None] * len(runs)
    for run, experiment in zip(runs["run_id"], experiments, strict=True):
        there = base and isinstance(experiment, str)
        place = f"#/experiments/{quote(str(experiment), safe='')}/runs/{quote(str(run), safe='')}"
        yield Link.to(str(run), f"{base}{place}?workflowType=machine_learning" if there else "")


def _text(value: Any) -> str:
    """A fact about a run: a time to the minute, nothing where it is not known."""
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d %H:%M")
    return "" if value is None or value != value else str(value)


# ---- A method ------------------------------------------------------------------------------------


def _method(c: Comparison, method: str) -> list[Any]:
    measures, ranks = part.measures_of_method(c, method), c.ranks[method]
    shown = _heaviest(c)
    filled = {dataset for dataset, m in c.study.filled if m == method}
    runs = c.study.n_repeats
    table = [
        doc.names("dataset", ranks.index, about={"method": method}),
        Column("rank", [*map(number, ranks)]),
        doc.decimals("φ", c.fusion.phi[method], 3),
        *(
            [Column("", ["filled" if d in filled else "" for d in ranks.index], "<", note=_FILLED)]
            if filled
            else []
        ),
        *(
            Column(head, aligned(c.study.cells(m)[method]), keep=i)
            for m, head, i in _columns(c, shown)
        ),
        *(
            [Column("runs", [number(runs.get((d, method))) for d in ranks.index])]
            if len(runs)
            else []
        ),
    ]
    blocks = [
        Text(_about_method(c, method, measures), role="flow", depth=ALWAYS),
        Table(table, title="On each dataset", things="datasets", depth=ALWAYS),
        _by_measure(c, measures),
    ]
    if c.deciding is not None:
        blocks.append(_against(c, method))
    return blocks


def _about_method(c: Comparison, method: str, measures: pd.DataFrame) -> list[str]:
    """Its place, what it is best and worst at, and from whom it is separated."""
    row = c.ranking.set_index("method").loc[method]
    what = "by all measures fused" if c.on == FUSED else f"by {name(c.on)}"
    where = (
        f"with a mean rank of {fixed(row['mean_rank'], 2)} over {count(len(c.ranks), 'dataset')}"
    )
    said = [f"{name(method)} has place {row['position']} of {len(c.order)} {what}, {where}."]
    if len(measures) > 1:
        order = measures.sort_values(["place", "phi"], ascending=[True, False], kind="stable")
        best, worst = order.iloc[:BEST], order.iloc[max(BEST, len(order) - BEST) :][::-1]
        told = [f"best by {_places(best)}", *([f"worst by {_places(worst)}"] if len(worst) else [])]
        said.append(f"It does {joined(told)}.")
    if c.deciding is not None:
        better, worse = ([pair[1 - i] for pair in c.separated if pair[i] == method] for i in (0, 1))
        apart = [
            f"better than {listed(better)}" if better else "",
            f"worse than {listed(worse)}" if worse else "",
        ]
        said.append(
            f"The evidence says it is {joined([*filter(None, apart)])} ({deciding_test(c)})."
            if better or worse
            else f"The evidence separates it from none of the others ({deciding_test(c)})."
        )
    return said


def _places(measures: pd.DataFrame) -> str:
    return joined([f"{name(m)} (place {place})" for m, place in measures["place"].items()])


def _by_measure(c: Comparison, measures: pd.DataFrame) -> Table:
    columns = [
        doc.names("measure", measures.index, "measure"),
        Column("better", [_arrow(c, m) for m in measures.index], "^"),
        doc.decimals("weight", measures["weight"], 3),
        doc.decimals("φ", measures["phi"], 2),
        doc.decimals("mean rank", measures["mean_rank"], 2),
        Column(
            "place", [*map(str, measures["place"])], note="φ, mean rank and place: by it alone."
        ),
    ]
    return Table(columns, title="By each measure", depth=ALWAYS, most=len(measures))


def _against(c: Comparison, method: str) -> Table:
    pairs, test = part.pairs_of(c, method), present(c.deciding).test
    apart = {
        other: word
        for pair in c.separated
        if method in pair
        for other, word in ((pair[1], "better") if pair[0] == method else (pair[0], "worse"),)
    }
    what = c.compared if c.on == FUSED else name(c.on)
    columns = [
        doc.names("against", pairs["method_b"], about={"method": method}),
        Column(
            "mean difference",
            with_intervals(pairs[["mean_difference", "mean_low", "mean_high"]].to_numpy()),
            note=f"Mean difference: of {what}; positive where {name(method)} is better.",
        ),
        doc.pvalues("p", pairs[test.column], note=f"p: {deciding_test(c)}."),
        Column("separated", [apart.get(other, "") for other in pairs["method_b"]], "<"),
        Column(
            "won/tied/lost",
            [f"{w}/{t}/{x}" for w, t, x in pairs[["wins", "ties", "losses"]].to_numpy(int)],
        ),
    ]
    return Table(columns, title="Against the others", things="methods", depth=ALWAYS)


# ---- A dataset -----------------------------------------------------------------------------------


def _dataset(c: Comparison, dataset: str) -> list[Any]:
    found = c.fusion.results[dataset]
    flows = found.flows.sort_values("rank", kind="stable").head(ROWS)
    filled, spread = {m for d, m in c.study.filled if d == dataset}, c.study.spread
    columns = [
        Column("rank", [*map(number, flows["rank"])]),
        doc.names("method", flows.index, about={"dataset": dataset}),
        doc.decimals("φ", flows["phi"], 3),
        *(
            [Column("", ["filled" if m in filled else "" for m in flows.index], "<", note=_FILLED)]
            if filled
            else []
        ),
        doc.decimals("φ⁺", flows["phi_plus"], 3, keep=1),
        doc.decimals("φ⁻", flows["phi_minus"], 3, keep=1),
    ]
    several = False
    for m, head, i in _columns(c, _heaviest(c)):
        sd = [spread[m].get((dataset, method)) for method in flows.index]
        cells = aligned(
            [
                x
                for pair in zip(c.study.cells(m).loc[dataset, flows.index], sd, strict=True)
                for x in pair
            ]
        )
        several |= any(x != NONE for x in cells[1::2])
        texts = [
            v if s == NONE else f"{v} ± {s}" for v, s in zip(cells[::2], cells[1::2], strict=True)
        ]
        columns.append(Column(head, texts, keep=i))
    note = "± is the standard deviation over repeats." if several else ""
    blocks: list[Any] = [
        Text(_about_dataset(c, dataset, flows, filled), role="flow", depth=ALWAYS),
        Table(
            columns,
            len(found.flows),
            title="Ranking on this dataset",
            things="methods",
            note=note,
            depth=ALWAYS,
        ),
    ]
    if len(c.study.measures) > 1:
        shown = found.unicriterion.loc[flows.index]
        title = "Net flow φ by each measure alone, on this dataset"
        blocks.append(grid(shown, "method", _heads(c, shown), lambda v: fixed(v, 2), title=title))
    if dataset in c.folds:
        blocks += by_fold.on_dataset(dataset, c.folds[dataset], 1, {})
    if c.profiles is not None and dataset in c.profiles.datasets:
        blocks += along.on_dataset(c.profiles, dataset)
    if isinstance(tests := c.instances.get(dataset), InstanceTests):
        blocks += by_instance(tests, 1, dataset)
    return blocks


def _about_dataset(c: Comparison, dataset: str, flows: pd.DataFrame, filled: set[str]) -> list[str]:
    first = flows.index[flows["rank"] == flows["rank"].iloc[0]]
    lead = "leads" if len(first) == 1 else "tie for the lead"
    said = [
        f"{listed(first)} {lead} by all measures fused among "
        f"{count(len(c.fusion.phi.columns), 'method')}."
    ]
    constant = c.fusion.flows.by_measure.constant[c.study.datasets.index(dataset)]
    if constant.any():
        said.append(
            "Alike for all methods, so that it tells none apart: "
            f"{listed(np.array(c.study.measures)[constant])}."
        )
    if filled:
        whose = listed(sorted(filled, key=lambda method: c.order.index(method)))
        said.append(
            f"Results of {whose} are missing and count as the worst (policy {c.study.missing})."
        )
    if f"folds.{dataset}" in c.absent:
        said.append(f"Its folds were not tested: {c.absent[f'folds.{dataset}']}")
    return said


# ---- A pair --------------------------------------------------------------------------------------


def _pair(c: Comparison, a: str, b: str) -> list[Any]:
    found = part.measures_of_pair(c, a, b)
    means = [aligned(row) for row in found[["mean_a", "mean_b"]].to_numpy()]
    with_low = (
        with_intervals
        if found["low"].notna().any()
        else lambda rows: [number(row[0]) for row in rows]
    )
    note = (
        f"Difference: positive where {name(a)} is better, whichever way the measure goes, with its "
        f"{100 * (1 - c.options['alpha']):g}% interval, not corrected for their number. Means "
        "are over the datasets that both finished."
    )
    columns = [
        doc.names("measure", found.index, "measure"),
        Column(
            "difference",
            [with_low([row])[0] for row in found[["difference", "low", "high"]].to_numpy()],
            note=note,
        ),
        Column(
            "won/tied/lost",
            [f"{w}/{t}/{x}" for w, t, x in found[["wins", "ties", "losses"]].to_numpy(int)],
        ),
        *(
            Column(name(method, 18), cells)
            for method, cells in zip((a, b), zip(*means, strict=True), strict=True)
        ),
        Column("better", [_arrow(c, m) for m in found.index], "^"),
        doc.decimals("weight", found["weight"], 3),
    ]
    ranks, phi = c.ranks[[a, b]], c.fusion.phi[[a, b]]
    by_dataset = [
        doc.names("dataset", ranks.index),
        Column(f"rank of {name(a, 18)}", [*map(number, ranks[a])]),
        Column(f"rank of {name(b, 18)}", [*map(number, ranks[b])]),
        doc.decimals(
            "φ difference",
            phi[a] - phi[b],
            3,
            note=f"φ difference: the net flow of {name(a)} less that of {name(b)}.",
        ),
    ]
    blocks = [
        Text(_about_pair(c, a, b), role="flow", depth=ALWAYS),
        *_tests(c, a, b),
        Table(columns, title="By each measure, over the datasets", depth=ALWAYS, most=len(found)),
        Table(by_dataset, title="On each dataset", things="datasets", depth=ALWAYS),
    ]
    return [*blocks, *_profiles(c, a, b)]


def _about_pair(c: Comparison, a: str, b: str) -> list[str]:
    """Who is ahead, what the deciding test says, what a separation survives, and the next
    dataset.
    """
    mean = c.ranks.mean()
    ahead, other = (a, b) if c.order.index(a) < c.order.index(b) else (b, a)
    level = abs(mean[a] - mean[b]) < 1e-9
    ranks = f"{fixed(mean[ahead], 2)} and {fixed(mean[other], 2)}"
    said = [
        f"{name(a)} and {name(b)} have the same mean rank ({fixed(mean[a], 2)})."
        if level
        else f"{name(ahead)} is ahead of {name(other)} (mean ranks {ranks})."
    ]
    if c.deciding is None:
        said.append(c.decision)
    elif not (part.pairs_of(c, a)["method_b"] == b).any():
        said.append(f"Only pairs with the control {name(c.options['control'])} were tested.")
    else:
        apart = next((pair for pair in c.separated if set(pair) == {a, b}), None)
        said.append(
            f"The evidence separates them, {name(apart[0])} the better ({deciding_test(c)})."
            if apart
            else f"The evidence does not separate them ({deciding_test(c)})."
        )
        kept = None if c.stability is None else c.stability.separations
        if apart and kept is not None and apart in kept.stays:
            stays, of = kept.of(apart)
            lost = f", but not under {joined(lost)}" if (lost := lost_choices(kept, apart)) else ""
            said.append(f"The separation stays under {stays} of {of} other choices{lost}.")
    if c.next_dataset is not None:
        rows = {m: c.next_dataset.pair(m, a, b) for m in c.next_dataset.pairs}
        said += [
            f"On the next dataset {name(a)} would be better by {name(m)} with probability "
            f"{probability(row.p_better)}, worse with {probability(row.p_worse)}."
            for m, row in rows.items()
            if row is not None
        ]
    return said


def _tests(c: Comparison, a: str, b: str) -> list[Table]:
    """What each test says, the deciding one first: over datasets, over the folds and the instances
    of each dataset.
    """
    rows: list[tuple[str, str, str, str]] = []
    pairs = part.pairs_of(c, a) if c.deciding is not None else pd.DataFrame(columns=["method_b"])
    for row in pairs[pairs["method_b"] == b].to_dict("records"):
        for made in sorted(c.posthoc, key=lambda m: m is not c.deciding):
            apart = any({a, b} == {*pair} for pair in made.result.significant_pairs)
            rows.append(
                (
                    f"{made.wording}{' (decides)' if made is c.deciding else ''}",
                    count(int(row["n"]), "dataset"),
                    pvalue(row[made.test.column], bare=True),
                    "separated" if apart else "not separated",
                )
            )
    for dataset, found in c.folds.items():
        for row in _rows_of(found.pairs, a, b):
            said = (
                "not tested"
                if row["pvalue"] != row["pvalue"]
                else "separated"
                if row["significant"]
                else "not separated"
            )
            direction = f", {name(a)} {found.direction(a, b, listed)}" if row["significant"] else ""
            doubt = "" if row["reliable"] else f" (in doubt: {row['doubts']})"
            rows.append(
                (
                    by_fold.headline_test(found),
                    f"{count(int(row['folds']), 'fold')} of {name(dataset)}",
                    pvalue(row["pvalue_corrected"], bare=True),
                    f"{said}{direction}{doubt}",
                )
            )
    for dataset, tests in c.instances.items():
        for row in _rows_of(tests.ordered, a, b) if isinstance(tests, InstanceTests) else ():
            key = "anytime_corrected" if tests.anytime else "permutation_corrected"
            rows.append(
                (
                    f"{'bets' if tests.anytime else 'permutations'}, by {name(row['measure'])}",
                    f"{count(tests.n_instances, 'instance')} of {name(dataset)}",
                    pvalue(row[key], bare=True),
                    "separated" if row["significant"] else "not separated",
                )
            )
    if not rows:
        return []
    test, over, p, says = zip(*rows, strict=True)
    columns = [
        Column("test", test, "wrap"),
        Column("p", p),
        Column("says", says, "wrap"),
        Column("over", over, "<", keep=1),
    ]
    note = (
        "p-values are corrected as in the report: each for the number of pairs, and what else, "
        "that its test looks at."
    )
    return [Table(columns, title="What each test says", things="tests", note=note, depth=ALWAYS)]


def _rows_of(pairs: pd.DataFrame, a: str, b: str) -> list[dict[str, Any]]:
    return pairs[pairs["method_a"].isin([a, b]) & pairs["method_b"].isin([a, b])].to_dict("records")


def _profiles(c: Comparison, a: str, b: str) -> list[Any]:
    """Both loss profiles on each dataset that has them, beside their ratio."""
    found = c.profiles
    if found is None:
        return []
    shared = [d for d in found.datasets if {a, b} <= {*found.methods_on(d)}]
    if not shared:
        return []
    kinds, family = {a: 0, b: 1}, found.options["family"]
    figures = [
        Figure(
            profile_lines(
                found.curves.xs(d, level="dataset").loc[[a, b]],
                family,
                f"Loss profiles on {d}",
                kinds,
            ),
            f"Mean loss of {along.KINDS[found.options['kind']]}; 0 is best.",
            title=f"On {name(d)}",
        )
        for d in shared[:DRAWN]
    ]
    ratios = found.ratios[
        found.ratios.index.isin([a, b], level="method_a")
        & found.ratios.index.isin([a, b], level="method_b")
    ]
    caption = (
        f"The loss of {name(b)} over that of {name(a)}, a line a dataset: above 1 {name(a)} is "
        "better."
    )
    if len(shared) > DRAWN:
        caption += f" The profiles of {DRAWN} of {len(shared)} datasets are drawn."
    ratio = Figure(
        ratio_panels(ratios, found.crossings, [(a, b)], family, "Ratio of losses"),
        caption,
        title="Their ratio",
    )
    return [doc.Beside([ratio, *figures[1::2]], figures[::2])]


def _heaviest(c: Comparison) -> list[str]:
    """The measures of most weight, the one that is compared among them, in the order of the
    study.
    """
    weights = c.fusion.weights.mean().sort_values(ascending=False, kind="stable")
    first = [c.on] if c.on != FUSED else []
    kept = {*[*first, *(m for m in weights.index if m not in first)][:MEASURES]}
    return [m for m in c.study.measures if m in kept]


def _columns(c: Comparison, measures: Sequence[str]) -> Iterable[tuple[str, str, int]]:
    """Measures with their heads, and how long they stay where room lacks."""
    return zip(measures, _heads(c, measures), range(len(measures), 0, -1), strict=True)


def _heads(c: Comparison, measures: Iterable[str]) -> list[str]:
    return [f"{name(m, 18)} {_arrow(c, m)}" for m in measures]


def _arrow(c: Comparison, measure: str) -> str:
    return ARROWS[c.study.directions[measure]]
