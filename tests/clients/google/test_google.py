"""Google's own Python client against the simulated provider: what it takes for Gemini, a route may be tested with.

The gateway speaks no such dialect to its clients; how it speaks it to a provider is judged by the other clients' tests,
whose model `gemini` is a route to the same simulator.
"""

import asyncio
import os
import sys

import pytest
from google import genai
from google.genai import errors, types
from pydantic import BaseModel

sys.dont_write_bytecode = True

TOOL = types.Tool(function_declarations=[types.FunctionDeclaration(
    name="find_order", description="Finds an order by its number.",
    parameters=types.Schema(type="OBJECT", properties={"number": types.Schema(type="INTEGER")}, required=["number"]),
)])
FORCED = types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="ANY"))
BY_HAND = types.AutomaticFunctionCallingConfig(disable=True)
TWO = 'find_order for {"number": 1} and {"number": 2}'


class Ticket(BaseModel):
    title: str
    urgent: bool


def client_of(place, **more):
    at = os.environ[place].removesuffix("/v1")
    retry = types.HttpRetryOptions(attempts=1)
    return genai.Client(api_key="any", http_options=types.HttpOptions(base_url=at, retry_options=retry, **more))


@pytest.fixture
def client():
    return client_of("SIM")


@pytest.fixture
def strict():
    """Knows one model, one key, and a window of 512 tokens."""
    return client_of("STRICT_SIM")


def ask(client, contents, model="gemini-2.5-flash", **config):
    return client.models.generate_content(
        model=model, contents=contents, config=types.GenerateContentConfig(**config)
    )


def test_plain_with_usage(client):
    answer = ask(client, "hello there")
    candidate = answer.candidates[0]
    assert "hello there" in answer.text and candidate.finish_reason == types.FinishReason.STOP
    used = answer.usage_metadata
    assert used.prompt_token_count + used.candidates_token_count == used.total_token_count > 2
    assert answer.model_version == "gemini-2.5-flash" and answer.response_id


def test_the_system_instruction_is_obeyed(client):
    assert ask(client, "hello", system_instruction="Reply with exactly: aye").text == "aye"


def test_a_chat_remembers(client):
    chat = client.chats.create(model="gemini-2.5-flash")
    first = chat.send_message("hello there").text
    assert chat.send_message("Repeat your last answer.").text == first


def test_limits_stops_and_candidates(client):
    cut = ask(client, "a long enough sentence to be cut", max_output_tokens=3).candidates[0]
    assert cut.finish_reason == types.FinishReason.MAX_TOKENS
    assert ask(client, "Reply with exactly: one two three", stop_sequences=[" two"]).text == "one"
    assert len(ask(client, "hello", candidate_count=2, seed=7).candidates) == 2


def test_stream_says_what_the_whole_says(client):
    chunks = list(client.models.generate_content_stream(model="gemini-2.5-flash", contents="hello there"))
    whole = ask(client, "hello there")
    assert len(chunks) > 2 and "".join(chunk.text or "" for chunk in chunks) == whole.text
    assert [c.candidates[0].finish_reason for c in chunks if c.candidates[0].finish_reason] == [types.FinishReason.STOP]
    assert chunks[-1].usage_metadata.total_token_count == whole.usage_metadata.total_token_count


def test_parallel_tools_and_their_results(client):
    made = ask(client, TWO, tools=[TOOL], tool_config=FORCED, automatic_function_calling=BY_HAND)
    assert [call.args for call in made.function_calls] == [{"number": 1}, {"number": 2}]
    streamed = client.models.generate_content_stream(
        model="gemini-2.5-flash", contents=TWO,
        config=types.GenerateContentConfig(tools=[TOOL], tool_config=FORCED, automatic_function_calling=BY_HAND),
    )
    calls = [call.args for chunk in streamed for call in chunk.function_calls or []]
    assert calls == [{"number": 1}, {"number": 2}]
    results = [
        types.Part.from_function_response(name=call.name, response={"output": f"order {n}"})
        for n, call in enumerate(made.function_calls, 1)
    ]
    talk = [types.UserContent(TWO), made.candidates[0].content, types.UserContent(results)]
    assert "order 2" in ask(client, talk, tools=[TOOL], automatic_function_calling=BY_HAND).text


def test_a_function_is_called_by_the_client_itself(client):
    asked = []

    def find_order(number: int) -> str:
        """Finds an order by its number."""
        asked.append(number)
        return f"order {number} was shipped"

    answer = ask(client, 'Call find_order for {"number": 7}', tools=[find_order])
    assert asked == [7] and "order 7 was shipped" in answer.text


@pytest.mark.parametrize("schema", [{"response_schema": Ticket}, {"response_json_schema": Ticket.model_json_schema()}])
def test_structured_output(client, schema):
    answer = ask(client, "Login is broken", response_mime_type="application/json", **schema)
    assert Ticket.model_validate_json(answer.text)
    if "response_schema" in schema:
        assert isinstance(answer.parsed, Ticket)


def test_count_tokens_agrees_with_the_bill(client):
    counted = client.models.count_tokens(model="gemini-2.5-flash", contents="hello there").total_tokens
    assert counted == ask(client, "hello there").usage_metadata.prompt_token_count > 0


def test_models(strict):
    assert [model.name for model in strict.models.list()] == ["models/gemini-2.5-flash"]
    assert strict.models.get(model="gemini-2.5-flash").input_token_limit == 512


@pytest.mark.parametrize(
    ("asked", "code", "word"),
    [
        (dict(contents="hello", model="no-such-model"), 404, "NOT_FOUND"),
        (dict(contents="hello", temperature=7), 400, "INVALID_ARGUMENT"),
        (dict(contents="a word " * 600), 400, "INVALID_ARGUMENT"),
        (dict(contents="hello", thinking_config=types.ThinkingConfig(thinking_budget=5)), 400, "INVALID_ARGUMENT"),
    ],
)
def test_errors_of_the_request_raise_client_error(strict, asked, code, word):
    with pytest.raises(errors.ClientError) as caught:
        ask(strict, **asked)
    assert (caught.value.code, caught.value.status) == (code, word) and caught.value.message


def test_errors_of_the_provider_raise_server_error():
    with pytest.raises(errors.ServerError) as caught:
        ask(client_of("BROKEN_SIM"), "hello", model="no-such-model")
    assert (caught.value.code, caught.value.status) == (500, "INTERNAL")


def test_async_client_and_stream(client):
    async def asked():
        whole = await client.aio.models.generate_content(model="gemini-2.5-flash", contents="hello there")
        stream = await client.aio.models.generate_content_stream(model="gemini-2.5-flash", contents="hello there")
        return whole.text, "".join([chunk.text or "" async for chunk in stream])

    whole, streamed = asyncio.run(asked())
    assert "hello there" in whole and streamed == whole
