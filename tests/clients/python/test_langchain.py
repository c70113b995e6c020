"""LangChain's OpenAI chat model."""

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Ticket(BaseModel):
    """A ticket."""

    title: str
    urgent: bool


@tool
def find_order(number: int) -> str:
    """Finds an order by its number."""
    return f"order {number} was shipped"


@pytest.fixture(params=["chat", "claude"])
def model(request, base_url, api_key):
    return ChatOpenAI(model=request.param, base_url=base_url, api_key=api_key)


def test_invoke_and_stream(model, intent):
    whole = model.invoke("hello there", extra_headers=intent)
    assert "hello there" in whole.content and whole.usage_metadata["total_tokens"] > 2
    streamed = "".join(chunk.content for chunk in model.stream("hello there", extra_headers=intent))
    assert streamed == whole.content


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
    ticket = model.with_structured_output(Ticket, method=method).invoke("Login is broken", extra_headers=intent)
    assert isinstance(ticket, Ticket)
