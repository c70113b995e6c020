"""instructor over OpenAI's client."""

import asyncio

import instructor
import openai
import pytest
from pydantic import BaseModel


class Ticket(BaseModel):
    title: str
    urgent: bool


@pytest.mark.parametrize("model", ["chat", "claude", "gemini"])
@pytest.mark.parametrize("mode", [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA])
def test_a_model_of_the_answer(base_url, api_key, intent, model, mode):
    client = instructor.from_openai(openai.OpenAI(base_url=base_url, api_key=api_key), mode=mode)
    asked = [{"role": "user", "content": "Login is broken for everybody"}]
    ticket = client.chat.completions.create(
        model=model, messages=asked, response_model=Ticket, extra_headers=intent, max_retries=0
    )
    assert isinstance(ticket, Ticket)


@pytest.mark.parametrize("model", ["chat", "claude", "gemini"])
def test_async(base_url, api_key, intent, model):
    async def asked():
        async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key) as plain:
            client = instructor.from_openai(plain, mode=instructor.Mode.JSON_SCHEMA)
            said = [{"role": "user", "content": "Login is broken for everybody"}]
            return await client.chat.completions.create(
                model=model, messages=said, response_model=Ticket, extra_headers=intent, max_retries=0
            )

    assert isinstance(asyncio.run(asked()), Ticket)


def test_an_error_keeps_its_words(base_url, api_key, intent):
    client = instructor.from_openai(openai.OpenAI(base_url=base_url, api_key=api_key))
    with pytest.raises(Exception, match="'temperature' is too high"):
        client.chat.completions.create(
            model="refusing", messages=[{"role": "user", "content": "hi"}], response_model=Ticket,
            extra_headers=intent, max_retries=0,
        )
