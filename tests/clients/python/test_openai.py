"""OpenAI's own Python client."""

import asyncio
import json

import openai
import pytest
from pydantic import BaseModel

HELLO = [{"role": "user", "content": "hello there"}]
LOOKUP = {
    "type": "function",
    "function": {
        "name": "find_order",
        "description": "Finds an order by its number.",
        "parameters": {
            "type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"],
            "additionalProperties": False,
        },
    },
}
MODELS = ["chat", "claude", "gemini"]


class Ticket(BaseModel):
    title: str
    urgent: bool


@pytest.fixture
def client(base_url, api_key):
    return openai.OpenAI(base_url=base_url, api_key=api_key)


@pytest.fixture
def patient(client):
    """Sends once: what it raises is what the gateway answered."""
    return client.with_options(max_retries=0)


@pytest.mark.parametrize("model", MODELS)
def test_plain_and_its_replay(client, intent, model):
    ask = lambda: client.chat.completions.with_raw_response.create(model=model, messages=HELLO, extra_headers=intent)
    first, again = ask(), ask()
    answer = first.parse()
    assert "hello there" in answer.choices[0].message.content
    assert (answer.choices[0].finish_reason, answer.usage.total_tokens > 2) == ("stop", True)
    assert again.content == first.content
    assert again.headers["idempotent-replayed"] == "true" and "idempotent-replayed" not in first.headers
    assert again.headers["x-interlock-job-id"] == first.headers["x-interlock-job-id"]


@pytest.mark.parametrize("model", MODELS)
def test_stream_says_what_the_whole_says(client, intent, model):
    stream = client.chat.completions.create(
        model=model, messages=HELLO, stream=True, stream_options={"include_usage": True}, extra_headers=intent
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    ends = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
    whole = client.chat.completions.create(model=model, messages=HELLO, extra_headers=intent)
    assert (text, ends) == (whole.choices[0].message.content, ["stop"])
    assert chunks[-1].usage == whole.usage


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("numbers", [[4711], [1, 2]])
def test_tools(client, intent, model, numbers):
    said = "find_order for " + " and ".join(json.dumps({"number": n}) for n in numbers)
    messages = [{"role": "user", "content": said}]
    answer = client.chat.completions.create(
        model=model, messages=messages, tools=[LOOKUP], tool_choice="required", extra_headers=intent
    )
    calls = answer.choices[0].message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == [{"number": n} for n in numbers]
    assert len({call.id for call in calls}) == len(numbers) and answer.choices[0].finish_reason == "tool_calls"
    results = [{"role": "tool", "tool_call_id": call.id, "content": f"order {n}"} for call, n in zip(calls, numbers)]
    assistant = answer.choices[0].message.model_dump(exclude_none=True)
    after = client.chat.completions.create(
        model=model, messages=[*messages, assistant, *results], tools=[LOOKUP],
        extra_headers={"Idempotency-Key": intent["Idempotency-Key"] + "-2"},
    )
    assert f"order {numbers[-1]}" in after.choices[0].message.content


@pytest.mark.parametrize("model", MODELS)
def test_streamed_tools_are_assembled_by_the_helper(client, intent, model):
    said = 'find_order for {"number": 1} and {"number": 2}'
    asked = dict(model=model, messages=[{"role": "user", "content": said}], tools=[LOOKUP], tool_choice="required")
    with client.chat.completions.stream(**asked, extra_headers=intent) as stream:
        calls = stream.get_final_completion().choices[0].message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == [{"number": 1}, {"number": 2}]


@pytest.mark.parametrize("model", MODELS)
def test_parse_helper(client, intent, model):
    asked = [{"role": "user", "content": "Login is broken for everybody, urgent."}]
    answer = client.chat.completions.parse(model=model, messages=asked, response_format=Ticket, extra_headers=intent)
    assert isinstance(answer.choices[0].message.parsed, Ticket)


def test_embeddings(client, intent):
    asked = dict(model="chat", input=["a lost parcel", "the parcel was lost", "weather"], extra_headers=intent)
    made = client.embeddings.create(**asked)
    one, two, other = [item.embedding for item in made.data]
    near = lambda a, b: sum(x * y for x, y in zip(a, b))
    assert abs(near(one, one) - 1) < 1e-3 and near(one, two) > near(one, other)
    assert made.usage.prompt_tokens == made.usage.total_tokens > 5
    assert client.embeddings.create(**asked) == made
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(**{**asked, "model": "claude", "extra_headers": {"Idempotency-Key": "e"}})


def test_models(client):
    assert {"chat", "claude", "slow"} <= {model.id for model in client.models.list()}


@pytest.mark.parametrize(
    ("model", "raised", "status"),
    [
        ("limited", openai.RateLimitError, 429),
        ("broken", openai.InternalServerError, 502),
        ("overloaded", openai.InternalServerError, 503),
        ("forbidden", openai.InternalServerError, 502),
        ("refusing", openai.BadRequestError, 400),
        ("no-such-route", openai.NotFoundError, 404),
    ],
)
def test_errors_raise_their_class(patient, intent, model, raised, status):
    with pytest.raises(raised) as caught:
        patient.chat.completions.create(model=model, messages=HELLO, extra_headers=intent)
    assert (caught.value.status_code, bool(caught.value.message)) == (status, True)
    if model == "limited":
        assert int(caught.value.response.headers["retry-after"]) >= 1


def test_a_wrong_key_a_missing_one_and_bad_input(base_url, patient, intent):
    stranger = openai.OpenAI(base_url=base_url, api_key="ilk_nobody", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(model="chat", messages=HELLO, extra_headers=intent)
    with pytest.raises(openai.BadRequestError, match="Idempotency-Key") as caught:
        patient.chat.completions.create(model="chat", messages=HELLO)
    assert caught.value.code == "idempotency_key_missing"
    with pytest.raises(openai.BadRequestError) as caught:
        patient.chat.completions.create(model="chat", messages="hello", extra_headers=intent)
    assert caught.value.param == "messages"


def test_a_conflict_is_raised_at_once(client, intent):
    """The client retries a 409 twice by default; `x-should-retry: false` keeps it from that."""
    client.chat.completions.create(model="chat", messages=HELLO, extra_headers=intent)
    sent = []
    watched = client.with_options(http_client=openai.DefaultHttpxClient(event_hooks={"request": [sent.append]}))
    other = [{"role": "user", "content": "something else"}]
    with pytest.raises(openai.ConflictError):
        watched.chat.completions.create(model="chat", messages=other, extra_headers=intent)
    assert len(sent) == 1


def test_retries_after_timeouts_are_one_call_at_the_provider(client, intent, provider_calls):
    before = provider_calls("slow")
    impatient = client.with_options(timeout=0.7, max_retries=5)
    answer = impatient.chat.completions.create(model="slow", messages=HELLO, extra_headers=intent)
    assert (answer.choices[0].message.content, provider_calls("slow") - before) == ("late", 1)


def test_a_timeout_is_raised_and_the_answer_is_there_later(client, intent, provider_calls):
    before = provider_calls("slow")
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.5, max_retries=0).chat.completions.create(
            model="slow", messages=HELLO, extra_headers=intent
        )
    answer = client.chat.completions.create(model="slow", messages=HELLO, extra_headers=intent)
    assert (answer.choices[0].message.content, provider_calls("slow") - before) == ("late", 1)


def test_async_clicks_are_one_job(base_url, api_key, intent, provider_calls):
    before = provider_calls("slow")

    async def click():
        async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as client:
            ask = client.chat.completions.with_raw_response.create
            return await ask(model="slow", messages=HELLO, extra_headers=intent)

    async def clicks():
        return await asyncio.gather(*(click() for _ in range(8)))

    answers = asyncio.run(clicks())
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["x-interlock-job-id"] for answer in answers}) == 1
    assert provider_calls("slow") - before == 1


def test_async_stream(base_url, api_key, intent):
    async def heard():
        async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as client:
            stream = await client.chat.completions.create(
                model="claude", messages=HELLO, stream=True, extra_headers=intent
            )
            return [chunk async for chunk in stream]

    text = "".join(chunk.choices[0].delta.content or "" for chunk in asyncio.run(heard()) if chunk.choices)
    assert "hello there" in text
