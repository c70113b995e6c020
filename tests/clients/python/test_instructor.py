"""instructor over OpenAI's client."""

import asyncio
from collections.abc import Iterable

import instructor
import openai
import pytest
from conftest import ERRORS
from pydantic import BaseModel, field_validator

MODELS = ["chat", "claude", "gemini"]
BROKEN = [{"role": "user", "content": "Login is broken for everybody"}]
HI = [{"role": "user", "content": "hi"}]


class Ticket(BaseModel):
    title: str
    urgent: bool


class Order(BaseModel):
    """Finds an order by its number."""

    number: int


class Parcel(BaseModel):
    """Finds a parcel by its code."""

    code: str


@pytest.fixture
def made(base_url, api_key):
    """A client in a mode."""

    def make(mode=instructor.Mode.TOOLS, **more):
        return instructor.from_openai(openai.OpenAI(base_url=base_url, api_key=api_key, **more), mode=mode)

    return make


def causes(error):
    """The error, and those that it came of."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("mode", [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA])
def test_a_model_of_the_answer(made, intent, model, mode):
    ticket = made(mode).chat.completions.create(
        model=model, messages=BROKEN, response_model=Ticket, extra_headers=intent, max_retries=0
    )
    assert isinstance(ticket, Ticket)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("mode", [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA])
def test_async(base_url, api_key, intent, model, mode):
    async def asked():
        async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as plain:
            client = instructor.from_openai(plain, mode=mode)
            return await client.chat.completions.create(
                model=model, messages=BROKEN, response_model=Ticket, extra_headers=intent, max_retries=0
            )

    assert isinstance(asyncio.run(asked()), Ticket)


@pytest.mark.parametrize("model", MODELS)
def test_parallel_tools(made, intent, model):
    said = 'Call Order for {"number": 1} and {"number": 2}'
    calls = made(instructor.Mode.PARALLEL_TOOLS).chat.completions.create(
        model=model, messages=[{"role": "user", "content": said}], response_model=Iterable[Order | Parcel],
        extra_headers=intent, max_retries=0,
    )
    assert list(calls) == [Order(number=1), Order(number=2)]


def test_timeouts_and_retries_are_one_call_at_the_provider(made, intent, one_call):
    asked = dict(model="slow", messages=HI, response_model=None, extra_headers=intent)
    with one_call("slow"):
        with pytest.raises(Exception) as caught:
            made(timeout=0.4, max_retries=0).chat.completions.create(**asked)
        assert any(isinstance(error, openai.APITimeoutError) for error in causes(caught.value))
        answer = made(timeout=0.7, max_retries=5).chat.completions.create(**asked)
        assert answer.choices[0].message.content == "late"


def test_asking_again_for_a_better_answer_is_another_intent(made, intent):
    """Its own retries send another conversation: under the same key that is a conflict, and nothing is sent."""

    class Impossible(BaseModel):
        title: str

        @field_validator("title")
        @classmethod
        def never(cls, value):
            raise ValueError("not this one")

    with pytest.raises(Exception) as caught:
        made().chat.completions.create(
            model="chat", messages=BROKEN, response_model=Impossible, extra_headers=intent, max_retries=3
        )
    assert any(isinstance(error, openai.ConflictError) for error in causes(caught.value))


@pytest.mark.parametrize(("model", "raised", "status"), ERRORS)
def test_errors_raise_their_class(made, intent, route, model, raised, status):
    with pytest.raises(Exception) as caught:
        made(max_retries=0).chat.completions.create(
            model=route(model), messages=HI, response_model=Ticket, extra_headers=intent, max_retries=0
        )
    found = [error for error in causes(caught.value) if isinstance(error, getattr(openai, raised))]
    assert [error.status_code for error in found[:1]] == [status]
    if model == "refusing":
        assert "'temperature' is too high" in str(caught.value)
