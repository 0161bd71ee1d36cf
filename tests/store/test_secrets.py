"""A password gets into no output: no name, error, traceback, warning, run or report."""

import contextlib
import html
import inspect
import itertools
import json
import logging
import re
import sqlite3
import traceback
import warnings
from base64 import b64encode, urlsafe_b64encode
from collections import deque
from urllib.parse import quote

import click
import markupsafe
import mlflow
import numpy as np
import pytest
from command_line import as_json
from command_line import mleval as run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja2.utils import htmlsafe_json_dumps
from passwords import CORE, PASSWORDS, clean
from sklearn.datasets import make_multilabel_classification
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators

import mlflow_mleval as mleval
from mlflow_mleval import secrets
from mlflow_mleval.cli import main
from mlflow_mleval.cli.command import Command, provenance
from mlflow_mleval.errors import StoreError
from mlflow_mleval.store import runs, store
from mlflow_mleval.store.query import load_study
from mlflow_mleval.training import delivery
from mlflow_mleval.training.autolog import Sink
from mlflow_mleval.training.estimators import params_of

SHAPES = [
    *("http://me:{}@127.0.0.1:9", "http://:{}@127.0.0.1:9/x", "postgresql://me:{}@127.0.0.1:9/db"),
    *("me:{}@127.0.0.1", "mysql+pymysql://me:{}@127.0.0.1:9/db?charset=utf8"),
    *("postgresql+psycopg2://127.0.0.1:9/db?password={}", "http://me:{}", "postgresql://me:{}/db"),
    "http:/me:{}@127.0.0.1:9",
]
TOKENS = [
    *("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_PASSWORD", "DATABRICKS_TOKEN"),
    *("DATABRICKS_CLIENT_SECRET", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    "MLFLOW_CRYPTO_KEK_PASSPHRASE",
]
SETTING = "mlflow_tracking_password"
hostile = st.text(
    st.sampled_from("/#?@:%&= aé密\\'\"") | st.characters(codec="utf-8", exclude_categories=["Cs"]),
    max_size=5,
)
one_fixture = [HealthCheck.function_scoped_fixture]
small = settings(max_examples=60, deadline=None, suppress_health_check=one_fixture)
X, Y = make_multilabel_classification(60, 4, n_classes=3, random_state=0)


def whole(error):
    """The error as a log would show it, and what a log may dig out of it beyond."""
    chain, seen = [error], []
    while chain:
        one = chain.pop()
        seen += ["".join(traceback.format_exception(one, chain=False)), repr(one)]
        chain += [e for e in (one.__cause__, one.__context__) if e is not None]
    return "\n".join(["".join(traceback.format_exception(error)), *seen])


@pytest.fixture(autouse=True)
def nothing_met(monkeypatch):
    monkeypatch.setattr(secrets, "_met", deque(maxlen=100))


@pytest.fixture
def impatient(monkeypatch, unset, tmp_path):
    for name, value in {"TIMEOUT": "1", "MAX_RETRIES": "0", "BACKOFF_FACTOR": "0"}.items():
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)
    monkeypatch.chdir(tmp_path)
    return monkeypatch


#: The user is shown, unless it may be a token.
OPEN = [
    *("http://host:5000/#/experiments/1", "localhost:5000", "http://[::1]:5000/x", "databricks"),
    *("sqlite:////home/me@work/a:b.db", "C:\\runs\\mlflow.db", "/home/me@work/mlruns"),
    *("databricks://profile", "postgresql+psycopg2://postgres@database:5432/mlflow"),
    *("sftp://me%40work.org@host/a", "http://me@host:5000", "http://me:@host:5000", ""),
]


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://me:a/b@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:a#b@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://me:a?b@host/db?a=require", "postgresql://me:***@host/db?a=require"),
        ("postgresql://me:a?b=c@host/db", "postgresql://***"),
        ("http://me:p@55@host", "http://me:***@host"),
        ("mysql+x://u:p@h/db?a=b&password=x", "mysql+x://u:***@h/db?a=b&password=***"),
        ("me:secret@host/db?password=x", "me:***@host/db?password=***"),
        ("me:secret", "***"),
        ("http://me:secret/x", "http://***"),
        ("http://host/x?password=a&b", "http://host/x?password=***&***"),
        ("mssql+pyodbc:///?odbc_connect=A%3Dx%3BPWD%3Dsecret", "mssql+pyodbc:///?odbc_connect=***"),
        ("http://host/#token=a", "http://host/#token=***"),
        *((uri, uri) for uri in OPEN),
        ("http://user1:x@host", "http://user1:***@host"),
        ("http://:x@host", "http://***@host"),
        ("https://u1@host", "https://***@host"),
        ("https://ghp_0123456789abcdef:x-oauth-basic@host/x.git", "https://***@host/x.git"),
        ("postgresql://a b:x@host/db", "postgresql://***@host/db"),
    ],
)
def test_what_cannot_be_parsed_is_not_shown(uri, shown):
    assert store.masked(uri) == shown


def test_no_password_is_in_the_name_of_the_store():
    for shape, password in itertools.product(SHAPES, PASSWORDS):
        for form in (password, quote(password, safe=""), quote(password)):
            if "@" in form and shape in ("http://me:{}", "postgresql://me:{}/db"):
                continue  # what is behind that is a host
            clean(store.masked(shape.format(form)))


@small
@given(hostile, st.sampled_from(SHAPES[:5]), st.booleans())
def test_no_password_is_in_the_name_of_the_store_whatever_it_is(middle, shape, encoded):
    password = f"{CORE}{middle}{CORE[::-1]}"
    uri = shape.format(quote(password, safe="") if encoded else password)
    clean(store.masked(uri))
    spelled = uri, password, repr(password), quote(password), quote(password, safe="")
    for seen in (*spelled, f"at {uri}/api/2.0"):
        clean(secrets.redacted(f"before {seen} behind", uri))


def test_what_is_no_secret_is_left_alone(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "a")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "")
    monkeypatch.setenv("MLFLOW_TRACKING_AWS_SIGV4", "true")
    addresses = "http://host:80/x?run=1", "see https://medium.com/@me.", "sqlite:///mlflow.db"
    words = "Basic measures are shown.", "Bearer tokens are refused", "the basic 0.5 of it"
    for text in ("a true story", "f1@5 of BR:knn@5", *addresses, *words):
        assert secrets.redacted(text, "sqlite:///mlflow.db") == text
    assert secrets.redacted("Authorization: Basic bWU6cGFzcw==,") == "Authorization: Basic ***,"
    assert secrets.redacted("{'a': 'bearer eyJ0.eyJ1.x-_'}") == "{'a': 'bearer ***'}"
    assert secrets.redacted("pw and pwd", "http://me:pw@host") == "*** and pwd"
    assert secrets.redacted("GET /b?X-Amz-Signature=0a1b&x=1") == "GET /b?X-Amz-Signature=***&x=1"
    found = secrets.redacted("cannot read 'ftp://me:pw@host/x'.")
    assert found == "cannot read 'ftp://me:***@host/x'."


def test_tokens_of_the_environment_are_redacted(monkeypatch):
    token = f"{CORE}/+ {CORE}"
    for name in TOKENS:
        monkeypatch.setenv(name, token)
        for form in (token, quote(token), quote(token, safe="")):
            clean(secrets.redacted(f"Bearer {form}."))
        monkeypatch.delenv(name)


def test_what_reads_like_a_word_is_hidden_as_a_whole_word_of_a_message_only(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "postgres")
    uri = "postgresql://postgres:postgres@postgres:5432/postgres"
    shown = "postgresql://postgres:***@postgres:5432/postgres"
    said = 'no role "postgres" in postgres_2, by postgresql 15 at postgres://host'
    hidden = said.replace('"postgres"', '"***"')
    assert secrets.redacted(f"{uri}: {said}", uri) == f"{shown}: {hidden}"
    assert secrets.redacted(f"{uri}: {said}", uri, typed=True) == f"{shown}: {said}"
    monkeypatch.setenv("PGPASSWORD", "1234")
    told = secrets.redacted("seeds 1234, 12345, 0.1234 and 1234.5; a%0A1234, 'a\\n1234'")
    assert told == "seeds ***, 12345, 0.1234 and 1234.5; a%0A***, 'a\\n***'"


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_is_hidden_however_a_server_spells_it(password):
    login = f"me:{password}"
    uri = f"http://me:{quote(password, safe='')}@127.0.0.1:9"
    sent = password.encode()
    spellings = [
        *(html.escape(password), html.escape(password, quote=False), markupsafe.escape(password)),
        "".join(f"&#{ord(c)};" if not c.isalnum() else c for c in password),
        *(json.dumps(password), json.dumps(password, ensure_ascii=False)),
        *(htmlsafe_json_dumps(password), repr(repr(password)), str(sent)),
        *(sent.decode("latin-1"), sent.decode("ascii", "replace")),
        *(quote(quote(password, safe=""), safe=""), " ".join(password.split()), password.lower()),
        *(encode(login.encode()).decode() for encode in (b64encode, urlsafe_b64encode)),
        b64encode(login.encode()).decode().rstrip("="),
        quote(b64encode(login.encode()), safe=""),
    ]
    for spelling in spellings:
        told = secrets.redacted(f"before {spelling} behind", uri)
        clean(told)
        assert re.fullmatch(r"before ['\"\\b]*\*\*\*[='\"\\%3D]* behind", told), (spelling, told)


@pytest.mark.parametrize("key", [f"{SETTING} =", f"{SETTING.upper()}:", SETTING])
def test_the_file_of_credentials_is_known(monkeypatch, tmp_path, key):
    password = f"{CORE}%2F{CORE}"
    lines = ["[mlflow]", "mlflow_tracking_username = them", f"{key} {password}", ""]
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".mlflow").mkdir()
    (tmp_path / ".mlflow" / "credentials").write_text("\n".join(lines))
    in_a_header = b64encode(f"them:{password}".encode()).decode()
    clean(secrets.redacted(f"{password}, or {CORE}/{CORE}, found: '%2F{CORE}'"))
    assert secrets.redacted(f"as {in_a_header}, them") == "as ***==, them"


def test_passwords_of_addresses_that_were_met_are_hidden():
    secrets.remember("ftp://me@host/a")
    for k in range(150):
        secrets.remember(f"ftp://me:{CORE}/w{k}@host/a")
    secrets.remember("ftp://me:hUsH4zQ@host/a")
    told = secrets.redacted(f"Port could not be cast to integer value as '{CORE}', hUsH4zQ, /w149")
    assert told == "Port could not be cast to integer value as '***', ***, /***"
    assert len(secrets._met) == 100


@pytest.mark.parametrize(
    "address",
    ["ftp://me:{}/w{}@127.0.0.1:9/a", "http://me:{}@[::1/a", "sftp://me:{}@127.0.0.1:9/a"],
)
def test_no_password_of_an_address_of_artifacts_is_shown(db, address):
    """A member may set any; reading the run's artifacts and writing to them fail."""
    for method in "mn":
        ev = mleval.evaluate(Y, Y)
        mleval.log_evaluation(ev, method=method, dataset="d", log_instances=True)
    open_run = mlflow.MlflowClient().create_run("0").info.run_id
    with contextlib.closing(sqlite3.connect(db)) as connection, connection:
        connection.execute("UPDATE runs SET artifact_uri = ?", (address.format(CORE, CORE),))
    with pytest.raises(StoreError) as caught:
        mleval.log_evaluation(mleval.evaluate(Y, Y), method="o", dataset="d", run_id=open_run)
    clean(whole(caught.value))
    result = run("compare", "--over instances -n Default --dataset d", code=1)
    clean(result.output + whole(result.exception))


def fails(uri, monkeypatch):
    """What loading a study from there says."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(StoreError) as caught:
        load_study(experiment_names=["x"])
    return whole(caught.value)


@pytest.mark.parametrize("shape", [*SHAPES[:4], "postgresql://me:{}@127.0.0.1:9/db?a=b"])
def test_no_password_is_in_an_error(impatient, shape, caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        for password in PASSWORDS:
            for form in (password, quote(password, safe="")):
                clean(fails(shape.format(form), impatient))
    ours = (r for r in caplog.records if not r.name.startswith(("urllib3", "mlflow")))
    clean("".join(record.getMessage() for record in ours))
    clean("".join(r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING))
    clean("".join(capfd.readouterr()))


def test_only_a_character_that_splits_the_uri_is_refused_before_anything_is_asked(impatient):
    for uri in (
        *("databricks", "databricks://scope:key", "http://me:pw@host:5000/x", "https://host/a@b"),
        *("mlruns", "./me@work", "postgresql://me:a?b=c/d#e@host/db", "postgresql:///db"),
        "arn:aws:sagemaker:eu:1:mlflow-tracking-server/x",
    ):
        store._refuse_split(uri)
    text = fails(f"http://me:a/{CORE}@127.0.0.1:9", impatient)
    assert "cannot open the store http://me:***@127.0.0.1:9" in text and "%2F" in text


@settings(small, max_examples=20)
@given(hostile, st.sampled_from(SHAPES[:2] + SHAPES[3:4] + SHAPES[6:]), st.booleans())
def test_no_password_is_in_an_error_whatever_it_is(impatient, middle, shape, encoded):
    password = f"{CORE}{middle}{CORE[::-1]}".replace("\0", "0")
    clean(fails(shape.format(quote(password, safe="") if encoded else password), impatient))


def test_no_password_is_in_the_error_of_a_database_that_cannot_be_opened(impatient, tmp_path):
    (tmp_path / "junk.db").write_text("this is no database at all")
    for name in ("junk.db", "none.db", "junk.db/mlflow.db"):
        clean(fails(f"sqlite:///{tmp_path}/{name}?password={CORE}/#{CORE}", impatient))
    clean(fails(f"sqlite://me:{CORE}@host/{tmp_path}/junk.db", impatient))
    clean(fails(f"oracle://me:{CORE}@host/db", impatient))
    clean(fails(f"mssql+pyodbc:///?odbc_connect=SERVER%3Dhost%3BPWD%3D{CORE}", impatient))


def test_an_error_carries_no_other_that_has_the_secret(impatient):
    impatient.setenv("MLFLOW_TRACKING_URI", f"http://me:{CORE}@127.0.0.1:9")
    with pytest.raises(StoreError) as caught, store.store_errors("read"):
        try:
            raise ValueError(f"no {CORE}")
        except ValueError as error:
            raise OSError(f"http://me:{CORE}@127.0.0.1:9 is down") from error
    clean(whole(caught.value))
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    with pytest.raises(StoreError) as caught, store.store_errors("write to"):
        raise RuntimeError(f"nobody foresaw {CORE}")
    clean(whole(caught.value))
    with pytest.raises(RuntimeError, match="^nobody foresaw it$"), store.store_errors("read"):
        raise RuntimeError("nobody foresaw it")


@pytest.mark.parametrize("uri", ["http://me:{}@127.0.0.1:9", "postgresql://me:{}@127.0.0.1:9/db"])
@pytest.mark.parametrize("raised", [False, True])
def test_no_password_is_in_a_warning(impatient, capfd, uri, raised):
    for middle in ("/", "", "#", "é"):
        impatient.setenv("MLFLOW_TRACKING_URI", uri.format(f"{CORE}{middle}{CORE}"))
        mleval.autolog()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("error" if raised else "always")
            KNeighborsClassifier().fit(X, Y).score(X[:9], Y[:9])
        mleval.autolog(disable=True)
        err = "".join(capfd.readouterr())
        said = [str(w.message) for w in caught] + [err]
        assert "not logged. StoreError" in "".join(said)
        clean("\n".join(said))


def test_no_token_is_in_a_warning_of_autologging_or_a_callback(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", CORE)
    not_logged = pytest.warns(UserWarning, match=r"x was not logged\. KeyError")
    with not_logged as caught, delivery.harmless("x", Sink().fail):
        raise KeyError(CORE)
    clean(caught[0].message)
    with pytest.warns(UserWarning, match=r"\*\*\*") as caught:
        delivery.warn(f"mleval: KeyError: {CORE}")
    clean(caught[0].message)


#: Words and numbers that params of scikit-learn have, and that people take for passwords.
WEAK = [
    *("auto", "1234", "lbfgs", "scale", "l2", "0.0001", "True", "squared_error", "k-means++"),
    "postgres",
]
TREE = DecisionTreeClassifier()
REQUIRED = dict.fromkeys(("estimator", "base_estimator"), TREE)
REQUIRED |= {name: {"max_depth": [2]} for name in ("param_grid", "param_distributions")}
REQUIRED |= {name: [("tree", TREE)] for name in ("estimators", "steps", "transformer_list")}
REQUIRED |= {"dictionary": np.eye(2), "transformers": [("all", "passthrough", [0])]}
REQUIRED["random_state"] = 1234  # which is one of them


def test_data_is_never_redacted(client, monkeypatch):
    """Every param of scikit-learn, under ten passwords that read like them."""
    variables = [*TOKENS, "PGPASSWORD", "MYSQL_PWD", "AZURE_CLIENT_SECRET"]
    for name, password in zip(variables, WEAK, strict=True):
        monkeypatch.setenv(name, password)
    every = {}
    for name, kind in all_estimators():
        known = inspect.signature(kind).parameters.keys()
        given = {key: REQUIRED[key] for key in known & REQUIRED.keys()}
        every |= {f"{name}.{key}": value for key, value in params_of(kind(**given)).items()}
    assert len(every) > 1_500 and {*WEAK} - {*every.values()} == {"postgres"}
    tags = dict(zip("abcdefghij", WEAK, strict=True))
    for start in range(0, len(every), 500):
        params = dict(list(every.items())[start : start + 500])
        payload = runs.Payload(f"auto{start}", "postgres", {"f1": 0.5}, params=params, tags=tags)
        held = client.get_run(runs.write(payload, experiment_name="scale")).data
        assert held.params == params
        assert tags.items() <= held.tags.items() and held.tags["mleval.method"] == f"auto{start}"
    runs.write(runs.Payload("auto", "postgres", {"f1": 0.25}, tags=tags), experiment_name="scale")
    ranked = as_json("rank", "-n", "scale", "--filter", "tags.a != '1234'")
    assert "auto" in [row["method"] for row in ranked["datasets"]["postgres"]]
    assert ranked["provenance"]["filter"] == "tags.a != '1234'" and "***" not in str(ranked)


def test_the_command_in_a_report_has_no_password():
    typed = ["--filter", f"tags.x = 'http://me:{CORE} '{CORE}@host/x'"]
    with main.commands["rank"].make_context("rank", typed):
        command = provenance({}, [], {})["command"]
    clean(command)
    assert command.startswith("mleval rank --filter") and "tags.x = " in command
    assert "host/x" in command


def test_an_error_that_nobody_foresaw_shows_no_secret(impatient):
    impatient.setenv("MLFLOW_TRACKING_URI", f"http://me:{CORE}@127.0.0.1:9")

    def broken(error):
        def fail():
            raise error

        command = Command("x", callback=fail)
        with click.Context(command) as context:
            command.invoke(context)

    for error in (RuntimeError(CORE), KeyError(f"http://me:{CORE}@127.0.0.1:9")):
        with pytest.raises(SystemExit) as caught:
            broken(error)
        clean(whole(caught.value))
    with pytest.raises(RuntimeError, match="^fine$"):
        broken(RuntimeError("fine"))
    with pytest.raises(click.ClickException) as caught:
        broken(ValueError(CORE))
    clean(whole(caught.value))
