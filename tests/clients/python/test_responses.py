"""OpenAI's own Python client, by the Responses API."""

import asyncio
import json

import openai
import pytest
from conftest import every_error
from openai.types.responses import Response, ResponseFailedEvent
from pydantic import BaseModel

MODELS = ["chat", "claude", "gemini"]
TOOL = {
    "type": "function", "name": "find_order", "description": "Finds an order by its number.", "strict": False,
    "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
}


class Ticket(BaseModel):
    title: str
    urgent: bool


@pytest.fixture
def client(base_url, api_key):
    return openai.OpenAI(base_url=base_url, api_key=api_key)


@pytest.mark.parametrize("model", MODELS)
def test_plain_replay_and_stream(client, intent, model):
    asked = dict(model=model, input="hello there", instructions="Be kind.", extra_headers=intent)
    first = client.responses.with_raw_response.create(**asked)
    again = client.responses.with_raw_response.create(**asked)
    whole = first.parse()
    assert "hello there" in whole.output_text and whole.status == "completed" and whole.usage.total_tokens > 2
    assert again.content == first.content and again.headers["idempotent-replayed"] == "true"
    events = list(client.responses.create(**asked, stream=True))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
    assert client.responses.retrieve(whole.id).output_text == whole.output_text


@pytest.mark.parametrize("model", MODELS)
def test_parallel_tools_and_parse(client, intent, model):
    said = 'find_order for {"number": 1} and {"number": 2}'
    asked = dict(model=model, input=said, tools=[TOOL], tool_choice="required")
    answer = client.responses.create(**asked, extra_headers=intent)
    calls = [item for item in answer.output if item.type == "function_call"]
    assert [json.loads(call.arguments) for call in calls] == [{"number": 1}, {"number": 2}]
    second = {"Idempotency-Key": intent["Idempotency-Key"] + "-2"}
    parsed = client.responses.parse(model=model, input="Login is broken", text_format=Ticket, extra_headers=second)
    assert isinstance(parsed.output_parsed, Ticket)


@pytest.mark.parametrize("model", MODELS)
def test_a_background_stream_is_taken_up_where_it_was_left(client, intent, model):
    asked = dict(model=model, input="hello there", background=True, stream=True, extra_headers=intent)
    stream = client.responses.create(**asked)
    first = [next(stream) for _ in range(5)]
    stream.close()
    id = first[0].response.id
    rest = list(client.responses.retrieve(id, stream=True, starting_after=first[-1].sequence_number))
    events = list(client.responses.retrieve(id, stream=True))
    assert [event.to_dict() for event in events] == [event.to_dict() for event in first + rest]
    assert rest[-1].type == "response.completed" and "hello there" in rest[-1].response.output_text
    items = client.responses.input_items.list(id)
    assert [item.content[0].text for item in items] == ["hello there"]
    with pytest.raises(openai.BadRequestError, match="retention"):
        client.responses.delete(id)


def failing_route(route, model):
    """A response in the background is there before it fails."""
    return dict(model=route(model), input="hello", background=True)


@pytest.mark.parametrize(("model", "code"), [("refusing", "invalid_prompt"), ("moderated", "invalid_prompt")])
def test_a_background_response_that_fails_says_so_in_its_stream(client, intent, route, model, code):
    events = list(client.responses.create(**failing_route(route, model), stream=True, extra_headers=intent))
    assert [event.type for event in events] == ["response.created", "response.in_progress", "response.failed"]
    failed = events[-1].response
    assert (failed.status, failed.error.code, bool(failed.error.message)) == ("failed", code, True)
    assert client.responses.retrieve(failed.id) == failed
    again = list(client.responses.retrieve(failed.id, stream=True))
    assert [event.to_dict() for event in again] == [event.to_dict() for event in events]
    assert [e.type for e in client.responses.retrieve(failed.id, stream=True, starting_after=1)] == ["response.failed"]
    Response.model_validate(failed.to_dict()), ResponseFailedEvent.model_validate(events[-1].to_dict())


def test_a_cancelled_response_says_so_in_its_stream(client, intent):
    begun = client.responses.create(model="slow", input="hello", background=True, extra_headers=intent)
    assert client.responses.cancel(begun.id).status == "cancelled"
    events = list(client.responses.retrieve(begun.id, stream=True))
    assert (events[-1].type, events[-1].response.status) == ("response.failed", "cancelled")
    ResponseFailedEvent.model_validate(events[-1].to_dict())


@every_error
@pytest.mark.parametrize("stream", [False, True])
def test_errors_raise_their_class(client, intent, route, model, raised, status, stream):
    ask = client.with_options(max_retries=0).responses.create
    with pytest.raises(getattr(openai, raised)) as caught:
        ask(model=route(model), input="hello", stream=stream, extra_headers=intent)
    assert caught.value.status_code == status


def test_a_wrong_key_a_missing_one_and_a_conflict(base_url, client, intent):
    stranger = openai.OpenAI(base_url=base_url, api_key="ilk_nobody", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.responses.create(model="chat", input="hello", extra_headers=intent)
    with pytest.raises(openai.BadRequestError, match="Idempotency-Key"):
        client.responses.create(model="chat", input="hello")
    client.responses.create(model="chat", input="hello", extra_headers=intent)
    with pytest.raises(openai.ConflictError):
        client.responses.create(model="chat", input="something else", extra_headers=intent)


def test_timeouts_and_retries_are_one_call_at_the_provider(client, intent, one_call):
    asked = dict(model="slow", input="hello", extra_headers=intent)
    with one_call("slow"):
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.3, max_retries=0).responses.create(**asked)
        assert client.with_options(timeout=0.7, max_retries=5).responses.create(**asked).output_text == "late"


@pytest.mark.parametrize("model", MODELS)
def test_async(base_url, api_key, intent, model):
    second = {"Idempotency-Key": intent["Idempotency-Key"] + "-2"}

    async def asked():
        async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as client:
            body = dict(model=model, input="hello there", extra_headers=intent)
            clicks = await asyncio.gather(*(client.responses.create(**body) for _ in range(4)))
            events = [event async for event in await client.responses.create(**body, stream=True)]
            begun = await client.responses.create(model=model, input="hello", background=True, extra_headers=second)
            while begun.status in ("queued", "in_progress"):
                await asyncio.sleep(0.1)
                begun = await client.responses.retrieve(begun.id)
            return clicks, events, begun

    clicks, events, begun = asyncio.run(asked())
    assert len({answer.id for answer in clicks}) == 1 and "hello there" in clicks[0].output_text
    assert events[-1].response.output_text == clicks[0].output_text
    assert (begun.status, "hello" in begun.output_text) == ("completed", True)


def test_async_timeouts_and_retries_are_one_call_at_the_provider(base_url, api_key, intent, one_call):
    async def asked():
        async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key, timeout=0.7, max_retries=5) as client:
            return await client.responses.create(model="slow", input="hello", extra_headers=intent)

    with one_call("slow"):
        assert asyncio.run(asked()).output_text == "late"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("by_id", [False, True])
def test_another_vendors_signature_comes_back_with_the_answer(client, intent, streamed, by_id):
    asked = dict(model="signed", tools=[TOOL])
    answer = client.responses.create(**asked, input="find order 1", stream=streamed, extra_headers=intent)
    if streamed:
        answer = list(answer)[-1].response
    (call,) = [item for item in answer.output if item.type == "function_call"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "shipped"}
    talk = [{"role": "user", "content": "find order 1"}, *answer.output, result]
    goes_on = dict(previous_response_id=answer.id, input=[result]) if by_id else dict(input=talk)
    second = {"Idempotency-Key": intent["Idempotency-Key"] + "-2"}
    assert client.responses.create(**asked, **goes_on, extra_headers=second).output_text == "signed: True"
