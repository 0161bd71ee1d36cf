"""A ledger counts what was entered, by whatever hand the store is changed afterwards."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest
from command_line import as_json
from command_line import mleval as run
from import_cases import race_for_places_and_alias
from mlflow import MlflowClient

from mlflow_mleval.analysis.gate_tests import ledger_level
from mlflow_mleval.errors import NoRunsError, StoreError
from mlflow_mleval.gates import history
from mlflow_mleval.store.ledger import Ledger
from mlflow_mleval.store.query import load_study

SIDES = {"candidate": "new", "champion": "base", "units": "u", "asked": 0}


@pytest.fixture(scope="module")
def written(empty_store, tmp_path_factory):
    """A store with a ledger: a gate shipped, the next died with its number, the last did not."""
    path = shutil.copy(empty_store, tmp_path_factory.mktemp("ledger"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
        book = Ledger.open("prompts", alpha=0.05)
        enter(book, "ship")
        book.claim()
        enter(book, "run more")
    return path


@pytest.fixture
def book(db, written):
    """The ledger, in a store of its own for the test."""
    shutil.copy(written, db)
    return Ledger.open("prompts", alpha=0.05)


def enter(book, decision, **changed):
    """Enter a gate as `mleval.gate` does; returns the id of its run."""
    number = book.claim()
    ships = sum(gate.shipped for gate in book.gates())
    level = ledger_level(0.05, number, ships)
    values = SIDES | {"decision": decision, "level": level, "evidence": 2 / level}
    return book.write(number, values | changed)


def parameter(book, key, value):
    MlflowClient().log_param(book.register.run_id, key, value)


def of_gates(book):
    return [(gate.number, gate.values and gate.values["decision"]) for gate in book.gates()]


STANDS = [(1, "ship"), (2, None), (3, "run more")]


def test_a_claim_without_an_entry_did_not_ship_and_is_named(book):
    assert of_gates(book) == STANDS
    assert Ledger.open("prompts").claim() == 4
    shown = history("prompts")
    assert shown["decision"].tolist() == ["ship", "no entry", "run more", "no entry"]
    assert as_json("gate", "--ledger", "prompts", "--history")["gates"][1]["level"] is None
    for format in ("html", "table", "md"):
        shown = run("gate", "--ledger", "prompts", "--history", "--output", format).stdout
        assert "no entry" in shown


def test_an_entry_is_one_run_that_all_lists_leave_out(book):
    found = MlflowClient().search_runs([book.register.experiment_id])
    entries = [each.data for each in found if each.data.tags["mleval.kind"] == "gate"]
    assert len(entries) == 2 and not any(data.params or data.metrics for data in entries)
    assert "mleval ledger" not in run("runs").stdout
    with pytest.raises(NoRunsError):
        load_study(experiment_ids=[book.register.experiment_id])


def test_forged_and_unregistered_entries_are_ignored(book):
    client, experiment = MlflowClient(), book.register.experiment_id
    for number in [*range(1, 20), "abc", None]:
        forged = SIDES | {"number": number, "decision": "ship", "evidence": 1e9, "level": 1}
        tags = {"mleval.kind": "gate", "mleval.entry": json.dumps(forged)}
        run_id = client.create_run(experiment, tags=tags).info.run_id
        client.log_param(run_id, "number", number)
    for name in ("gate/abc", "gate/007", "gate/-1", "entry/x", "gate/4/5"):
        parameter(book, name, "1")
    assert of_gates(Ledger.open("prompts")) == STANDS


def test_a_ledger_is_found_wherever_it_is_and_whatever_it_is_called(book):
    client, experiment = MlflowClient(), book.register.experiment_id
    other = client.create_run(experiment).info.run_id
    client.set_experiment_tag(experiment, "mleval.register", other)
    client.rename_experiment(experiment, "renamed")
    client.create_experiment("mleval ledger: prompts")
    for name in ("prompts", book.register.run_id):
        assert of_gates(Ledger.open(name, alpha=0.05)) == STANDS


def another_register(book):
    one = MlflowClient().get_run(book.register.run_id)
    forged = MlflowClient().create_run(one.info.experiment_id)
    MlflowClient().log_param(forged.info.run_id, "register", one.data.params["register"])


def entry_of(book, place):
    number = [1, 3][place]
    return book.register.entries("entry")[number].partition(" ")[0]


def edited(book):
    entry = json.loads(MlflowClient().get_run(entry_of(book, 1)).data.tags["mleval.entry"])
    text = json.dumps(entry | {"decision": "ship"})
    MlflowClient().set_tag(entry_of(book, 1), "mleval.entry", text)


def borrowed(book):
    book.claim()
    parameter(book, "entry/4", book.register.entries("entry")[1])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda book: parameter(book, "gate/999999", "x"), "gate 4 is missing before gate 999999"),
        (lambda book: parameter(book, "entry/9", "x"), "entry 9 has no gate"),
        (lambda book: parameter(book, "entry/2", "x"), "entry 2 is missing"),
        (lambda book: MlflowClient().delete_run(entry_of(book, 0)), "entry 1 is missing"),
        (edited, "entry 3 is not what was entered"),
        (borrowed, "entry 4 is not what was entered"),
        (lambda book: enter(book, "sip"), "entry 4 is not what was entered"),
        (lambda book: enter(book, "ship", evidence=1), "entry 4 ships without the evidence"),
        (lambda book: enter(book, "ship", level=1, evidence=2), "4 ships without the evidence"),
        (another_register, "there are 2 registers"),
        (lambda book: MlflowClient().delete_run(book.register.run_id), "is deleted. Restore it"),
        (lambda book: MlflowClient().delete_experiment(book.register.experiment_id), "is deleted"),
    ],
)
def test_a_changed_ledger_stops_with_what_was_changed(book, change, said):
    change(book)
    for ask in (lambda: Ledger.open("prompts", alpha=0.05).gates(), lambda: history("prompts")):
        with pytest.raises(StoreError, match=said):
            ask()
    assert said in run("gate", "--ledger", "prompts", "--history", code=1).output


def test_a_ledger_keeps_its_level_and_a_place_that_somebody_else_filled_is_not_taken(book):
    with pytest.raises(ValueError, match=r"must stay .* \(0.05 fdr\), got 0.5 fdr"):
        Ledger.open("prompts", alpha=0.5)
    number = book.claim()
    parameter(book, f"entry/{number}", "x")
    with pytest.raises(StoreError, match=f"entry {number} is somebody else's"):
        book.write(number, SIDES | {"decision": "ship", "level": 0.01, "evidence": 200})


@pytest.mark.parametrize("table", ["params", "runs", "experiments"])
def test_a_store_that_fails_inside_is_said_in_a_line(book, db, table):
    with closing(sqlite3.connect(db)) as database:
        does = "SELECT RAISE(ABORT, 'the disk is full')"
        database.execute(f"CREATE TRIGGER fails BEFORE INSERT ON {table} BEGIN {does}; END")
    with pytest.raises(StoreError, match="cannot write to the store .*the disk is full"):
        enter(Ledger.open("another" if table == "experiments" else "prompts", alpha=0.05), "ship")


@pytest.mark.thorough
def test_gates_of_eight_processes_on_one_database(db):
    race_for_places_and_alias()
