"""Whatever one run carries, the command goes on, names it, and takes no more memory than it may.

MLEVAL_ATTACK=N makes everything N times as large.
"""

import io
import json
import os
import random
import subprocess
import sys
import zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from import_cases import DATASETS, METHODS, RESULTS, import_at_once, one_run_a_pair
from poisons import Writer, many, mutated, parquet

import mlflow_mleval as mleval
from mlflow_mleval.cli import main
from mlflow_mleval.errors import ImportFileError
from mlflow_mleval.files.predictions import evaluate_file
from mlflow_mleval.store import importing, schema, store
from mlflow_mleval.store.importing import import_results

pytestmark = pytest.mark.thorough
TIMES = int(os.environ.get("MLEVAL_ATTACK", "1"))
DEEP = "[" * 3500 + "]" * 3500
WIDE = {"schema": 1, "n_labels": 10**7, "folds": list(range(250))}
WIDE = json.dumps(WIDE | {"sparse": [[0, 1, 10**7 - 1, 1]] * 250}, separators=(",", ":"))
HUGE = "9" * 401
HEAD = "family,kind,parameter,loss\n"
#: By tag, what ends, hangs or fills the memory of a careless reader.
TAGS = {
    "mleval.folds": [
        *('{"schema":1,"folds":[Infinity],"values":{"f1":[0.5]}}', DEEP, "nul", "\ud7ff"),
        f'{{"schema":1,"folds":[{HUGE}],"values":{{"f1":[0.5]}}}}',
        *(f'{{"schema":1,"folds":[1],"values":{{"f1":[{v}]}}}}' for v in ("1e999", '"Infinity"')),
        *(f'{{"schema":1,"omitted":"{path}"}}' for path in ("/etc/passwd", "../../etc/passwd")),
        *('{"schema":1,"omitted":"mleval/"}', '{"schema":1,"omitted":{"a":1}}', '{"schema":[]}'),
        *(f'{{"schema":{HUGE}}}', '{"schema":1,"folds":1,"values":[]}', '{"schema":99}'),
        '{"schema":1,"folds":[1],"values":{"f1":[0.5]},"digits":[]}',
    ],
    "mleval.fold_sizes": [
        *(DEEP, "[]", '{"n_test":[Infinity],"n_train":[]}', '{"n_test":{"a":1},"n_train":[1]}'),
        *(f'{{"n_test":[{n}],"n_train":[1]}}' for n in (HUGE, "-5", "NaN")),
        '{"n_test":"12","n_train":"3"}',
    ],
    "mleval.withdrawn": [DEEP, "{}", '["f1', "[[]]", HUGE],
    "mleval.schema": ["2", HUGE, "-1", "x"],
    "mleval.run": [
        *(DEEP, "[]", "null", '{"updated":"1"}', '{"schema":2}', f'{{"schema":{HUGE}}}'),
        *('{"schema":1,"epoch":3}', '{"schema":1,"withdrawn":"[\\"f1'),
        '{"schema":1,"fold_sizes":"[]"}',
    ],
}
PROFILES = [
    '{"schema":1,"n_labels":Infinity,"counts":[[1]]}',
    f'{{"schema":1,"n_labels":{HUGE},"counts":[[1]]}}',
    DEEP,
    '{"schema":1,"n_labels":10000000,"sparse":[[0,1,9999999,1]]}',
    '{"schema":1,"n_labels":3,"counts":[[1,-1]]}',
    f'{{"schema":1,"n_labels":3,"counts":[[{HUGE}]]}}',
    '{"schema":1,"n_labels":3,"sparse":[[0]]}',
    '{"schema":1,"n_labels":3,"errors":[[1e999]],"n":[1]}',
    '{"schema":1,"n_labels":3,"errors":[["NaN"]],"n":[1]}',
    '{"schema":1,"n_labels":9,"omitted":"/etc/passwd"}',
    WIDE,
]


@pytest.fixture
def writer(client, db):
    return Writer(client, db)


@pytest.fixture
def log(writer):
    """Logs a run of ours."""
    return writer.log


@pytest.fixture
def good(writer):
    """Those on d hold counts by themselves, those on e as they are logged now."""
    held = {schema.ARTIFACT_COUNTS: SOUND}, {schema.ARTIFACT_DATA: zipped(SOUND)}
    writer.good(2, lambda i: held[i % 2])
    return ["a", "b", "c"]


def mleval_cli(*args):
    return CliRunner().invoke(main, [*args, "-n", "x"])


def reported():
    """A report is made in spite of all."""
    done = mleval_cli("report", "--missing", "worst", "--seed", ":draws=20", "-o", "r.html")
    assert done.exit_code == 0, done.output


def said_of(study, run_id):
    return [e for e in study.excluded if run_id in e.name]


def spoilt(log, path, contents, tags=()):
    """Runs by name, each with one of these contents as its artifact."""
    return {name: log(f"bad {name}", tags, files={path: c}) for name, c in contents.items()}


def test_poisoned_tags_are_named_and_the_others_are_read(good, log):
    poisoned = [
        log(f"bad {tag}{i}", {tag: text}) for tag in TAGS for i, text in enumerate(TAGS[tag])
    ]
    study = mleval.load_study(experiment_names=["x"], missing="worst")
    assert set(good) <= set(study.methods)
    assert study.folds.loc["e"].loc["a", "f1"].tolist() == [0.51, 0.6]
    for run_id in poisoned:
        (said,) = said_of(study, run_id)
        assert 0 < len(said.reason) < 500, said
    reported()
    excluded = json.loads(Path("r_data/report.json").read_text())["excluded"]
    named = [entry["name"] for entry in excluded]
    assert all(any(run_id in name for name in named) for run_id in poisoned)


def test_poisoned_profiles_are_named_and_the_others_are_read(good, log):
    poisoned = [log(f"bad{i}", {"mleval.profile": text}) for i, text in enumerate(PROFILES)]
    for i, text in enumerate(PROFILES):
        log(f"bad soft{i}", {"mleval.soft_profile": text})
    found = mleval.load_profiles("hard", experiment_names=["x"])
    assert found.on("e") == good
    assert all(any(run_id in why for why in found.absent.values()) for run_id in poisoned)
    reported()
    omitted = {"mleval.profile": '{"schema":1,"n_labels":1000,"omitted":"mleval/profile.csv"}'}
    wrong = [HEAD + "errors,hard,1e18,0.5", HEAD + "errors,hard,1,inf"]
    texts = [text.encode("latin-1") for text in (*wrong, HEAD, "x\n", "\0", '"', "\xff\xfe")]
    bad = spoilt(log, schema.ARTIFACT_PROFILE, dict(enumerate(texts)), omitted)
    found = mleval.load_profiles(experiment_names=["x"])
    assert found.on("e") == good
    assert all(run_id in found.absent[f"bad {name} on d"] for name, run_id in bad.items())
    bad = log("z", {"mleval.schema": "9"})  # is an error where it is named
    for command, code in (("rank", 1), ("runs", 0)):  # what `runs` finds is no failure of its own
        done = mleval_cli(command, "--run-id", bad)
        assert done.exit_code == code and bad[:8] in done.output and "schema 9" in done.output
        assert "Traceback" not in done.output


FOLDS = json.dumps({"schema": 1, "omitted": schema.ARTIFACT_FOLDS})
TEXT = b"PAR1 no table"
OTHERS = {"fp": [1, 1], "fn": [1, 1], "tn": [1, 1], "label": ["a", "a"]}
SOUND = parquet(fold=[0, 1], tp=[1, 2], **OTHERS)
GARBAGE = {
    "text": TEXT,
    "empty": b"",
    "other columns": parquet(x=[1]),
    "lists": parquet(fold=[[1]], f1=[[1.0]], tp=[[1]]),
    "infinite": parquet(fold=[0, 1], f1=[1.0, np.inf], tp=[1.0, np.inf], instance=[0, 1], **OTHERS),
    "odd folds": parquet(fold=[0.5, np.inf], f1=[1.0, 1.0], tp=[1, 1], **OTHERS),
}


def test_garbage_folds_and_counts_are_named_and_the_others_are_read(good, log):
    bad = spoilt(log, schema.ARTIFACT_FOLDS, GARBAGE, {"mleval.folds": FOLDS})
    study = mleval.load_study(experiment_names=["x"], missing="worst")
    assert len(study.folds) == 12
    assert all([e.kind for e in said_of(study, run_id)] == ["artifact"] for run_id in bad.values())
    reported()
    bad = spoilt(log, schema.ARTIFACT_COUNTS, GARBAGE)
    archives = spoilt(log, schema.ARTIFACT_DATA, ARCHIVES)
    counted = mleval.with_counts(mleval.load_study(experiment_names=["x"], missing="worst"))
    assert [counted.folds.loc[d].loc["a", "tp"].tolist() for d in "de"] == [[1, 2], [1, 2]]
    for run_id in bad.values():
        assert [e.kind for e in said_of(counted, run_id)] == ["artifact"]
    assert all(said_of(counted, run_id) for run_id in archives.values())


def zipped(content=b"", entries=1):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as together:
        together.writestr("counts.parquet", content)
        for i in range(entries - 1):
            together.writestr(str(i), b"")
    return bytearray(buffer.getvalue())


def claiming(size):
    """A zip whose file says that it is so large."""
    content = zipped(content=b"\0" * 1000)
    at = content.index(b"PK\1\2") + 24
    content[at : at + 4] = size.to_bytes(4, "little")
    return content


def damaged():
    content = zipped(content=os.urandom(1000))
    content[200] ^= 255
    return content


ARCHIVES = {
    "no archive": TEXT,
    "nothing": b"",
    "a long list": zipped(entries=10_000),
    "a large file": claiming(2**32 - 2),
    "a file of another size": claiming(2_000),
    "damaged": damaged(),
    "cut": zipped()[:-1],
    "a list elsewhere": zipped()[:-22] + b"PK\6\7" + bytes(16) + zipped()[-22:],
    "no table": zipped(content=TEXT),
}


def test_garbage_instances_are_named_and_the_others_are_read(log):
    sound = parquet(instance=[0, 1, 2], f1=[0.5, 1.0, 0.25], hamming_loss=[0.1, 0.2, 0.3])
    given = {"a": sound, "b": sound} | {f"bad {name}": content for name, content in GARBAGE.items()}
    path = schema.ARTIFACT_INSTANCES
    ids = {name: log(name, files={path: content}) for name, content in given.items()}
    done = mleval_cli("compare", "--over", "instances", "-m", "f1", "--output", "json")
    assert done.exit_code == 0, done.output
    assert all(ids[f"bad {name}"] in done.output for name in GARBAGE) and "left out" in done.output


READER = """
from pathlib import Path
import mlflow_mleval as mleval
study = mleval.load_study(experiment_names=["x"], missing="worst")
found = mleval.profiles_of(study)
found.losses("d")
counted = mleval.with_counts(study)
# not `ru_maxrss`, which begins with that of the parent
peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
print(len(counted.excluded), peak // 1024)
"""


def test_no_poison_takes_a_gigabyte(good, log):
    """Megabytes of constant rows compress to little; n_labels of ten millions is one number."""
    rows = 4 * 10**8
    constant = Path("constant.parquet")
    zeros = pa.array(np.zeros(10**6, np.int64))
    step = pa.table(dict.fromkeys(("fold", "f1", "tp", "fp", "fn", "tn"), zeros))
    with pq.ParquetWriter(constant, step.schema, compression="zstd") as file:
        for _ in range(rows // 10**6 // (1 if TIMES > 1 else 10)):
            file.write_table(step)
    for i in range(5 * TIMES):
        tags = {"mleval.profile": WIDE if i % 2 else PROFILES[3], "mleval.folds": FOLDS}
        paths = schema.ARTIFACT_FOLDS, schema.ARTIFACT_COUNTS
        log(f"wide{i}", tags, files=dict.fromkeys(paths, constant.read_bytes()))
    log("y", files={schema.ARTIFACT_COUNTS: SOUND})
    done = subprocess.run([sys.executable, "-c", READER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    named, megabytes = map(int, done.stdout.split())
    assert named == 10 * TIMES and megabytes < 1000


def test_names_that_unfold_are_refused(tmp_path):
    first = pa.array(np.zeros(10**6, np.int32))
    long = pa.DictionaryArray.from_arrays(first, pa.array(["x" * 10_000]))
    pq.write_table(pa.table({"label": long, "tp": np.zeros(10**6)}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="the names in its column label take 10,000,000,000 bytes"):
        schema.read_table(tmp_path / "t.parquet", ["tp"], ["label"])


DECODERS = (
    *(schema.decode_folds, schema.decode_fold_sizes, schema.decode_withdrawn),
    *(schema.decode_profile, partial(schema.decode_profile, kind="soft"), schema.bounded_json),
)
ENCODED = [
    schema.encode_folds([1, 2], {"f1": [0.5, 0.25]}),
    schema.encode_fold_sizes([1, 2], [3, 4]),
    schema.encode_profile([[5, 1, 0], [4, 0, 2]], [1, 2]),
    schema.encode_soft_profile([[0.75, 0.25]], [20]),
    '["f1"]',
    FOLDS,
    '{"schema":1,"n_labels":9,"sparse":[[0,5,9,1]]}',
]
SPOILT = st.builds(mutated, st.randoms(), st.sampled_from(ENCODED))


@given(SPOILT | st.text(max_size=60), st.sampled_from(DECODERS))
@settings(max_examples=400 * TIMES)
def test_decoders_answer_or_raise_valueerror(text, decode):
    try:
        found = decode(text)
    except ValueError:
        return
    for row in getattr(found, "rows", ()):
        assert len(row) <= found.n_labels + 1 and all(0 <= v < 10**19 for v in row)


@given(st.data(), st.sampled_from(["parquet", "csv", "npz"]))
@settings(max_examples=80 * TIMES, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files_are_named_in_one_line(tmp_path, data, kind):
    rng = np.random.default_rng(0)
    Y, S = rng.integers(0, 2, (200, 3)), rng.random((200, 3))
    path = tmp_path / f"p.{kind}"
    if kind == "npz":
        np.savez_compressed(path, y_true=Y, y_score=S, folds=np.arange(200) % 5)
    else:
        parts = {"true": Y, "score": S}.items()
        table = pd.DataFrame({f"{what}_{i}": m[:, i] for what, m in parts for i in range(3)})
        table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.sampled_from([len(content), len(content) // 2]))])
    try:
        evaluate_file(path)
    except (ImportFileError, ValueError) as error:
        assert "p." in str(error) or not isinstance(error, ImportFileError)
    with suppress(ValueError):
        schema.read_table(path, ["true_0"])


def test_parallel_imports_make_each_run_once(client):
    import_at_once(4 * TIMES)
    one_run_a_pair(client)
    assert import_results(RESULTS, experiment_name="x").unchanged == len(METHODS) * len(DATASETS)


def test_an_import_says_that_another_was_first(client, monkeypatch):
    """It begins before the other has written, and ends after it."""
    import_results(RESULTS, experiment_name="x")
    honest, looks = importing._imported, iter([({}, [])])
    monkeypatch.setattr(importing, "_imported", lambda *args: next(looks, None) or honest(*args))
    second = import_results(RESULTS, experiment_name="x")
    assert (second.created, second.unchanged) == (0, len(METHODS) * len(DATASETS))
    assert "another import made the runs of" in second.summary()
    one_run_a_pair(client)


@pytest.mark.parametrize("seed", range(2 * TIMES))
def test_what_is_read_in_pages_is_what_there_was_at_one_time(client, db, log, monkeypatch, seed):
    """Runs come and go between pages, in every other case of one start time."""
    chance = random.Random(seed)
    made = [log("first", start=1_000)]
    made += many(db, made[0], 2 * store.PAGE + 200, apart=1 - seed % 2)
    honest, left = store.pages, [4]

    def changing(*search):
        for page in honest(*search):
            yield page
            if left[0]:
                left[0] -= 1
                client.delete_run(made.pop(chance.randrange(len(made))))
                made.append(log(f"new{left[0]}"))

    monkeypatch.setattr(store, "pages", changing)
    study = mleval.load_study(experiment_names=["x"])
    assert sorted(study.runs["run_id"]) == sorted(made)
    assert not any("Read again" in note for note in study.notes)
    assert not any(e.kind == "run" for e in study.excluded)
    left[0] = 10**6
    assert any("Read again" in note for note in mleval.load_study(experiment_names=["x"]).notes)


REPORT = """
import os, resource, signal, sys
from mlflow_mleval.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit fails as on a full disk
import mlflow_mleval.report.content.study_report, mlflow_mleval.store.query  # compiled before
for folder in sys.argv[1:]:
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(folder.rpartition(" ")[2]), resource.RLIM_INFINITY))
    try:
        main(["report", "-n", "x", "--missing", "worst", "--seed", ":draws=20", "-o", "r.html"])
    except SystemExit as end:
        print("exit code", end.code, file=sys.stderr)
"""  # noqa: E501


def test_a_full_disk_leaves_the_report_whole_or_not_at_all(good, tmp_path):
    """With room for 3 or 20 kB, and no report before or an old one."""
    old = {"r.html": "old", "r_data/report.json": "old"}
    folders = {tmp_path / f"none {room}": {} for room in (3_000, 20_000)}
    folders |= {tmp_path / f"old {room}": old for room in (3_000, 20_000)}
    for folder, files in folders.items():
        folder.mkdir()
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
    command = [sys.executable, "-B", "-c", REPORT, *folders]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 8 and lines[1::2] == ["exit code 1"] * 4, done.stderr
    assert all(line.startswith("Error: cannot write 'r") for line in lines[::2]), done.stderr
    for folder, files in folders.items():
        left = [path for path in folder.rglob("*") if path.is_file()]  # no half-written file either
        assert {path.relative_to(folder).as_posix(): path.read_text() for path in left} == files
        assert (folder / "r_data").exists() == bool(files)
