"""Anthropic's own Python client, against routes of both wire formats."""

import asyncio
import os

import anthropic
import pytest
from conftest import every_error
from pydantic import BaseModel

HELLO = [{"role": "user", "content": "hello there"}]
TOOL = {
    "name": "find_order", "description": "Finds an order by its number.",
    "input_schema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
}


class Ticket(BaseModel):
    title: str
    urgent: bool


MODELS = ["chat", "claude", "gemini"]


@pytest.fixture
def client(api_key):
    return anthropic.Anthropic(base_url=os.environ["GATEWAY"], api_key=api_key)


@pytest.mark.parametrize("model", MODELS)
def test_plain_and_its_replay(client, intent, model):
    ask = lambda: client.messages.with_raw_response.create(
        model=model, max_tokens=100, system="Be kind.", messages=HELLO, extra_headers=intent
    )
    first, again = ask(), ask()
    answer = first.parse()
    assert "hello there" in answer.content[0].text and answer.stop_reason == "end_turn"
    assert answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0
    assert again.read() == first.read() and again.headers["idempotent-replayed"] == "true"
    assert first.headers["request-id"]


@pytest.mark.parametrize("model", MODELS)
def test_stream_says_what_the_whole_says(client, intent, model):
    asked = dict(model=model, max_tokens=100, messages=HELLO, extra_headers=intent)
    with client.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    whole = client.messages.create(**asked)
    assert (text, final.stop_reason) == (whole.content[0].text, "end_turn")
    assert final.usage.output_tokens == whole.usage.output_tokens


@pytest.mark.parametrize("model", MODELS)
def test_parallel_tools(client, intent, model):
    said = [{"role": "user", "content": 'find_order for {"number": 1} and {"number": 2}'}]
    asked = dict(model=model, max_tokens=200, tools=[TOOL], tool_choice={"type": "any"})
    answer = client.messages.create(**asked, messages=said, extra_headers=intent)
    uses = [block for block in answer.content if block.type == "tool_use"]
    assert ([use.input for use in uses], answer.stop_reason) == ([{"number": 1}, {"number": 2}], "tool_use")
    with client.messages.stream(**asked, messages=said, extra_headers=intent) as stream:
        streamed = stream.get_final_message()
    assert [block.input for block in streamed.content if block.type == "tool_use"] == [use.input for use in uses]
    results = [{"type": "tool_result", "tool_use_id": use.id, "content": f"order {n}"} for n, use in enumerate(uses)]
    after = client.messages.create(
        model=model, max_tokens=200, tools=[TOOL],
        messages=[*said, {"role": "assistant", "content": answer.content}, {"role": "user", "content": results}],
        extra_headers={"Idempotency-Key": intent["Idempotency-Key"] + "-2"},
    )
    assert "order 1" in after.content[0].text


@every_error
def test_errors_raise_their_class(client, intent, route, model, raised, status):
    with pytest.raises(getattr(anthropic, raised)) as caught:
        client.with_options(max_retries=0).messages.create(
            model=route(model), max_tokens=10, messages=HELLO, extra_headers=intent
        )
    assert caught.value.status_code == status and caught.value.body["type"] == "error"


@every_error
def test_async_streams_raise_their_class(api_key, intent, route, model, raised, status):
    async def asked():
        async with anthropic.AsyncAnthropic(base_url=os.environ["GATEWAY"], api_key=api_key, max_retries=0) as client:
            body = dict(model=route(model), max_tokens=10, messages=HELLO, extra_headers=intent)
            async with client.messages.stream(**body) as stream:
                await stream.get_final_message()

    with pytest.raises(getattr(anthropic, raised)) as caught:
        asyncio.run(asked())
    assert caught.value.status_code == status


def test_a_conflict_is_raised_at_once(client, intent):
    client.messages.create(model="chat", max_tokens=10, messages=HELLO, extra_headers=intent)
    with pytest.raises(anthropic.ConflictError):
        client.messages.create(model="chat", max_tokens=11, messages=HELLO, extra_headers=intent)


def test_retries_after_timeouts_are_one_call_at_the_provider(client, intent, one_call):
    impatient = client.with_options(timeout=0.7, max_retries=5)
    with one_call("slow"):
        answer = impatient.messages.create(model="slow", max_tokens=10, messages=HELLO, extra_headers=intent)
    assert answer.content[0].text == "late"


def test_retries_after_an_unknown_outcome_are_one_call_at_the_provider(client, intent, one_call):
    ask = client.with_options(max_retries=8).messages.create
    with one_call("silent"):
        answer = ask(model="silent", max_tokens=10, messages=HELLO, extra_headers=intent)
    assert answer.content[0].text == "late"


def test_models(client):
    names = [model.id for model in client.models.list(limit=2)]
    assert {"chat", "claude", "gemini"} <= set(names) and len(names) == len(set(names)) > 2, "page after page"
    assert client.models.retrieve("claude").display_name == "claude"
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("no-such-route")


def test_a_timeout_is_raised_and_the_answer_is_there_later(client, intent, one_call):
    asked = dict(model="slow", max_tokens=10, messages=HELLO, extra_headers=intent)
    with one_call("slow"):
        with pytest.raises(anthropic.APITimeoutError):
            client.with_options(timeout=0.4, max_retries=0).messages.create(**asked)
        assert client.messages.create(**asked).content[0].text == "late"


def test_async_timeouts_and_retries_are_one_call_at_the_provider(api_key, intent, one_call):
    async def asked():
        async with anthropic.AsyncAnthropic(base_url=os.environ["GATEWAY"], api_key=api_key) as client:
            body = dict(model="slow", max_tokens=10, messages=HELLO, extra_headers=intent)
            with pytest.raises(anthropic.APITimeoutError):
                await client.with_options(timeout=0.3, max_retries=0).messages.create(**body)
            async with client.with_options(timeout=0.7, max_retries=5).messages.stream(**body) as stream:
                return await stream.get_final_text()

    with one_call("slow"):
        assert asyncio.run(asked()) == "late"


@pytest.mark.parametrize("model", MODELS)
def test_parse_helper(client, intent, model):
    asked = dict(model=model, max_tokens=200, messages=[{"role": "user", "content": "Login is broken"}])
    parsed = client.messages.parse(**asked, output_format=Ticket, extra_headers=intent)
    assert isinstance(parsed.parsed_output, Ticket)


def test_a_wrong_key_and_a_missing_one(client, intent):
    stranger = client.with_options(api_key="ilk_nobody", max_retries=0)
    with pytest.raises(anthropic.AuthenticationError):
        stranger.messages.create(model="chat", max_tokens=10, messages=HELLO, extra_headers=intent)
    with pytest.raises(anthropic.BadRequestError, match="Idempotency-Key"):
        client.messages.create(model="chat", max_tokens=10, messages=HELLO)


@pytest.mark.parametrize("model", MODELS)
def test_async_clicks_and_stream(api_key, intent, model):
    async def asked():
        async with anthropic.AsyncAnthropic(base_url=os.environ["GATEWAY"], api_key=api_key) as client:
            body = dict(model=model, max_tokens=100, messages=HELLO, extra_headers=intent)
            clicks = await asyncio.gather(*(client.messages.create(**body) for _ in range(4)))
            async with client.messages.stream(**body) as stream:
                return {answer.id for answer in clicks}, clicks[0].content[0].text, await stream.get_final_text()

    ids, whole, streamed = asyncio.run(asked())
    assert len(ids) == 1 and "hello there" in whole and streamed == whole


def test_count_tokens(client):
    assert client.messages.count_tokens(model="claude", messages=HELLO).input_tokens > 0


@pytest.mark.parametrize("streamed", [False, True])
def test_another_vendors_signature_comes_back_with_the_answer(client, intent, streamed):
    said = [{"role": "user", "content": "find order 1"}]
    asked = dict(model="signed", max_tokens=200, tools=[TOOL])
    if streamed:
        with client.messages.stream(**asked, messages=said, extra_headers=intent) as stream:
            content = stream.get_final_message().content
    else:
        content = client.messages.create(**asked, messages=said, extra_headers=intent).content
    (use,) = [block for block in content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "shipped"}
    talk = [*said, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    second = {"Idempotency-Key": intent["Idempotency-Key"] + "-2"}
    assert client.messages.create(**asked, messages=talk, extra_headers=second).content[0].text == "signed: True"
