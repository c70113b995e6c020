"""instructor over OpenAI's client."""

import instructor
import openai
import pytest
from pydantic import BaseModel


class Ticket(BaseModel):
    title: str
    urgent: bool


@pytest.mark.parametrize("model", ["chat", "claude"])
@pytest.mark.parametrize("mode", [instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA])
def test_a_model_of_the_answer(base_url, api_key, intent, model, mode):
    client = instructor.from_openai(openai.OpenAI(base_url=base_url, api_key=api_key), mode=mode)
    asked = [{"role": "user", "content": "Login is broken for everybody"}]
    ticket = client.chat.completions.create(
        model=model, messages=asked, response_model=Ticket, extra_headers=intent, max_retries=0
    )
    assert isinstance(ticket, Ticket)
