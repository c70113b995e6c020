"""Anthropic's own Python client, against routes of both wire formats."""

import os

import anthropic
import pytest

HELLO = [{"role": "user", "content": "hello there"}]
TOOL = {
    "name": "find_order", "description": "Finds an order by its number.",
    "input_schema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
}
MODELS = ["chat", "claude"]


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


@pytest.mark.parametrize(
    ("model", "raised", "status"),
    [
        ("limited", anthropic.RateLimitError, 429),
        ("broken", anthropic.InternalServerError, 502),
        ("refusing", anthropic.BadRequestError, 400),
        ("no-such-route", anthropic.NotFoundError, 404),
    ],
)
def test_errors_raise_their_class(client, intent, model, raised, status):
    with pytest.raises(raised) as caught:
        client.with_options(max_retries=0).messages.create(
            model=model, max_tokens=10, messages=HELLO, extra_headers=intent
        )
    assert caught.value.status_code == status and caught.value.body["type"] == "error"


def test_a_conflict_is_raised_at_once(client, intent):
    client.messages.create(model="chat", max_tokens=10, messages=HELLO, extra_headers=intent)
    with pytest.raises(anthropic.ConflictError):
        client.messages.create(model="chat", max_tokens=11, messages=HELLO, extra_headers=intent)


def test_retries_after_timeouts_are_one_call_at_the_provider(client, intent, provider_calls):
    before = provider_calls("slow")
    impatient = client.with_options(timeout=0.7, max_retries=5)
    answer = impatient.messages.create(model="slow", max_tokens=10, messages=HELLO, extra_headers=intent)
    assert (answer.content[0].text, provider_calls("slow") - before) == ("late", 1)


def test_count_tokens(client):
    assert client.messages.count_tokens(model="claude", messages=HELLO).input_tokens > 0
