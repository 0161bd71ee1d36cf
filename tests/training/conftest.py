"""The store of a training has time to answer."""

import pytest
from waiting import PATIENCE


@pytest.fixture
def client(client, monkeypatch):
    """Of a healthy store; on a busy machine it may take longer than a training waits for it."""
    monkeypatch.setenv("MLEVAL_TIMEOUT", str(PATIENCE))
    return client
