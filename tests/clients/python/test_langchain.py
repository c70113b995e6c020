"""LangChain's OpenAI chat model."""

import asyncio

import openai
import pytest
from conftest import ERRORS
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


# LangChain keeps one pool of connections for all its models, and connections belong to the loop that made them.
LOOP = asyncio.Runner()


class Ticket(BaseModel):
    """A ticket."""

    title: str
    urgent: bool


@tool
def find_order(number: int) -> str:
    """Finds an order by its number."""
    return f"order {number} was shipped"


@pytest.fixture(params=["chat", "claude", "gemini"])
def model(request, base_url, api_key):
    return ChatOpenAI(model=request.param, base_url=base_url, api_key=api_key)


def test_invoke_and_stream(model, intent):
    whole = model.invoke("hello there", extra_headers=intent)
    assert "hello there" in whole.content and whole.usage_metadata["total_tokens"] > 2
    streamed = "".join(chunk.content for chunk in model.stream("hello there", extra_headers=intent))
    assert streamed == whole.content


def test_async_invoke_and_stream(model, intent):
    async def asked():
        whole = await model.ainvoke("hello there", extra_headers=intent)
        return whole.content, [chunk.content async for chunk in model.astream("hello there", extra_headers=intent)]

    whole, streamed = LOOP.run(asked())
    assert "hello there" in whole and "".join(streamed) == whole


@pytest.mark.parametrize(("model_name", "raised", "status"), ERRORS)
def test_errors_raise_their_class(base_url, api_key, intent, route, model_name, raised, status):
    chain = ChatOpenAI(model=route(model_name), base_url=base_url, api_key=api_key, max_retries=0)
    with pytest.raises(getattr(openai, raised)) as caught:
        chain.invoke("hi", extra_headers=intent)
    assert caught.value.status_code == status
    with pytest.raises(getattr(openai, raised)):
        LOOP.run(chain.ainvoke("hi", extra_headers=intent))


def test_timeouts_and_retries_are_one_call_at_the_provider(base_url, api_key, intent, one_call):
    impatient = lambda retries: ChatOpenAI(
        model="slow", base_url=base_url, api_key=api_key, timeout=0.7, max_retries=retries
    )
    with one_call("slow"):
        with pytest.raises(openai.APITimeoutError):
            impatient(0).invoke("hi", extra_headers=intent)
        assert impatient(5).invoke("hi", extra_headers=intent).content == "late"


def test_async_timeouts_and_retries_are_one_call_at_the_provider(base_url, api_key, intent, one_call):
    impatient = ChatOpenAI(model="slow", base_url=base_url, api_key=api_key, timeout=0.7, max_retries=5)
    with one_call("slow"):
        assert LOOP.run(impatient.ainvoke("hi", extra_headers=intent)).content == "late"


def test_tools(model, intent):
    bound = model.bind_tools([find_order], tool_choice="required")
    question = HumanMessage('find_order for {"number": 1} and {"number": 2}')
    answer = bound.invoke([question], extra_headers=intent)
    assert [call["args"] for call in answer.tool_calls] == [{"number": 1}, {"number": 2}]
    results = [ToolMessage(find_order.invoke(call["args"]), tool_call_id=call["id"]) for call in answer.tool_calls]
    second = {"Idempotency-Key": intent["Idempotency-Key"] + "-2"}
    after = model.bind_tools([find_order]).invoke([question, answer, *results], extra_headers=second)
    assert "order 2 was shipped" in after.content


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(model, intent, method):
    if (model.model_name, method) == ("gemini", "function_calling"):
        # It asks for one call at most, and Gemini cannot be held to that: refused by name, never dropped.
        with pytest.raises(openai.BadRequestError, match="parallel_tool_calls"):
            model.with_structured_output(Ticket, method=method).invoke("Login is broken", extra_headers=intent)
        return
    ticket = model.with_structured_output(Ticket, method=method).invoke("Login is broken", extra_headers=intent)
    assert isinstance(ticket, Ticket)


def test_async_tools(model, intent):
    question = 'find_order for {"number": 1} and {"number": 2}'
    bound = model.bind_tools([find_order], tool_choice="required")

    async def asked():
        whole = await bound.ainvoke(question, extra_headers=intent)
        streamed = None
        async for chunk in bound.astream(question, extra_headers=intent):
            streamed = chunk if streamed is None else streamed + chunk
        return whole, streamed

    for answer in LOOP.run(asked()):
        assert [call["args"] for call in answer.tool_calls] == [{"number": 1}, {"number": 2}]
