"""What every client's tests need: where the gateway is, a fresh key per intent, and how often a provider was called."""

import contextlib
import json
import os
import random
import sys
import urllib.request
import uuid

import pytest

sys.dont_write_bytecode = True


# What a route's provider does, the class that the SDKs raise for it, and the status that the gateway answers. Both
# vendors' SDKs name their classes alike.
ERRORS = [
    ("refusing", "BadRequestError", 400),
    ("moderated", "PermissionDeniedError", 403),
    ("no-such-route", "NotFoundError", 404),
    ("unprocessable", "UnprocessableEntityError", 422),
    ("limited", "RateLimitError", 429),
    ("broken", "InternalServerError", 502),
    ("forbidden", "InternalServerError", 502),
    ("overloaded", "InternalServerError", 503),
    ("silent", "InternalServerError", 504),
]
every_error = pytest.mark.parametrize(("model", "raised", "status"), ERRORS)


@pytest.fixture
def route():
    """A route to a target of one's own that does as its name says, where there are such."""

    def of(model):
        many = any(model == name for name, *_ in ERRORS if name != "silent")
        return f"{model}.{random.randrange(int(os.environ['TARGETS']))}" if many else model

    return of


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


@pytest.fixture
def one_call(provider_calls):
    """Within it the model's provider is called once, however often the client asks."""

    @contextlib.contextmanager
    def watched(model):
        before = provider_calls(model)
        yield
        assert provider_calls(model) - before == 1

    return watched
