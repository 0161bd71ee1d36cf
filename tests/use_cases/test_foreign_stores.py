"""Stores that libraries made by themselves: what `mleval runs` finds, and that the command it
prints gives the right answer on data that the training had not seen.

``MLEVAL_FOREIGN_TABLE=1`` writes the rows into the table of `examples/guides/foreign_runs.md`.
"""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import foreign_stores
import mlflow
import numpy as np
import pytest
from command_line import every_next, mleval

from mlflow_mleval.cli import main
from mlflow_mleval.cli.mcp import answer
from mlflow_mleval.measures.metric_names import of_training

GUIDE = Path(__file__).parents[2] / "examples" / "guides" / "foreign_runs.md"
#: The store that is made after each change; the others take a framework, or are alike.
QUICK = "scikit_learn_grid_search"


def _cases():
    for make, module in foreign_stores.STORES.items():
        lacking = importlib.util.find_spec(module) is None
        marks = [pytest.mark.skipif(lacking, reason=f"{module} is not installed")]
        if make.__name__ != QUICK:
            marks.append(pytest.mark.thorough)
        yield pytest.param(make, id=make.__name__, marks=marks)


@pytest.fixture
def made(request, tmp_path, unset):
    """The store, made in a process of its own, for autologging stays on; and what is true of it."""
    make = request.param
    command = [sys.executable, foreign_stores.__file__, make.__name__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    yield make, json.loads(done.stdout.splitlines()[-1])
    mlflow.set_tracking_uri(None)


@pytest.mark.parametrize("made", _cases(), indirect=True)
def test_what_runs_prints_gives_the_right_answer_on_held_out_data(made):
    make, truth = made
    found = json.loads(mleval("runs", "--output", "json").stdout)
    command = next(way["command"] for way in found["commands"] if " rank " in way["command"])
    program, *args = shlex.split(command)
    ranked = json.loads(mleval(*args, "--output", "json").stdout)
    values = truth["values"]
    assert program == "mleval" and {*ranked["datasets"]} == {*values}
    measures = [*ranked["weights"][next(iter(values))]]
    metrics = [metric["metric"] for metric in found["metrics"]]
    assert truth["measure"] in measures and not of_training(metrics).intersection(measures)
    methods = {row["method"] for row in ranked["ranking"]}
    assert all(methods == {*held} for held in values.values())
    ranges = {data: np.ptp([*held.values()]) for data, held in values.items()}
    flows = {m: sum(held[m] / ranges[d] for d, held in values.items()) for m in methods}
    best = (max if truth["larger"] else min)(flows, key=flows.get)
    assert ranked["ranking"][0]["method"] == best
    _check_row(make, command, measures)
    said, failed = answer(main.commands, "survey", {})
    assert not failed and every_next(json.loads(said)), said  # what an assistant is proposed works


def _check_row(make, command, measures):
    """The row of the guide's table; it is written where that is asked for."""
    what = make.__doc__.split("\n")[0].rstrip(".")
    row = f"| {what} | `{command}` | {', '.join(sorted(measures))} |"
    text = GUIDE.read_text()
    if os.environ.get("MLEVAL_FOREIGN_TABLE") and row not in text:
        lines = [line for line in text.splitlines() if not line.startswith(f"| {what} |")]
        at = lines.index("<!-- end of the stores -->")
        text = "\n".join([*lines[:at], row, *lines[at:]]) + "\n"
        GUIDE.write_text(text)
    assert row in text.splitlines()


def test_metrics_by_hand_wait_for_their_directions_to_be_confirmed(client):
    experiment = client.create_experiment("by hand")
    for model, value in (("small", 0.8), ("large", 0.9)):
        run = client.create_run(experiment)
        client.log_param(run.info.run_id, "model", model)
        client.log_metric(run.info.run_id, "val_acc", value)
        client.log_metric(run.info.run_id, "latency_s", value)
        client.set_terminated(run.info.run_id)
    stopped = mleval("rank", code=1).stderr
    command = "mleval rank -n 'by hand' --method-by param:model --directions proposed"
    assert "proposed by their names" in stopped and command in stopped.splitlines()
    ranked = json.loads(mleval(*shlex.split(command)[1:], "--output", "json").stdout)
    assert [*ranked["weights"]["by hand"]] == ["val_acc", "latency_s"]
    assert any("larger values of val_acc are better" in doubt for doubt in ranked["doubts"])
