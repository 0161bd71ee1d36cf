"""Where the command line's output goes when stdout is closed, full, or read by a program that stops early; texts of errors."""

import subprocess
import sys
from pathlib import Path

import pytest

from mlflow_mleval.cli import main
from mlflow_mleval.cli.command import in_flags


def shell(line):
    command = f'"{sys.executable}" -c "from mlflow_mleval.cli import main; main()"'
    return subprocess.run(["bash", "-c", line.format(mleval=command)], capture_output=True, text=True)


@pytest.mark.parametrize(("where", "said"), [(">&-", "stdout is closed"), (">/dev/full", "cannot write to stdout")])
def test_output_that_cannot_be_written_is_one_line(where, said):
    if where == ">/dev/full" and not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    done = shell("{mleval} measures " + where)
    assert done.returncode == 1 and done.stderr.startswith(f"Error: {said}") and len(done.stderr.splitlines()) == 1


def test_a_reader_that_stops_early_is_no_error():
    done = shell("{mleval} measures --output html | head -c 10")
    assert done.stdout == "<!doctype " and done.stderr == ""


@pytest.fixture
def context():
    with main.commands["compare"].make_context("compare", ["-n", "x"]) as context:
        yield context


@pytest.mark.parametrize(("said", "shown"), [
    ('3 of 9 cells have no result. Choose: missing="worst" (its worst value), "drop-datasets" or "drop-methods".',
     '3 of 9 cells have no result. Choose: --missing worst (its worst value), "drop-datasets" or "drop-methods".'),
    ("so missing='drop-methods' would leave nothing.", "so --missing drop-methods would leave nothing."),
    ("declare it with minimize= or maximize=.", "declare it with --min or --max."),
    ('minimize=["loss", "val loss"] says so', "--min loss --min 'val loss' says so"),
    ('Name one: experiment_names=["mystudy"].', "Name one: --experiment-name mystudy."),
    ('Choose runs by filter_string=, or duplicates="latest".', "Choose runs by --filter, or --duplicates latest."),
    ("filter_string='tags.\"mleval.conventions\" = \"mulan\"'", "--filter 'tags.\"mleval.conventions\" = \"mulan\"'"),
    ("Leave them out, or pass dependent='drop'.", "Leave them out, or pass --dependent drop."),
    ("paired=False tests them, with less power; drop_constant=True", "--unpaired tests them, with less power; --drop-constant"),
    ("missing= and minimize=/maximize=", "--missing and --min/--max"),
])  # fmt: skip
def test_arguments_of_python_are_shown_as_flags_that_can_be_typed(context, said, shown):
    assert in_flags(said) == shown


@pytest.mark.parametrize("said", [
    "12 of 132 cells have no result. Choose what to do about them: --missing worst (give them that dataset's worst value), "
    "drop-datasets or drop-methods (missing= in Python).",
    "1 of 4 cells has no result, so --missing drop-methods would leave nothing. Choose another policy.",
    "no direction is known for 'x'. Declare it: --min NAME where smaller is better, --max NAME where larger is "
    "(minimize=/maximize= in Python), or leave the measure out.",
    "Leave them out, or pass dependent='drop' (--dependent drop).",
    "1 pair: the splits differ; paired=False (--unpaired) tests them, with less power",
    "no tag mleval.method; --method-by and --dataset-by say how to read such a run",
    "choose those of one kind, for example --filter \"tags.`mleval.conventions` = 'mulan'\".",
    "Log the evaluations with log_instances=True.", "Log evaluations with y_true=.",
    "`alpha` must be a number between 0 and 1, got 2.",
    "the selection has no method 'KNeighborsClassifier(p=1, weights='distance')', alpha=0.1, paired=True, missing=worst",
    "params.missing='worst' \\x1b[31m",
])  # fmt: skip
def test_other_texts_stay_as_they_are(context, said):
    assert in_flags(said) == said


def test_a_command_shows_no_flag_that_it_does_not_have():
    with main.commands["runs"].make_context("runs", []):
        assert in_flags('missing="worst" or measures=["f1"]') == 'missing="worst" or --measure f1'


def test_errors_of_a_command_go_through_it():
    """The text of a pure layer, as a user of the command gets it."""
    import click
    from click.testing import CliRunner

    from mlflow_mleval.cli.command import Command
    from mlflow_mleval.cli.options import missing
    from mlflow_mleval.errors import MissingResultsError

    @click.command(cls=Command, params=[missing])
    def command(**choices):
        raise MissingResultsError('Choose missing="worst"\x1b.')

    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1 and result.stderr == "Error: Choose --missing worst␛.\n"
