"""OpenAI's own Python client."""

import asyncio
import json

import openai
import pytest
from conftest import every_error
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


@every_error
@pytest.mark.parametrize("stream", [False, True])
def test_errors_raise_their_class(patient, intent, route, model, raised, status, stream):
    with pytest.raises(getattr(openai, raised)) as caught:
        patient.chat.completions.create(model=route(model), messages=HELLO, stream=stream, extra_headers=intent)
    assert (caught.value.status_code, bool(caught.value.message)) == (status, True)
    if model == "limited":
        assert int(caught.value.response.headers["retry-after"]) >= 1


@every_error
def test_async_errors_raise_their_class(base_url, api_key, intent, route, model, raised, status):
    async def asked():
        async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key, max_retries=0) as client:
            await client.chat.completions.create(model=route(model), messages=HELLO, extra_headers=intent)

    with pytest.raises(getattr(openai, raised)) as caught:
        asyncio.run(asked())
    assert caught.value.status_code == status


def test_an_unknown_outcome_of_a_key_that_the_client_has_not_is_never_repeated(client, one_call):
    """424: a repeat would be a new intent. The client's retries are on."""
    with one_call("keyless"), pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="keyless", messages=HELLO)
    assert (caught.value.status_code, caught.value.code) == (424, "attempt_unknown")


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


@pytest.mark.parametrize("stream", [False, True])
def test_retries_after_timeouts_are_one_call_at_the_provider(client, intent, one_call, stream):
    impatient = client.with_options(timeout=0.7, max_retries=5)
    with one_call("slow"):
        answer = impatient.chat.completions.create(model="slow", messages=HELLO, stream=stream, extra_headers=intent)
        said = said_in(answer) if stream else answer.choices[0].message.content
    assert said == "late"


def said_in(stream):
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def test_retries_after_an_unknown_outcome_are_one_call_at_the_provider(client, intent, one_call):
    """504: the gateway has given up waiting; the late answer is what a later try gets."""
    with one_call("silent"):
        ask = client.with_options(max_retries=8).chat.completions.create
        assert ask(model="silent", messages=HELLO, extra_headers=intent).choices[0].message.content == "late"


def test_a_timeout_is_raised_and_the_answer_is_there_later(client, intent, one_call):
    asked = dict(model="slow", messages=HELLO, extra_headers=intent)
    with one_call("slow"):
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.5, max_retries=0).chat.completions.create(**asked)
        assert client.chat.completions.create(**asked).choices[0].message.content == "late"


def test_async_timeouts_and_retries_are_one_call_at_the_provider(base_url, api_key, intent, one_call):
    async def asked():
        async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as client:
            body = dict(model="slow", messages=HELLO, extra_headers=intent)
            with pytest.raises(openai.APITimeoutError):
                await client.with_options(timeout=0.3, max_retries=0).chat.completions.create(**body)
            return await client.with_options(timeout=0.7, max_retries=5).chat.completions.create(**body)

    with one_call("slow"):
        assert asyncio.run(asked()).choices[0].message.content == "late"


def test_async_clicks_are_one_job(base_url, api_key, intent, one_call):
    async def click():
        async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as client:
            ask = client.chat.completions.with_raw_response.create
            return await ask(model="slow", messages=HELLO, extra_headers=intent)

    async def clicks():
        return await asyncio.gather(*(click() for _ in range(8)))

    with one_call("slow"):
        answers = asyncio.run(clicks())
    assert len({answer.content for answer in answers}) == 1
    assert len({answer.headers["x-interlock-job-id"] for answer in answers}) == 1


@pytest.mark.parametrize("model", MODELS)
def test_async_stream_and_tools(base_url, api_key, intent, model):
    said = [{"role": "user", "content": 'find_order for {"number": 1} and {"number": 2}'}]
    second = {"Idempotency-Key": intent["Idempotency-Key"] + "-2"}

    async def heard():
        async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as client:
            ask = client.chat.completions.create
            stream = await ask(model=model, messages=HELLO, stream=True, extra_headers=intent)
            chunks = [chunk async for chunk in stream]
            strict = {**LOOKUP, "function": {**LOOKUP["function"], "strict": True}}
            asked = dict(model=model, messages=said, tools=[strict], tool_choice="required", extra_headers=second)
            async with client.chat.completions.stream(**asked) as helper:
                return chunks, await helper.get_final_completion()

    chunks, made = asyncio.run(heard())
    assert "hello there" in said_in(chunks)
    calls = made.choices[0].message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == [{"number": 1}, {"number": 2}]
