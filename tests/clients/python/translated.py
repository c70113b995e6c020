"""Judges translated answers by the official SDKs' own models: translated.py FILE

Each line of FILE is what a client gets (`providers/translated.rs` writes it): its dialect, whole or as a stream. Every
document and every event must be one that the SDK's models take, required members, types and enumerations included; and
the SDK's own way of putting a stream together must come to the end. What a provider said in the client's own dialect is
passed on as it came: that is looked at as well, and only counted.
"""

import collections
import json
import sys

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

MESSAGE_EVENT = TypeAdapter(RawMessageStreamEvent)
RESPONSE_EVENT = TypeAdapter(ResponseStreamEvent)


def data(stream):
    """The events' data, in order."""
    for frame in stream.split("\n\n"):
        for line in frame.splitlines():
            if line.startswith("data: "):
                yield line[len("data: ") :]


def chat(line):
    if line["delivery"] == "whole":
        ChatCompletion.model_validate_json(line["body"])
        return
    *chunks, done = data(line["body"])
    assert done == "[DONE]", done
    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate_json(chunk))
    whole = state.current_completion_snapshot.to_dict(mode="json")
    assert whole["choices"] and all(choice["finish_reason"] for choice in whole["choices"])


def known(document):
    """Tokens that nobody counted are null, never zero; the model of Anthropic's SDK, not its clients, wants a number."""
    for usage in (document.get("usage"), document.get("message", {}).get("usage")):
        for name in ("input_tokens", "output_tokens"):
            if usage and name in usage and usage[name] is None:
                usage[name] = 0
    return document


def messages(line):
    if line["delivery"] == "whole":
        Message.model_validate(known(json.loads(line["body"])))
        return
    snapshot, buffers = None, {}
    for event in data(line["body"]):
        event = MESSAGE_EVENT.validate_python(known(json.loads(event)))
        snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    assert event.type == "message_stop", event
    Message.model_validate(snapshot.to_dict())
    assert snapshot.stop_reason


def responses(line):
    if line["delivery"] == "whole":
        Response.model_validate_json(line["body"])
        return
    for number, event in enumerate(data(line["body"])):
        event = RESPONSE_EVENT.validate_json(event)
        assert event.sequence_number == number, event
    assert event.type in ("response.completed", "response.incomplete", "response.failed"), event
    assert event.response.output is not None


JUDGES = {"chat": chat, "messages": messages, "responses": responses}


def why(error):
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}, not {first['input']!r:.80}"
    return f"{type(error).__name__}: {error}"[:200]


def main(path):
    good, wrong, own = collections.Counter(), [], collections.Counter()
    with open(path, encoding="utf-8") as file:
        for text in file:
            line = json.loads(text)
            kind = f"{line['dialect']} {line['delivery']}"
            try:
                JUDGES[line["dialect"]](line)
                good[kind] += 1
            except Exception as error:
                if line["own"]:
                    own[f"{line['format']}, {kind}: {why(error)}"] += 1
                else:
                    wrong.append(f"{line['source']} ({line['format']}), {kind}: {why(error)}")
    for kind, count in sorted(good.items()):
        print(f"{count} {kind}")
    for reason, count in sorted(own.items()):
        print(f"{count} of a provider's own, passed on as it came: {reason}")
    print("\n".join(wrong[:60]))
    # Three dialects, whole and streamed; fewer have not been looked at.
    assert len(good) == 6 and min(good.values()) >= 40, good
    sys.exit(f"{len(wrong)} answers that the official clients refuse" if wrong else 0)


main(sys.argv[1])
