"""Gates of several processes at once: places in a ledger, and an alias that all of them would
move.
"""

from import_cases import PROCESSES, at_once
from mlflow import MlflowClient

from mlflow_mleval.errors import StoreError
from mlflow_mleval.gates import Promotion, history
from mlflow_mleval.store.ledger import Ledger

GATES, MODEL = 8, "raced"


def race_for_places_and_alias():
    """Eight processes take a place in a ledger each, and move an alias from version 1, where they
    can: all places are different, and one of them has moved it.
    """
    client = MlflowClient()
    run = client.create_run(client.create_experiment("raced versions"))
    client.create_registered_model(MODEL)
    for _ in range(1 + GATES):
        client.create_model_version(MODEL, f"runs:/{run.info.run_id}/model", run.info.run_id)
    client.set_registered_model_alias(MODEL, "champion", "1")
    told = PROCESSES.SimpleQueue()
    at_once(_gate, *((told, 2 + place) for place in range(GATES)))
    found = [told.get() for _ in range(GATES)]
    assert sorted(number for number, _ in found) == list(range(1, GATES + 1))
    assert history("raced")["number"].tolist() == list(range(1, GATES + 1))
    moved = [version for _, version in found if version]
    assert moved == [str(client.get_model_version_by_alias(MODEL, "champion").version)]


def _gate(told, version):
    move = Promotion.of(f"models:/{MODEL}/{version}", f"models:/{MODEL}/1", "champion")
    book = Ledger.open("raced", alpha=0.05)
    number = book.claim()
    values = {"decision": "ship", "candidate": str(version), "champion": "1", "units": "u"}
    book.write(number, values | {"asked": 0, "evidence": 1e6, "level": 1e-4})
    try:
        move.make()
    except StoreError:
        told.put((number, None))
    else:
        told.put((number, str(version)))
