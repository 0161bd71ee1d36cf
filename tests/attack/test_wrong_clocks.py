"""Runs by wrong clocks, and gates whose clock goes back, are judged as any others."""

import json
import sqlite3
import time
from itertools import product

import pytest
from command_line import mleval
from poisons import logged

from mlflow_mleval.gates import gate, history

pytestmark = pytest.mark.thorough
DAY = 86_400_000
#: When a run begins, and how long it takes.
CLOCKS = {
    "right": (None, 1_000),
    "ahead": (int(time.time() * 1000) + 3650 * DAY, 1_000),
    "zero": (0, 0),
    "before 1970": (-5 * DAY, DAY),
    "ends before it begins": (int(time.time() * 1000), -DAY),
}


@pytest.fixture
def log(client, db):
    """Logs runs of two methods on six datasets into an experiment, the first by a clock."""

    def log(name, clock="right"):
        experiment = client.create_experiment(name)
        for (i, dataset), method in product(enumerate("cdefgh"), "ab"):
            begin, took = CLOCKS[clock if method == "a" else "right"]
            value = 0.7 + i / 100 if method == "a" else 0.5 + i / 99
            run = logged(client, experiment, method, dataset, values=(value, 1 - value))
            with sqlite3.connect(db) as held:  # MLflow's client takes 0 for now
                begin = run.info.start_time if begin is None else begin
                set_to = "UPDATE runs SET start_time = ?, end_time = ? WHERE run_uuid = ?"
                held.execute(set_to, (begin, begin + took, run.info.run_id))

    return log


@pytest.mark.parametrize("clock", CLOCKS)
def test_what_is_said_is_the_same_by_any_clock(log, clock):
    """Half of the runs have it, the other half the right one."""
    log("x", clock)
    log("right")

    def told(*args, **more):
        return [
            json.loads(mleval(*args, "-n", name, "--output", "json", **more).stdout)
            for name in ("x", "right")
        ]

    for command in (["rank"], ["compare"]):
        of_x, of_right = told(*command)
        assert of_x["ranking"] == of_right["ranking"]
    of_x, of_right = told("gate", "a", "--champion", "b", "-m", "f1")
    assert of_x["decision"] == of_right["decision"] == "ship"
    for command in (["runs"], ["report", "-o", "r.html"], ["rank", "--missing", "worst"]):
        assert mleval(*command, "-n", "x").exit_code == 0
    begun = clock in ("zero", "before 1970")  # these began long before
    recent = mleval("rank", "-n", "x", "--since", "7d", code=1 if begun else 0)
    assert ("a" in recent.output) or begun


def test_gates_of_a_clock_that_goes_back_stand_in_the_order_of_their_judgement(log, monkeypatch):
    log("x")
    right = time.time
    for back in range(3):
        monkeypatch.setattr(time, "time", lambda back=back: right() - back * 3600)
        verdict = gate("a", "b", experiment_names=["x"], measures=["f1"], ledger="l")
        assert verdict.entry.number == back + 1
    entered = history("l")
    assert entered["number"].tolist() == [1, 2, 3]
    assert entered["time"].is_monotonic_decreasing and entered["asked"].tolist() == [0, 1, 2]
