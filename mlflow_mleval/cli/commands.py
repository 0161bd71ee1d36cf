"""The commands that take more than a call: `evaluate`, `profile`, `gate`, `compare --over`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import click

from mlflow_mleval.assembling import asked_answers, compared_answers, tested_instances
from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.command import (
    Command,
    Option,
    Target,
    arguments,
    as_option,
    flags,
    give,
    in_options,
    is_watched,
    joined,
    leaves,
    progress,
    provenance,
    say,
)
from mlflow_mleval.errors import (
    MissingResultsError,
    MlevalError,
    NoRunsError,
    UnclearError,
    UndirectedError,
)
from mlflow_mleval.selection import Choices, Selection
from mlflow_mleval.sentences import count, grouped

if TYPE_CHECKING:
    from mlflow_mleval.analysis.pairs import PairTests
    from mlflow_mleval.report.document import Document

# ---- `mleval evaluate`: a file of predictions into a run -----------------------------------------

_of_evaluation = partial(Option, "Evaluation")
_of_hierarchy = partial(Option, "Hierarchy")
_of_answers = partial(Option, "Answers")
_of_profiles = partial(Option, "Profiles")
_HIERARCHICAL = (
    _of_hierarchy(
        "--max-distance", type=float, help="Cost of a class without a partner (5 by default)."
    ),
    _of_hierarchy(
        "--lca",
        type=click.Choice(["extended", "minimal"]),
        help="Graphs of the LCA measures. Default: extended.",
    ),
    _of_hierarchy(
        "--lca-max-distance", type=float, help="Classes farther apart meet in a dummy ancestor."
    ),
    _of_hierarchy("--count-root", is_flag=True, default=None, help="Count the root, as HEMKit."),
)
#: What has no meaning for answers that a run holds.
_FOR_FILES = (
    *("cluster", "threshold", "probabilities", "truth", "train_labels"),
    *("log_instances", "engine", "master", "run_id"),
)
#: What Spark lacks.
_NOT_ON_SPARK = ("truth", "train_labels", "cluster", "probabilities", "log_instances")


@click.command(
    cls=Command,
    common=["--method", "--dataset", "--truth", "--hierarchy", "--run"],
    params=[
        _of_evaluation("--method", metavar="NAME", help="What made the predictions."),
        _of_evaluation("--dataset", metavar="NAME", help="What they were made on."),
        _of_evaluation(
            "--threshold", type=float, help="Predict labels from this score on. Default: 0.5."
        ),
        _of_evaluation(
            "--no-probabilities",
            "probabilities",
            is_flag=True,
            default=None,
            flag_value=False,
            help="Of one label: the scores between 0 and 1 are no probabilities.",
        ),
        _of_evaluation(
            "--conventions",
            type=click.Choice(["sklearn", "mulan"]),
            help="How empty sets and ties count. Default: sklearn.",
        ),
        _of_evaluation(
            "--truth",
            type=opt.FILE,
            metavar="FILE",
            help="The true labels as a sparse matrix; with --hierarchy, lines of true classes.",
        ),
        _of_evaluation(
            "--train-labels",
            type=opt.FILE,
            metavar="FILE",
            help="Labels of the training, as in --truth; adds propensity-scored measures.",
        ),
        _of_evaluation(
            "-m",
            "--measure",
            "measures",
            multiple=True,
            metavar="NAME",
            help="Compute this measure or set, too, of those that 'mleval measures' lists.",
        ),
        _of_evaluation(
            "--cluster",
            metavar="COLUMN",
            help="Column of FILE that says which instances belong together, such as a patient's.",
        ),
        _of_evaluation(
            "--log-instances",
            is_flag=True,
            default=None,
            help="Log a table of the instances, too, which must fit into memory: gates and tests "
            "over instances go by it.",
        ),
        _of_hierarchy(
            "--hierarchy",
            type=opt.FILE,
            metavar="EDGES",
            help="Add the hierarchical measures. Lines of 'parent child', or CSV with the columns "
            "parent, child and maybe weight.",
        ),
        *_HIERARCHICAL,
        _of_answers(
            "--run",
            "runs",
            multiple=True,
            metavar="ID",
            help="In place of FILE, evaluate the answers of this run; of several on the labels of "
            "all of them. Repeatable.",
        ),
        _of_answers(
            "--labels",
            default="outputs,expectations",
            metavar="FOUND,TRUE",
            help="Where traces hold labels: outputs and expectations, or keys of them such as "
            "outputs.topics.",
        ),
        Option(
            "Run",
            "-n",
            "--experiment-name",
            metavar="NAME",
            help="Write to this experiment. Default: as MLflow is set; with --run, the run's.",
        ),
        Option("Run", "--run-id", metavar="ID", help="Write to this run, maybe interrupted."),
        Option(
            "Engine",
            "--engine",
            type=click.Choice(["process", "spark"]),
            default="process",
            help="Evaluate in this process, or on Spark (extra spark).",
        ),
        Option(
            "Engine",
            "--master",
            metavar="URL",
            help="Spark's master, spark://HOST:7077 or sc://HOST. Default: as Spark is set.",
        ),
        opt.timeout,
        opt.output,
    ],
)
@click.argument("file", required=False)
def evaluate(file: str | None, runs: tuple[str, ...], output: str | None, **choices: Any) -> None:
    """Evaluate predictions made elsewhere, and log them as a run.

    FILE holds the truth and the predictions. It is read in blocks and may be larger than memory. If
    a row is broken, the error names its line and nothing is logged.

    \b
    CSV, parquet   one row per instance; for each label a column true_LABEL (0 or
                   1) with score_LABEL, pred_LABEL (0 or 1) or both; optionally
                   fold
                   one label of several classes: columns true and pred with
                   classes, score_CLASS for each, or score for the second of two
    npz            matrices (instances x labels) y_true with y_score, y_pred or
                   both; optionally label_names, folds; of one label a vector
                   parquet also with lists of labels: true with scored and score
                   (the labels that have scores, and these), pred, or both
    sparse         with --truth: LABEL:SCORE pairs, one line per instance, or CSR
                   of scipy.sparse.save_npz; --truth likewise, or a data file of
                   the XMC repository or svmlight (LABEL,LABEL FEATURE:VALUE)
    plain text     with --truth and --hierarchy: one line per instance, its
                   classes separated by spaces, as HEMKit reads them
    on Spark       a folder of parquet files with columns true_LABEL, score_LABEL
                   or pred_LABEL, and fold, or its URL

    \b
    Examples:
      mleval evaluate predictions.csv --method BR --dataset yeast -n mystudy
      mleval evaluate predicted.txt --truth true.txt --hierarchy edges.txt \\
          --count-root --method BR --dataset news -n mystudy
      mleval evaluate predictions/ --engine spark --master spark://host:7077 \\
          --method BR --dataset clicks -n mystudy
      mleval evaluate --run RUN_A --run RUN_B --labels outputs,expectations.topics

    With --run, FILE is left out: the answers of runs of mlflow.genai.evaluate are evaluated as
    label sets. Each evaluation becomes a child of its run; the same again takes its place.
    """
    to = opt.target(output)
    _check_usage(file, runs, choices)
    given = {name: choices[name] for name in _EVALUATION if choices[name] not in (None, ())}
    if file is not None:
        return give(_evaluated_file(file, choices, given), to)
    from mlflow_mleval.files.predictions import read_hierarchy
    from mlflow_mleval.report.content.listings import evaluations_document
    from mlflow_mleval.training.label_answers import evaluate_answers

    found, true = (part.strip() for part in choices["labels"].partition(",")[::2])
    if not (found and true):
        raise click.UsageError(
            f"--labels: {choices['labels']!r} is not FOUND,TRUE, such as outputs,expectations."
        )
    if "hierarchy" in given:
        given["hierarchy"] = read_hierarchy(given["hierarchy"])
    where = {name: choices[name] for name in ("method", "dataset", "experiment_name")}
    with progress("reading answers", unit="runs") as step:
        made = evaluate_answers(runs, found, true, progress=step, **where, **given)
    evaluations = []
    for e in made:
        about = {"method": e.method, "dataset": e.dataset, "run_id": e.run_id}
        evaluations.append((e.evaluation, about | {"answers_of": e.source}, e.notes))
    return give(evaluations_document(evaluations), to)


#: How predictions are evaluated, whatever holds them.
_EVALUATION = (
    *("threshold", "probabilities", "conventions", "truth", "train_labels", "measures"),
    *("cluster", "hierarchy", *(str(option.name) for option in _HIERARCHICAL)),
)


def _check_usage(file: str | None, runs: tuple[str, ...], choices: Choices) -> None:
    """A usage error for options that do not go together."""
    if bool(file) == bool(runs):
        both = "give either FILE or --run, not both."
        raise click.UsageError(both if file else "FILE is missing, or --run in its place.")
    spark, typed = choices["engine"] == "spark", flags(click.get_current_context(), typed=True)
    of_hierarchies = [str(option.name) for option in _HIERARCHICAL]
    for when, names, text in (
        (choices["hierarchy"] is None, of_hierarchies, "--hierarchy must be given with {}."),
        (bool(runs), _FOR_FILES, "{} must be left out with --run."),
        (not runs, ["labels"], "{} must be left out without --run."),
        (not spark, ["master"], "{} must go with --engine spark."),
        (spark, _NOT_ON_SPARK, "{} must be left out with --engine spark, which lacks it."),
    ):
        wrong = ", ".join(typed[name] for name in names if name in typed)
        if when and wrong:
            raise click.UsageError(text.format(wrong))
    lacking = [f"--{name}" for name in ("method", "dataset") if choices[name] is None]
    if file and not spark:
        opt.FILE.convert(file, None, click.get_current_context())
    if file and lacking:
        raise click.UsageError(f"Missing option '{', '.join(lacking)}'.")


def _evaluated_file(file: str, choices: Choices, given: Choices) -> Document:
    """Evaluate a file, log what came out, and say it."""
    from mlflow_mleval.files.evaluate_spark import evaluate_with_spark
    from mlflow_mleval.files.predictions import evaluate_file, open_predictions
    from mlflow_mleval.report.content.listings import evaluation_document
    from mlflow_mleval.training.log_evaluation import log_evaluation

    notes: list[str] = []
    log_instances = bool(choices["log_instances"])
    if choices["engine"] == "spark":
        how = {"master": choices["master"], "progress": is_watched()}
        ev, ignored = evaluate_with_spark(file, **how, **given)
    else:
        with progress("evaluating") as step:
            ev = evaluate_file(
                file, **given, instances=log_instances, progress=step, say=notes.append
            )
        ignored = () if "truth" in given else open_predictions(file).ignored
    if "threshold" in given and ev.threshold is None:
        raise click.UsageError(
            f"--threshold: {file!r} has predictions, which need none. Leave it out."
        )
    say("logging …")
    about = {name: choices[name] for name in ("method", "dataset")}
    into = {name: choices[name] for name in ("run_id", "experiment_name")}
    run = log_evaluation(ev, **about, **into, log_instances=log_instances)
    used = [choices["cluster"]]
    if log_instances and ev.instances is not None:
        used += ev.instances.columns.tolist()
    if others := [name for name in ignored if name not in used]:
        notes.append(
            f"not used, because they hold neither truth nor predictions: {', '.join(others)}"
        )
    return evaluation_document(ev, {**about, "run_id": run}, notes)


# ---- `mleval compare --over`: tests over folds, instances and repeats ----------------------------

#: What all tests heed, and what those over each do beside.
ALWAYS = (*opt.selection, *opt.reading, opt.level)
_OF_DATASETS = (*opt.missing, *opt.fusion, *opt.tests)
_OF_ANSWERS = (*opt.answers, opt.shared, opt.difference)
HEEDED = {
    "datasets": (*_OF_DATASETS, *opt.protocol, opt.pairing, *opt.rope, opt.seed),
    "folds": (*opt.protocol, opt.pairing, opt.dependent),
    "instances": (*_OF_ANSWERS, opt.cluster, opt.bound, opt.swaps, opt.seed),
    "repeats": (),
}


def heeded(over: str, choices: Choices) -> Choices:
    """The choices that tests over this heed; a usage error names what was typed for others."""
    typed = flags(click.get_current_context(), typed=True)
    heeds = {over: {o.name for o in leaves(options)} for over, options in HEEDED.items()}
    heed = {name: [at for at, names in heeds.items() if name in names] for name in typed}
    wrong = [(at, typed[name]) for name, at in heed.items() if at and over not in at]
    unfit = grouped((" or ".join(at), flag) for at, flag in wrong)
    if unfit:
        where = "; ".join(
            f"{', '.join(flags)}: only for tests over {places}" for places, flags in unfit.items()
        )
        raise click.UsageError(f"{where}. Leave out what does not fit, or change --over.")
    return arguments(choices, *ALWAYS, *HEEDED[over])


#: Datasets of which an error says why they have no tests.
_REASONS = 3


def _reasons(absent: Mapping[str, str]) -> str:
    """Why there are no tests, for the first datasets."""
    shown = [f"{dataset}: {why}" for dataset, why in absent.items()]
    more = [f"{count(len(shown) - _REASONS, 'more dataset')} likewise."]
    return " ".join([*shown[:_REASONS], *(more if len(shown) > _REASONS else ())])


def run_over(over: str, choices: Choices, to: Target) -> None:
    """Test over the folds, instances or repeats of each dataset, and write."""
    from mlflow_mleval.measures.registry import expand
    from mlflow_mleval.report.content.units import document
    from mlflow_mleval.store.run_answers import any_answers
    from mlflow_mleval.study import without

    say("reading runs …")
    selection, notes = _taken(Selection.of(choices))
    named = expand(selection.measures or ())
    wanted = without(named, selection.exclude_measures) if named else None
    selection = replace(selection, measures=None)
    unanswered = None
    said = any(arguments(choices, *opt.answers, opt.shared).values())
    if over == "instances" and (said or any_answers(selection)):
        taken = (opt.level, opt.cluster, opt.bound, opt.difference, opt.swaps, opt.seed)
        how: dict[str, Any] = {"stage": progress, "say": say, "word": as_option, "measures": wanted}
        try:
            settings = arguments(choices, *taken)
            asked, tests, why = compared_answers(selection, choices, settings, **how)
            absent = {dataset: in_options(reason) for dataset, reason in why.items()}
            if not tests:
                for dataset, error in why.items():
                    if isinstance(error, UndirectedError):
                        raise UndirectedError(f"{dataset}: {error.text}", error.ways)
                raise (MlevalError if asked.found else MissingResultsError)(_reasons(absent))
            origin = provenance(asked.source, list(asked.runs["run_id"]), choices)
            return give(document(tests, origin, absent, [*asked.notes, *notes]), to)
        except MissingResultsError as missing:
            # runs that only claim to hold answers hide no others, unless it was said how to read
            # them
            if said:
                raise
            unanswered = missing
            notes = [*notes, f"Answers were not compared: {missing}"]
    try:
        made = _over_units(over, selection, choices, wanted, notes)
    except MlevalError as error:
        raise unanswered or error from None
    return give(made, to)


def _taken(selection: Selection) -> tuple[Selection, list[str]]:
    """The selection, or where nobody made one what `mleval runs` finds, and a note of that."""
    from mlflow_mleval.store.survey import taken_for_units

    selection, line = taken_for_units(selection)
    if not line:
        return selection, []
    note = f"Taken as `mleval runs` finds it: {line}"
    say(note)
    return selection, [note]


def _over_units(
    over: str, selection: Selection, choices: Choices, wanted: list[str] | None, notes: list[str]
) -> Document:
    """The tests over folds, instances or repeats; an error where there is nothing to test."""
    from mlflow_mleval.report.content.units import document
    from mlflow_mleval.store.query import selected_study
    from mlflow_mleval.store.study_artifacts import selected_folds
    from mlflow_mleval.study import Way, left_out

    if choices.get("difference") is not None:
        raise click.UsageError(
            "--over :difference: only for answers, such as those of mlflow.genai.evaluate. Leave "
            "it out."
        )
    options = arguments(choices, opt.level, *(o for o in HEEDED[over] if o not in _OF_ANSWERS))
    absent: dict[str, str] = {}
    of_tests: list[str] = []
    tests: Mapping[str, PairTests] = {}
    if over == "instances":
        study = selected_study(selection)
        options = {**options, "minimize": selection.minimize, "maximize": selection.maximize}
        tests, absent, of_tests = tested_instances(study, wanted, say, **options)
    elif over == "folds":
        from mlflow_mleval.analysis.fold_comparison import compare_all_folds

        study = selected_folds(replace(selection, measures=wanted))
        if study.folds is not None:
            tests = compare_all_folds(study, absent, measures=wanted, **options)
    else:
        from mlflow_mleval.analysis.pairs_by_unit import compare_all_repeats

        study = selected_study(replace(selection, measures=wanted))
        tests = compare_all_repeats(study, absent, **options)
    study = study.worded(as_option)
    why = {key.removeprefix("folds."): in_options(reason) for key, reason in absent.items()}
    if not tests:
        no_folds = "no selected run holds values by fold. Log them with folds, or test over"
        text = _reasons(why) or f"{no_folds} datasets."
        if selection.results is not None:  # a file that has been typed is typed again with ease
            raise MlevalError(text)
        raise UnclearError(text, [Way("the same over datasets", "compare", selection)])
    # measures that no instance has are told by the tests of those that are there
    gone = left_out(e for e in study.excluded if over != "instances" or e.kind != "measure")
    origin = provenance(study.source, list(study.runs.get("run_id", ())), choices)
    return document(tests, origin, why, [*study.notes, *gone, *of_tests, *notes])


# ---- `mleval profile`: losses between Hamming and subset 0/1, and who is ahead where -------------

_PROFILES = (
    _of_profiles(
        "--family",
        type=click.Choice(["binomial", "polynomial"]),
        default="binomial",
        help="How losses go from Hamming to subset 0/1: by k labels that are right together, or by "
        "the exponent α.",
    ),
    _of_profiles(
        "--kind",
        type=click.Choice(["hard", "soft"]),
        default="hard",
        help="Losses of the predicted label sets, or of the scores.",
    ),
    _of_profiles("--alpha", type=opt.PROBABILITY, default=0.05, help="Chance of any false claim."),
)


@click.command(
    cls=Command,
    params=[*opt.runs, *_PROFILES, *joined(*opt.protocol), opt.timeout, opt.output],
)
def profile(kind: Literal["hard", "soft"], output: str | None, **choices: Any) -> None:
    """Compare loss profiles from Hamming to subset 0/1 loss.

    They show which method is better when few labels have to be right together, which when many, and
    where they cross: a method that is aware of how labels depend on each other loses little on the
    way. Runs that mleval logged carry their profiles. Folds tell where on the way one method is
    better for certain.

    \b
    Examples:
      mleval profile -n mystudy
      mleval profile -n mystudy --dataset yeast --family polynomial -o yeast.html
      mleval profile -n mystudy --method BR --method LP --output json
    """
    from mlflow_mleval.analysis.loss_profiles import compare_profiles
    from mlflow_mleval.report.content.profiles import document
    from mlflow_mleval.store.study_artifacts import HOW, any_profiles, selected_profiles

    to = opt.target(output)
    say("reading runs …")
    try:
        selection, taken = _taken(Selection.of(choices))
    except UnclearError:
        if any_profiles():
            raise
        raise NoRunsError(f"no run in the store has a loss profile. {HOW}") from None
    profiles = selected_profiles(selection, kind)
    profiles = replace(profiles, notes=(*map(in_options, profiles.notes), *taken))
    n_methods, n_datasets = len(profiles.methods), len(profiles.datasets)
    say(f"comparing {count(n_methods, 'method')} on {count(n_datasets, 'dataset')} …")
    compared = compare_profiles(profiles, **arguments(choices, *_PROFILES, *opt.protocol))
    rows = profiles.runs.itertuples()
    ids = [run.run_id for run in rows if (run.dataset, run.method) in profiles.errors]
    give(document(compared, provenance(profiles.source, ids, compared.options)), to)


# ---- `mleval gate`: may this run replace that one? -----------------------------------------------

#: Exit codes beside 0 for SHIP; 1 is a failure and 2 wrong usage, as of every command.
_EXITS = {"ship": 0, "block": 3, "run more": 4}


@click.command(
    cls=Command,
    common=["--champion", "--margin", "--improve", "--slice", "--cluster"],
    params=[
        *opt.of_sides,
        *opt.read(*opt.reading, *opt.answers),
        *opt.gate,
        opt.cluster,
        *joined(*opt.protocol),
        opt.level,
        opt.anytime,
        *joined(opt.seed, opt.swaps),
        Option("Ledger", "--history", is_flag=True, help="Show the gates of the ledger."),
        Option("Output", "--all", "whole", is_flag=True, help="JSON of all rows and settings."),
        opt.timeout,
        opt.output,
    ],
)
@click.argument("candidate", required=False)
def gate(
    candidate: str | None,
    champion: str | None,
    output: str | None,
    whole: bool,
    history: bool,
    **choices: Any,
) -> None:
    """Say whether a candidate may replace a champion.

    SHIP (exit code 0): no measure is worse by its margin or more, and those to improve are better.
    BLOCK (3): some measure, or a slice of it, is worse by more than its margin. RUN MORE (4):
    neither is shown yet; it says how many units that takes, or why nobody can say. SHIP and BLOCK
    of a gate that is made once are each wrong with a chance of at most --alpha, however many
    measures and slices there are; looked at again and again, with --anytime. Failures exit with 1
    and wrong usage with 2, so that a store that is down is never a verdict.

    CANDIDATE and --champion are ids of runs, models:/NAME@ALIAS or models:/NAME/VERSION; with -n
    they are methods of these experiments.

    \b
    Examples:
      mleval gate RUN_B --champion RUN_A --margin f1=0.01 --slice language
      mleval gate models:/tagger/4 --champion models:/tagger@champion
      mleval gate -n mystudy RF-PCT --champion BR --improve macro_f1
      mleval gate models:/tagger/4 --champion models:/tagger@champion \\
        --promote champion
      mleval gate --ledger prompts --history
    """
    from mlflow_mleval import gates
    from mlflow_mleval.report.content.gate import document, history_document
    from mlflow_mleval.store import store

    to = opt.target(output)
    if history:
        if choices["ledger"] is None:
            raise click.UsageError("--history must go with --ledger NAME.")
        return give(history_document(choices["ledger"], gates.history(choices["ledger"])), to)
    if candidate is None or champion is None:
        called = "CANDIDATE" if candidate is None else "--champion"
        raise click.UsageError(f"{called} is missing. Name a run, a model or a method.")
    named = candidate, champion
    candidate, champion = store.pinned(*named)
    # What was judged is written before anything is moved, which may be refused.
    alias, logged = choices.pop("promote"), choices.pop("log")
    move = None if alias is None else gates.promotion(candidate, champion, alias)
    say("reading runs …")
    selection, notes = Selection.of(choices), list[str]()
    # of experiments, whose methods are the two sides
    if any((selection.experiment_names, selection.experiment_ids)):
        selection, notes = _taken(selection)
    asked = {**selection.arguments(), **{k: v for k, v in asked_answers(choices).items() if v}}
    measures = asked.pop("measures", None)
    taken = (*opt.gate, opt.cluster, *opt.protocol, opt.level, opt.anytime, opt.swaps, opt.seed)
    options = arguments({k: v for k, v in choices.items() if v is not None}, *taken)
    verdict = gates.gate(candidate, champion, measures=measures, **options, **asked)
    verdict = replace(verdict, candidate=gates.shown(named[0]), champion=gates.shown(named[1]))
    verdict = replace(verdict, notes=(*notes, *map(in_options, verdict.notes)))
    run_ids = [run_id for ids in verdict.runs.values() for run_id in ids]
    made = document(verdict, provenance(verdict.source, run_ids, choices))
    if whole:
        made = replace(made, data=lambda: verdict.to_dict(whole=True))
    give(made, to)
    if logged:
        say(f"logged with run {gates.log_verdict(verdict)}")
    if move is not None and verdict.ship:
        click.echo(move(), err=True)
    raise SystemExit(_EXITS[verdict.decision])
