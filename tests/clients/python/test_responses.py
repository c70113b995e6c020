"""OpenAI's own Python client, by the Responses API."""

import json

import openai
import pytest
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


@pytest.mark.parametrize(
    ("model", "raised"),
    [("limited", openai.RateLimitError), ("broken", openai.InternalServerError), ("refusing", openai.BadRequestError)],
)
def test_errors_raise_their_class(client, intent, model, raised):
    with pytest.raises(raised):
        client.with_options(max_retries=0).responses.create(model=model, input="hello", extra_headers=intent)
