"""What gates leave in the store: the ledger of a stream of candidates, who moved an alias, and a
verdict beside the candidate. A store has no lock, but MLflow never changes a parameter of a run:
all that counts is held by parameters of one run, the register."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Run, ViewType

from mlflow_mleval.analysis.gate_tests import ledger_level
from mlflow_mleval.errors import StoreError
from mlflow_mleval.sentences import some
from mlflow_mleval.store import schema, store
from mlflow_mleval.store.runs import create, end, log, quiet, send
from mlflow_mleval.store.schema import bounded_json
from mlflow_mleval.store.store import alone

#: The experiment of a ledger, and the one that says who moved which alias.
LEDGER, PROMOTIONS = "mleval ledger: {}", "mleval promotions"
#: The parameter of a register that says whose it is.
_OF = "register"
#: Seconds to wait for the machine that makes a register.
_MAKING = 60.0
#: Milliseconds for which a promotion that was begun keeps others from the alias.
_LEASE = 60_000
#: What an entry must say.
_ENTRY: dict[str, Any] = dict.fromkeys(("candidate", "champion", "units", "time"), str)
_ENTRY |= dict.fromkeys(("evidence", "level", "asked", "number"), int | float)
#: Characters of a name in an entry, and of a digest that stands for a name of any characters.
_LONGEST, _SHORT = 300, 32


@dataclass(frozen=True)
class Register:
    """A run whose parameters are entries that nobody can change; one of them is its name."""

    client: MlflowClient
    experiment_id: str
    run_id: str

    @classmethod
    def open(cls, name: str, create: bool = True) -> Register:
        """The register of this name or run id, which is made where there is none; a StoreError
        where it is deleted, or not the only one."""
        client = store.connect(create=create)
        runs = _registers(client, name)
        if not runs and create:
            runs = _new_register(client, name)
        if not runs:
            raise StoreError(f"there is no {name!r} in {store.store_name()}.")
        ids = [run.info.run_id for run in runs]
        if len(runs) > 1:
            raise StoreError(
                f"there are {len(runs)} registers called {name!r}: runs {some(ids)}. Name the "
                "right one by its id."
            )
        store.check_active(runs[0].info, f"the register of {name!r}, run {ids[0]},", StoreError)
        return cls(client, runs[0].info.experiment_id, ids[0])

    def entries(self, key: str) -> dict[int, str]:
        """The entries under a key by their numbers, in their order."""
        params = self.client.get_run(self.run_id).data.params
        found = ((re.fullmatch(rf"{key}/([1-9]\d{{0,8}})", name), v) for name, v in params.items())
        return dict(sorted((int(match[1]), value) for match, value in found if match))

    def enter(self, key: str, text: str, number: int) -> bool:
        """Write an entry with this number; False where another process was quicker."""
        with alone(f"register {mlflow.get_tracking_uri()} {self.run_id}"):  # for stores of files
            try:
                self.client.log_param(self.run_id, f"{key}/{number}", text)
            except StoreError:
                if number not in self.entries(key):
                    raise
            return self.entries(key)[number] == text


def _registers(client: MlflowClient, name: str) -> list[Run]:
    """The runs that say that they are this register, deleted ones, too."""
    if schema.HEX_ID.fullmatch(name):
        run = client.get_run(name)
        return [run] if _OF in run.data.params else []
    search = partial(client.search_experiments, view_type=ViewType.ALL, max_results=store.PAGE)
    where = f"params.{_OF} = '{schema.sha256_of(name)[:_SHORT]}'"
    found: list[Run] = []
    for each in store.paged(search, lambda experiment: experiment.experiment_id, "experiments"):
        ids = [experiment.experiment_id for experiment in each]
        found += client.search_runs(ids, where, ViewType.ALL) if ids else []
    return found


def _new_register(client: MlflowClient, name: str) -> list[Run]:
    """A new register, or the one that another process of this machine has made meanwhile; of
    several machines the one that makes its experiment makes it."""
    with alone(f"registers {mlflow.get_tracking_uri()} {name}"):
        if runs := _registers(client, name):
            return runs
        try:
            experiment_id = client.create_experiment(name)
        except StoreError:
            if client.get_experiment_by_name(name) is None:
                raise
            until = time.monotonic() + _MAKING
            while time.monotonic() < until:  # on another machine somebody may be making it
                if runs := _registers(client, name):
                    return runs
                time.sleep(0.3)
            raise StoreError(
                f"the experiment {name!r} holds no register, or the process that made it has died. "
                "Delete or rename it, or choose another name."
            ) from None
        own = {schema.TAG_KIND: schema.KIND_REGISTER}
        run_id = create(client, experiment_id, name, own).info.run_id
        client.set_experiment_tag(experiment_id, schema.TAG_REGISTER, run_id)
        end(client, run_id, "FINISHED")
        client.log_param(run_id, _OF, schema.sha256_of(name)[:_SHORT])
        return [client.get_run(run_id)]


# --------------------------------------------------------------------------------------------------
# The ledger. A gate claims its number (`gate/N`), writes its entry as a run in one request, and
# registers that (`entry/N`: the run and the digest of what it says).


@dataclass(frozen=True)
class Gate:
    """A gate of a ledger; without values it took its number and entered nothing."""

    number: int
    values: Mapping[str, Any] | None
    shipped: bool


@dataclass(frozen=True)
class Ledger:
    """The gates of a stream of candidates, numbered 1, 2 …, each once."""

    name: str
    register: Register

    @classmethod
    def open(cls, name: str, *, alpha: float | None = None, error: str = "fdr") -> Ledger:
        """The ledger of this name, or of this register; made where there is none if its level is
        given, which it must keep."""
        called = name if schema.HEX_ID.fullmatch(name) else LEDGER.format(name)
        book = cls(name, Register.open(called, create=alpha is not None))
        if alpha is not None:
            wanted = f"{alpha:.6g} {error}"
            if not book.register.enter("terms", wanted, 1):
                kept = book.register.entries("terms")[1]
                raise ValueError(
                    f"`alpha` and `ledger_error` must stay what they were when the ledger {name} "
                    f"was begun ({kept}), got {wanted}. Begin another ledger."
                )
        return book

    def claim(self) -> int:
        """The number of a gate, which no other has."""
        token, number = uuid4().hex, len(self._claims()) + 1
        while not self.register.enter("gate", token, number):
            number += 1
        return number

    def gates(self) -> list[Gate]:
        """All gates in their order; a StoreError where the ledger was changed."""
        claims, entries = self._claims(), self.register.entries("entry")
        if beyond := entries.keys() - claims.keys():
            raise self._changed(f"entry {min(beyond)} has no gate")
        runs = store.search(self.register.client, [self.register.experiment_id])
        texts = {run.info.run_id: run.data.tags.get(schema.TAG_ENTRY, "") for run in runs}
        alpha, error = self.register.entries("terms").get(1, "0 fdr").split()
        found: list[Gate] = []
        for number in claims:
            values = self._values(number, entries[number], texts) if number in entries else None
            shipped = values is not None and values["decision"] == "ship"
            if values is not None and shipped:
                ships = sum(before.shipped for before in found)
                level = min(values["level"], ledger_level(float(alpha), number, ships, error))
                if values["evidence"] * level * (1 + 1e-9) < 1:
                    raise self._changed(f"entry {number} ships without the evidence for it")
            found.append(Gate(number, values, shipped))
        return found

    def write(self, number: int, values: Mapping[str, Any]) -> str:
        """Enter what a gate found: the run of the entry, then its registration; the run's id."""
        client = self.register.client
        about = {key: v[:_LONGEST] if isinstance(v, str) else v for key, v in values.items()}
        text = json.dumps({"number": number, "time": now()} | about, sort_keys=True)
        tags = {schema.TAG_KIND: schema.KIND_GATE, schema.TAG_ENTRY: text}
        name, tags = f"gate {number}: {values['decision']}", store.context_tags() | tags
        made = create(client, self.register.experiment_id, name, tags)
        run_id = str(made.info.run_id)
        if not self.register.enter("entry", f"{run_id} {schema.sha256_of(text)}", number):
            raise self._changed(f"entry {number} is somebody else's")
        with suppress(Exception):  # the entry counts already
            end(client, run_id, "FINISHED")
        return run_id

    def _claims(self) -> dict[int, str]:
        """The numbers that were taken: 1, 2 … without a gap."""
        claims = self.register.entries("gate")
        if gaps := [n for n, claimed in enumerate(claims, 1) if n != claimed]:
            raise self._changed(f"gate {gaps[0]} is missing before gate {max(claims)}")
        return claims

    def _values(self, number: int, entry: str, texts: Mapping[str, str]) -> Mapping[str, Any]:
        """What an entry says, as it was registered; by the text of each run."""
        run_id, _, digest = entry.partition(" ")
        if run_id not in texts:
            raise self._changed(f"entry {number} is missing")
        with suppress(ValueError, TypeError, LookupError):
            values = bounded_json(texts[run_id])
            own = schema.sha256_of(texts[run_id]) == digest and values["number"] == number
            typed = all(isinstance(values[name], kind) for name, kind in _ENTRY.items())
            if own and typed and values["decision"] in ("ship", "block", "run more"):
                return dict(values)
        raise self._changed(f"entry {number} is not what was entered")

    def _changed(self, what: str) -> StoreError:
        return StoreError(
            f"the ledger {self.name} was changed: {what} (register: run {self.register.run_id}). "
            "Begin a new one."
        )


def now() -> str:
    """The time to the second, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time()))


# --------------------------------------------------------------------------------------------------
# The alias of a champion, and the verdict beside the candidate.


def promote(model: str, alias: str, version: str, judged: str) -> str:
    """Move an alias from the version that was judged to another, unless it points elsewhere by now;
    says where it points, or that this could not be seen afterwards."""
    client, done = store.connect(), f"{model}@{alias} is version {version} now."

    def current() -> str:
        return str(client.get_registered_model(model).aliases.get(alias, ""))

    def check() -> None:
        if (now := current()) != judged:
            found = f"points to version {now}" if now else "does not exist"
            raise StoreError(
                f"{model} {version} was not promoted: the alias {alias!r} {found}, and version "
                f"{judged} was judged. Gate against what it points to now."
            )

    check()
    # of several gates one begins at a time, by an entry in a register that all of them heed
    register = Register.open(PROMOTIONS)
    key = schema.sha256_of(f"{model}@{alias}")[:_SHORT]
    entries, now = register.entries(key), int(time.time() * 1000)
    number = max(entries, default=0)
    begun = re.search(r" (\d+) \d+ (\d{1,15}) \w+$", entries.get(number, ""))  # from, to, when
    recent = begun is not None and begun[1] == judged and 0 <= now - int(begun[2]) < _LEASE
    mine = f"{model[:200]}@{alias[:100]} {judged} {version} {now} {uuid4().hex}"
    if recent or not register.enter(key, mine, number + 1):
        raise StoreError(
            f"{model} {version} was not promoted: another gate is moving the alias {alias!r}. "
            "Gate again in a minute."
        )
    check()
    try:
        client.set_registered_model_alias(model, alias, version)
    except Exception:
        with suppress(Exception):
            if current() == version:  # only the store's answer was lost
                return done
        raise
    try:
        now_at = current()
    except Exception as error:
        return (
            f"{model}@{alias} was moved to version {version}. Whether another has moved it "
            f"since is not known: {store.reason(error)}."
        )
    if now_at != version:
        raise StoreError(f"the alias {alias!r} was moved to version {now_at} at the same time.")
    return done


def looks_of(run_id: str, champion: str) -> dict[str, Any] | None:
    """What a run remembers of looks at a gate against a champion; None of none."""
    tags = store.connect().get_run(run_id).data.tags
    if (text := tags.get(key := schema.TAG_LOOKS.format(champion))) is None:
        return None
    with suppress(ValueError):
        looks = bounded_json(text)
        if isinstance(looks, dict) and {*looks} == schema.LOOKS:
            return looks
    raise StoreError(f"the tag {key} of run {run_id} was changed. Judge without bets.")


def remember_looks(run_id: str, champion: str, looks: Mapping[str, Any]) -> None:
    """Let a run remember them."""
    log(store.connect(), run_id, tags={schema.TAG_LOOKS.format(champion): json.dumps(looks)})


def log_gate(run_id: str, files: Mapping[str, str], decision: str) -> None:
    """Store a verdict with the candidate's run: files, and a tag that says what was decided."""
    client = store.connect()
    with quiet(), store.store_errors("write to"):
        run = client.get_run(run_id)
        send(run, files)
        log(client, run_id, tags={schema.TAG_GATE: decision})
