"""Every command that a stop prints works, or leads to another stop whose commands do."""

import json
import re
import shlex

import pytest
from click.testing import CliRunner
from command_line import as_json, mleval

from mlflow_mleval.cli import main

#: A command in a sentence that is no example with words in capitals to be filled in.
_IN_TEXT = re.compile(r"`(mleval [^`A-Z]+)`")
STARTS = ("runs", "rank", "compare", "report", "profile")
UNITS = ("folds", "repeats", "instances")
#: Exit codes of a command that answers; 3 and 4 are a gate's.
ANSWERED = (0, 3, 4)


@pytest.fixture
def log(log):
    def made(experiment, metrics, params, parent="", digest="", **more):
        more["tags"] = {"mlflow.parentRunId": parent} if parent else {}
        more |= {"dataset": digest and "data", "digest": digest, "params": params}
        return log(None, metrics, experiment=experiment, **more)

    return made


def _searches(log):
    for model in "ab":
        parent = log("searches", {}, {"model": model})
        for depth in (1, 2):
            metrics = {"val_auc": 0.5 + depth / 10, "test_auc": 0.6 + depth / 10}
            log("searches", metrics, {"model": model, "depth": depth}, parent=parent)


AB = (("a", 0.7), ("b", 0.8))
#: By the names of experiments, the params and metrics of their runs; one without metrics failed.
STORES = {
    "by hand": [
        ({"model": m}, {"val_acc": v, "latency_s": v}) for m, v in (("a", 0.7), ("b", 0.8))
    ],
    "it's a grid": [
        ({"model": m, "lr": lr}, {"val_auc": 0.5 + lr / 10, "test_auc": 0.6 + lr / 10})
        for m, lr in (("a", 1), ("a", 2), ("b", 1))
    ],
    "failures": [
        ({"model": m, "dataset": d}, {} if (d, m) == ("d1", "c") else {"test_auc": v})
        for d in ("d1", "d2")
        for m, v in (("a", 0.7), ("b", 0.8), ("c", 0.9))
    ],
    "gaps": [
        ({"model": m, "dataset": d}, {"f1_score": ord(m) / 200})
        for d, models in (("d1", "ab"), ("d2", "abc"), ("d3", "ac"))
        for m in models
    ],
    "other data": [
        ({"model": m, "digest": digest}, {"test_auc": value})
        for m, digest, value in (("a", "one", 0.5), ("a", "two", 0.6), ("b", "one", 0.7))
    ],
    "training only": [({"model": m}, {"training_score": 0.9}) for m in "ab"],
}


def _make(log, name):
    for params, metrics in STORES[name]:
        digest = {"digest": params["digest"]} if "digest" in params else {}
        params = {key: value for key, value in params.items() if key != "digest"}
        log(name, metrics, params, status="FINISHED" if metrics else "FAILED", **digest)


def _run(command):
    """Its exit code, its errors, and the commands that it prints."""
    program, *args = shlex.split(command, comments=True)
    assert program == "mleval"
    done = CliRunner().invoke(main, args, catch_exceptions=False)
    lines = [line.strip() for line in done.output.splitlines()]
    printed = [line for line in lines if line.startswith("mleval ")]
    in_text = _IN_TEXT.findall(" ".join(lines)) if done.exit_code else []
    return done.exit_code, done.stderr, [*printed, *in_text]


def _starts():
    """Each command for the whole store, and for each experiment."""
    for selection in ("", *(f" -n {shlex.quote(name)}" for name in (*STORES, "searches"))):
        yield from (f"mleval {command}{selection}" for command in STARTS)
        yield from (f"mleval compare --over {unit}{selection}" for unit in UNITS)
        yield f"mleval gate a --champion b{selection}"
    yield "mleval rank -n failres"
    yield "mleval rank -n gaps --method-by param:modle"
    yield "mleval rank -n gaps --method-by param:model -m f1_scroe"
    yield "mleval rank -n searches --read step=best:val_auc"


def test_a_stop_prints_the_command_that_was_typed(log):
    _make(log, "failures")
    lines = _run("mleval compare --on test_auc")[2]
    rules = "-n failures --method-by param:model --dataset-by param:dataset --missing worst"
    assert lines == [f"mleval compare --on test_auc {rules}"]


def test_tests_within_datasets_take_what_runs_finds(log):
    for seed in range(4):
        for model, value in AB:
            metrics = {"test_auc": value + seed / 100 + (model == "a") * seed / 300}
            log("seeds", metrics, {"model": model, "seed": seed})
    told = as_json("compare", "--over", "repeats")
    assert [*told["datasets"]] == ["seeds"]
    assert "Taken as `mleval runs` finds it: mleval rank -n seeds" in json.dumps(told)
    code, error, _ = _run("mleval profile")
    assert code == 1 and "Profiles come about where mleval evaluates label sets" in error
    _make(log, "gaps")  # now no experiment is the only one
    assert "no run in the store has a loss profile" in _run("mleval profile")[1]


def test_a_gate_of_methods_takes_what_runs_finds(log):
    _make(log, "gaps")
    told = mleval("gate", "a", "--champion", "b", "-n gaps --output json --all", code=4).stdout
    assert "finds it: mleval rank -n gaps" in told
    code, error, _ = _run("mleval gate a --champion b")
    assert code == 1 and "no run is called a or b" in error
    assert "Methods take their experiments, too: --experiment-name" in error


def test_a_gate_of_splits_pairs_them(log):
    for seed in range(3):
        for model, value in AB:
            metrics = {"test_auc": value + seed / 100}
            log("splits", metrics, {"model": model, "seed": seed}, digest=f"split {seed}")
    rules = "-n splits --method-by param:model --read repeats-by=digest"
    gated = mleval("gate", "a", "--champion", "b", rules, "--output", "json", code=4).stdout
    assert json.loads(gated)["over"] == "repeats"
    shown = mleval("rank", rules, "-v", "--output", "md").stdout
    assert "over 3 runs on different splits of the data" in shown
    assert "in their seed only" not in shown and "data were not the same" not in shown
    assert as_json("rank", rules)["same_split"] is False


@pytest.mark.thorough
def test_each_command_that_a_stop_prints_works_or_leads_on(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in STORES:
        _make(log, name)
    _searches(log)
    results = {}
    to_run, printed = [*_starts()], set()
    while to_run:
        command = to_run.pop()
        if command not in results:
            results[command] = _run(command)
            printed.update(results[command][2])
            to_run += results[command][2]
    assert len(printed) > 20
    codes = {code for code, _, _ in results.values()}
    assert codes <= {1, *ANSWERED} and codes >= {0, 1}

    def leads_on(command, seen=()):
        code, _, more = results[command]
        ways = (one for one in more if one not in seen)
        return code in ANSWERED or any(leads_on(one, (*seen, command)) for one in ways)

    dead = {command: results[command][1] for command in printed if not leads_on(command)}
    assert not dead
