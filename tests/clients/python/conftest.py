"""What every client's tests need: where the gateway is, a fresh key per intent, and how often a provider was called."""

import json
import os
import sys
import urllib.request
import uuid

import pytest

sys.dont_write_bytecode = True


@pytest.fixture
def base_url():
    return os.environ["GATEWAY"] + "/v1"


@pytest.fixture
def api_key():
    return os.environ["GATEWAY_KEY"]


@pytest.fixture
def intent():
    """The header of one intent: sent again, it is the same job."""
    return {"Idempotency-Key": str(uuid.uuid4())}


@pytest.fixture
def provider_calls():
    """How often the faulty provider's model was called so far."""

    def count(model):
        with urllib.request.urlopen(os.environ["FAULTY"]) as answer:
            return json.load(answer).get(model, 0)

    return count
