"""What a store holds before anybody has said how to compare it: experiments, metrics, params, what
may name what, commands.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mlflow_mleval.naming import count
from mlflow_mleval.report import document as doc
from mlflow_mleval.report.content.provenance import made_from, when
from mlflow_mleval.report.document import (
    ALWAYS,
    Column,
    Document,
    Section,
    Table,
    Text,
    listed,
    name,
)
from mlflow_mleval.report.numerals import ARROWS, NONE, number
from mlflow_mleval.survey import Survey

#: Rows that a table holds; characters of a value; names of metrics in a row.
ROWS, VALUE, SHOWN = 200, 24, 6


def document(found: Survey, provenance: Mapping[str, Any]) -> Document:
    """What was found, and what to do next."""
    held = found.experiments[found.experiments["runs"] > 0]
    title = f"{count(int(held['runs'].sum()), 'run')} in {count(len(held), 'experiment')}"
    return Document(
        title,
        [*sections(found), *([made_from(provenance)] if provenance else [])],
        time=when(provenance),
        data=lambda: data(found),
        frames=lambda: frames(found),
        main=main(found),
    )


def sections(found: Survey) -> list[Section]:
    """Why there is no comparison yet, what is there, and what to do next."""
    told = [found.problem] * bool(found.problem)
    tables = [("experiments", "Experiments", _experiments(found))]
    if main(found) == "metrics":
        tables += [
            ("metrics", "Metrics", _metrics(found)),
            ("variables", "Params and tags with several values", _variables(found)),
            ("candidates", "What may name what", _candidates(found)),
        ]
    return [
        *(
            [Section("problem", "Why there is no ranking yet", [Text(told, depth=ALWAYS)])]
            if told
            else []
        ),
        *(Section(key, title, [table]) for key, title, table in tables if table is not None),
        *(
            [Section("about", "Notes", doc.points(found.notes, depth=ALWAYS))]
            if found.notes
            else []
        ),
        next_steps(found),
    ]


def next_steps(found: Survey) -> Section:
    """Commands to copy, and what to say where nobody knows it."""
    blocks: list[Any] = []
    if found.undirected and main(found) == "metrics" and len(found.ways) != 1:
        blocks.append(
            Text(
                [
                    f"Are larger or smaller values of {listed(found.undirected, 8)} better? "
                    "Nobody has said so. Declare each that is to count by --max NAME or --min "
                    "NAME."
                ],
                depth=ALWAYS,
            )
        )
    if found.ways:  # a shell takes the lines as they are
        lines = [line for way in found.ways for line in (f"# {way.what}", way.line)]
        blocks.append(Text(["\n".join(lines)], role="pre", depth=ALWAYS))
    else:
        blocks.append(Text(_advice(found), depth=ALWAYS))
    return Section("next", "Next", blocks, open=True)


def data(found: Survey) -> dict[str, Any]:
    """What JSON holds."""
    return {
        "problem": found.problem or None,
        **{key: _records(getattr(found, key)) for key in ("experiments", "metrics", "variables")},
        "candidates": [doc.named(c, "role", "rule", "reason", "chosen") for c in found.candidates],
        "commands": [{"what": way.what, "command": way.line} for way in found.ways],
        **doc.named(found, "undirected", "notes", "source"),
    }


def frames(found: Survey) -> dict[str, pd.DataFrame]:
    """What CSV files hold."""
    tables = {
        "experiments": found.experiments,
        "metrics": found.metrics,
        "variables": found.variables,
    }
    return {
        key: table.map(lambda v: " ".join(v) if isinstance(v, tuple) else _plain(v))
        for key, table in tables.items()
    }


def main(found: Survey) -> str:
    """What stands for all where one CSV file is asked for: the metrics of a selection; of a store,
    its experiments.
    """
    return (
        "experiments"
        if not found.n_runs or any(way.command == "runs" for way in found.ways)
        else "metrics"
    )


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {key: _plain(value) for key, value in row.items()}
        for row in table.astype(object).to_dict("records")
    ]


def _plain(value: Any) -> Any:
    """None where there is nothing to tell, times as text."""
    if value is pd.NaT or value == "":
        return None
    return value.isoformat() if isinstance(value, pd.Timestamp) else value


def _experiments(found: Survey) -> Table | None:
    held = found.experiments[found.experiments["runs"] > 0]
    if not len(held):
        return None
    empty = len(found.experiments) - len(held)
    shown = held.head(ROWS)
    columns = [doc.names("experiment", shown["experiment"]), _count("runs", shown["runs"], 0)]
    counted = ("finished", "failed", "running", "children", "reports")
    columns += [_count(key, shown[key], 2) for key in counted if shown[key].any()]
    columns += [
        Column("last start", [f"{start:%Y-%m-%d %H:%M}" for start in shown["last_start"]], keep=1),
        Column("metrics", [_some(names, SHOWN) or NONE for names in shown["metrics"]], "wrap"),
    ]
    more = (
        f"{count(empty, 'experiment')} without runs {'is' if empty == 1 else 'are'} not shown."
        if empty
        else ""
    )
    return Table(columns, len(held), things="experiments", depth=ALWAYS, note=more)


def _metrics(found: Survey) -> Table | None:
    table = found.metrics.head(ROWS)
    if not len(table):
        return None
    known = [ARROWS[d] if d else "?" for d in table["direction"]]
    columns = [
        doc.names("metric", table["metric"]),
        Column("runs", [f"{n} of {found.n_runs}" for n in table["runs"]]),
        Column("from", [*map(number, table["low"])]),
        Column("to", [*map(number, table["high"])]),
        Column(
            "better",
            known,
            "^",
            note="?: nobody knows which way is better." if "?" in known else "",
        ),
    ]
    return Table(columns, len(found.metrics), things="metrics", depth=ALWAYS)


def _variables(found: Survey) -> Table | None:
    table = found.variables.head(ROWS)
    if not len(table):
        return None
    rows = [*table.itertuples(index=False)]
    examples = [
        _some(row.examples, len(row.examples)) + ", …" * (row.values > len(row.examples))
        for row in rows
    ]
    columns = [
        doc.names("name", (f"{row.kind}:{row.name}" for row in rows)),
        Column("runs", [f"{n} of {found.n_runs}" for n in table["runs"]]),
        _count("values", table["values"], 0),
        Column("such as", examples, "wrap"),
    ]
    return Table(columns, len(found.variables), things="params and tags", depth=ALWAYS)


def _candidates(found: Survey) -> Table | None:
    if not found.candidates:
        return None
    columns = [
        Column("for", [c.role for c in found.candidates], "<"),
        doc.names("rule", (c.rule for c in found.candidates)),
        Column("chosen", ["✓" if c.chosen else "" for c in found.candidates], "^"),
        Column("because", [c.reason for c in found.candidates], "wrap"),
    ]
    return Table(columns, things="candidates", depth=ALWAYS)


def _some(texts: Sequence[str], most: int) -> str:
    """The first few, marked as names; a sign says that there are more."""
    return ", ".join(name(text, VALUE) for text in texts[:most]) + ", …" * (len(texts) > most)


def _count(head: str, numbers: pd.Series, keep: int) -> Column:
    return Column(head, [f"{n:,}" for n in numbers], keep=keep)


def _advice(found: Survey) -> list[str]:
    """What to do where there is nothing to rank."""
    if not found.experiments["runs"].any():
        return [
            "Put results into the store by `mleval import results.csv -n NAME`, or set "
            "MLFLOW_TRACKING_URI to a store that has runs. `mleval demo` shows it all on a "
            "published study."
        ]
    if not found.n_runs:
        return [
            "Only finished runs with metrics can be compared. `mlflow server` shows why runs "
            "failed. Run them again, or choose another experiment: `mleval runs` lists them "
            "all."
        ]
    return [
        "Choose other runs by -n, --filter or --run-id, or name methods and datasets by "
        "--method-by and --dataset-by."
    ]
