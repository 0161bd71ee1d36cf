"""A hundred runs that carry something random: commands go on, and good runs are read as they are.

MLEVAL_ATTACK=N makes N such stores, each from a seed of its own.
"""

import json
import os
import random
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from poisons import Writer, change, many, mutated, parquet

import mlflow_mleval as mleval
from mlflow_mleval.store import schema, store

TIMES = int(os.environ.get("MLEVAL_ATTACK", "1"))
MOST_MEGABYTES = 1000
POISONS = 50
ELSEWHERE = json.dumps({"schema": 1, "omitted": schema.ARTIFACT_FOLDS})
PROFILE_ELSEWHERE = '{"schema":1,"n_labels":1000,"omitted":"mleval/profile.csv"}'
OF_TABLES = {schema.TAG_FOLDS: ELSEWHERE, schema.TAG_PROFILES["hard"]: PROFILE_ELSEWHERE}
#: What each tag holds in a sound run.
SOUND = {
    schema.TAG_FOLDS: schema.encode_folds([0, 1], {"f1": [0.5, 0.25]}),
    schema.TAG_FOLD_SIZES: schema.encode_fold_sizes([5, 5], [5, 5]),
    schema.TAG_PROFILES["hard"]: schema.encode_profile([[4, 1, 0], [3, 1, 1]], [0, 1]),
    schema.TAG_PROFILES["soft"]: schema.encode_soft_profile([[0.75, 0.25]], [20]),
    schema.TAG_WITHDRAWN: '["f1"]',
    schema.TAG_SCHEMA: "1",
    schema.TAG_RUN: '{"schema":1,"updated":"1"}',
    schema.TAG_STATUS: "complete",
    schema.TAG_SELECTED: "3",
    schema.TAG_CONVENTIONS: "sklearn",
    schema.TAG_SPLIT_DIGEST: "ab",
    schema.TAG_DATASET_DIGEST: "ab",
    schema.TAG_ANSWERS: "ab",
    schema.TAG_KIND: "evaluation",
    "mlflow.linkedPrompts": '[{"name":"qa","version":"1"}]',
    "mlflow.loggedArtifacts": '[{"path":"a.json","type":"table"}]',
    "mlflow.parentRunId": "0" * 32,
    "mlflow.runType": "genai_evaluate",
}
SCHEMES = [
    *("ftp", "http", "https", "sftp", "hdfs", "viewfs", "file", "runs", "models"),
    *("mlflow-artifacts", "dbfs", "x", ""),
]
HOSTS = [
    *("user:p/w@127.0.0.1:1", "[::1", "127.0.0.1:99999999", "127.0.0.1:-1", "127.0.0.1:1", ""),
    *("%00", "a b", "\u2100", "@@"),
]
PATHS = [
    *("/a", "", "/../..", "/%2e%2e/x", "//", "/abc/x", "/\x00", "/" + "a" * 300, "/latest"),
    *("?q=%", "#f", "/\n"),
]
TIMES_OF_DAY = [2**63 - 1, -(2**63), 0, -1, 2**53, 253402300800000, 9223372036855]
#: MLflow's client takes no NaN.
NUMBERS = [1e308, -1e308, 1.7976931348623157e308, 1e151, -1e200, 5e-324, -0.0]
NUMBERS += [float("inf"), float("-inf")]
READER = """
import json, sys
from pathlib import Path
from click.testing import CliRunner
from mlflow_mleval.cli import main
measure, folds = ["-m", "f1"], ["--read", "folds-by=steps"]
commands = [
    ["rank", "--missing", "worst"], ["compare", "--missing", "worst"], ["runs"], ["profile"],
    ["report", "--missing", "worst", "--seed", ":draws=20", "-o", "r.html"], ["compare", "--over", "instances", *measure],
    ["compare", "--over", "folds", "-m", "tp"],
    ["rank", "--missing", "worst", "--read", "duplicates=mean", *folds],
]
for command in commands:
    done = CliRunner().invoke(main, [*command, "-n", "x"])
    sound = done.exception is None or isinstance(done.exception, SystemExit)
    print(json.dumps([command, done.exit_code, sound, done.output[-2000:], repr(done.exception)]))
# not `ru_maxrss`, which begins with that of the parent
peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
print(json.dumps(peak // 1024))
"""  # noqa: E501


def tables(seed=0):
    """What a sound run holds, path to content."""
    label, fold = ["a"] * 4 + ["b"] * 4, [*range(4), *range(4)]
    rng = np.random.default_rng(seed)
    counts = {cell: rng.integers(1, 50, 8) for cell in ("tp", "fp", "fn", "tn")}
    profile = "family,kind,parameter,loss\nerrors,hard,1,0.5\nerrors,hard,2,0.25\n"
    instances = {m: [0.5, 1.0, 0.25, 0.75] for m in ("f1", "hamming_loss")}
    return {
        schema.ARTIFACT_FOLDS: parquet(fold=[0, 1], f1=[0.5, 0.25], hamming_loss=[0.5, 0.25]),
        schema.ARTIFACT_COUNTS: parquet(fold=fold, label=label, **counts),
        schema.ARTIFACT_INSTANCES: parquet(instance=[0, 1, 2, 3], **instances),
        schema.ARTIFACT_PROFILE: profile.encode(),
    }


def flipped(chance, content):
    """The content with some bits turned over, or cut."""
    content, size = bytearray(content), len(content)
    for _ in range(chance.randint(1, 12)):
        content[chance.randrange(size)] ^= 1 << chance.randrange(8)
    return bytes(content[: chance.choice([size, size, chance.randrange(size)])])


def address(chance):
    scheme, host, path = chance.choice(SCHEMES), chance.choice(HOSTS), chance.choice(PATHS)
    return chance.choice([f"{scheme}://{host}{path}", f"{scheme}:{path}", f"{host}{path}"])[:200]


def strange(log, chance, i):
    """A run that is odd in one thing that a member may set."""
    kind, method = i % 5, f"z{i}"
    if kind == 0:
        log(method, OF_TABLES, address=address(chance))
    elif kind == 1:
        log(method, start=chance.choice(TIMES_OF_DAY))
    elif kind == 2:
        for seed in ("0", "1"):
            log(method, {"seed": seed}, values=chance.choices(NUMBERS, k=2))
    else:
        tag = chance.choice([*SOUND])
        log(method, {tag: mutated(chance, SOUND[tag])})


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(TIMES))
def test_no_run_stops_a_command(client, db, seed):
    """MLEVAL_ATTACK=10 pytest -m thorough tests/attack/test_any_poison.py"""
    chance, writer = random.Random(seed), Writer(client, db)
    writer.good(4, tables)
    chosen = {"experiment_names": ["x"], "measures": ["f1", "hamming_loss"]}
    before = mleval.load_study(**chosen)
    for i in range(POISONS):
        strange(writer.log, chance, i)
        damaged = {path: flipped(chance, content) for path, content in tables().items()}
        writer.log(f"y{i}", OF_TABLES, files=damaged)
    study = mleval.load_study(**chosen, missing="worst", duplicates="mean")
    there = study.values.loc[before.values.index, list(before.values)]
    pd.testing.assert_frame_equal(there, before.values)
    command = [sys.executable, "-c", READER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    *commands, megabytes = map(json.loads, done.stdout.splitlines())
    for command, code, sound, output, error in commands:
        assert sound and code == 0, (command, output, error)
    print(f"seed {seed}: {2 * POISONS} poisoned runs, {megabytes} MB")
    assert megabytes < MOST_MEGABYTES


@pytest.mark.parametrize("more", [0, store.PAGE])
def test_a_run_without_a_start_time_is_left_out(client, db, more):
    """MLflow itself cannot read it, nor a page that holds it."""
    writer = Writer(client, db)
    writer.good(4, tables)
    many(db, writer.log("first"), more)
    timeless = writer.log("z")
    change(db, "start_time", None, timeless)
    study = mleval.load_study(experiment_names=["x"])
    assert study.methods[:3] == ["a", "b", "c"] and "z" not in study.methods
    assert len(study.methods) == 4 + more
    assert any("Runs without a start time are left out" in note for note in study.notes)


def test_whatever_reading_one_run_raises_is_a_reason(client, db):
    """A store that fails is an error all the same."""

    def raising(error):
        def read():
            raise error

        return read

    for kind in (OverflowError, AssertionError, RecursionError, MemoryError, OSError):
        assert store.of_one_run(raising(kind("odd"))) == f"{kind.__name__}: odd"
    assert store.of_one_run(lambda: 3) == 3
    db.unlink()
    with pytest.raises(mleval.errors.StoreError, match="there is no store"):
        store.of_one_run(raising(OSError("gone")))
