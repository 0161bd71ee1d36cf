"""One object says which runs are read, and is printed as the command that says the same."""

import shlex
from dataclasses import fields, replace
from inspect import signature

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_mleval.cli import main
from mlflow_mleval.cli.command import leaves
from mlflow_mleval.selection import FLAGS, Selection, command_line
from mlflow_mleval.store.query import load_study

NAMES = [f.name for f in fields(Selection)]
_RUNS = {"experiment_ids": ["1", "-2"], "experiment_names": ["my study", "x'y"], "run_ids": "abc"}
_RUNS |= {"exclude_runs": ["d", "e"], "since": "7d", "filter_string": "tags.a = '1'"}
_NAMED = {"method_by": ["param:model", "param:lr"], "repeats_by": "param:fold"}
_NAMED["dataset_by"] = "input"
_KEPT = {"methods": ["--all", "a b"], "measures": ["f1"], "minimize": ["loss"], "missing": "worst"}
_TAKEN = {"children": "best:val_auc", "step": "best:val_loss", "duplicates": "mean"}
CHOSEN = Selection(**_RUNS, **_NAMED, **_KEPT, **_TAKEN)


def test_it_holds_what_load_study_takes_and_each_argument_has_a_flag():
    assert sorted([*signature(load_study).parameters]) == sorted([*NAMES, "progress"])
    assert [*FLAGS, "results"] == NAMES  # a file of results is typed without a flag


@pytest.mark.parametrize("command", ["rank", "compare", "report", "runs", "profile"])
def test_commands_take_these_flags(command):
    for option in leaves(main.commands[command].params):
        if option.name in FLAGS:
            assert {*FLAGS[option.name]} == ({option.words} if option.into else {*option.opts})


def parsed(line):
    _, command, *words = shlex.split(line)
    with main.commands[command].make_context(command, words) as context:
        return Selection.of(context.params)


def test_the_command_that_it_prints_chooses_the_same():
    line = command_line(["mleval", "report"], CHOSEN.options())
    # where a name is typed, an id may be
    names = (*CHOSEN.experiment_ids, *CHOSEN.experiment_names)
    assert parsed(line) == replace(CHOSEN, experiment_ids=(), experiment_names=names)
    assert "-n 1 --experiment-name=-2" in line and "--missing worst" in line
    assert "--exclude run=d --exclude run=e --since 7d" in line and "--exclude method" not in line
    assert parsed("mleval report") == Selection()


@given(st.lists(st.text("ab '\"-=$`\\é\u202e*!\n", min_size=1)))
def test_any_names_survive_the_shell(names):
    chosen = Selection(exclude_methods=names)
    line = command_line(["mleval", "rank"], chosen.options())
    assert parsed(line) == chosen


def test_its_arguments_make_it_again():
    assert Selection(**CHOSEN.arguments()) == CHOSEN and Selection().arguments() == {}
    assert replace(CHOSEN, methods=[]).arguments()["methods"] == ()  # no method is not: all of them


def test_a_command_line_shows_no_password():
    line = command_line(["mleval", "rank"], [("--filter", "tags.u = 'http://me:se cret@host/x'")])
    assert "cret" not in line and "host/x" in line


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"since": "yesterday"}, "`since` must be a span such as 7d, 12h or 2w, or a date"),
        ({"missing": "wrost"}, "`missing` must be one of .* Did you mean 'worst'"),
        ({"duplicates": "best:"}, "must be one of mean, latest, latest-data, error or best:METRIC"),
        ({"children": "all"}, "`children` must be best:METRIC, got 'all'"),
        ({"step": "last"}, "`step` must be best:METRIC, got 'last'"),
        ({"step": "best:f1", "folds_by": "steps"}, "steps are epochs, or folds"),
        ({"children": "best:f1", "folds_by": "children"}, "must not be given with folds_by"),
        ({"method_by": ["run_name", "nonsense"]}, "`method_by` must be one of tag:NAME, .*prompt"),
        ({"dataset_by": "model"}, "`dataset_by` must be one of .*, input or digest, got 'model'"),
        ({"repeats_by": "run_name"}, "`repeats_by` must be one of tag:NAME, param:NAME or digest"),
        ({"folds_by": "key:{fold}"}, "`folds_by` must be one of steps, children, or key:PATTERN"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(wrong, said):
    with pytest.raises(ValueError, match=said):
        Selection(**wrong)
