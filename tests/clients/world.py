"""A gateway with simulated providers behind it, and a command that is run against them.

    python world.py COMMAND...

Starts `interlock sim`, a provider that breaks in a way named by the model, and `interlock serve` on a private Postgres,
all on free ports of the loopback; runs the command with GATEWAY, GATEWAY_KEY, OPERATOR, OPERATOR_TOKEN and FAULTY in
its environment, and SIM, STRICT_SIM and BROKEN_SIM for those who ask a simulated provider themselves; stops everything.
INTERLOCK names the binary.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "slow",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "late"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
# What each model answers: a status, headers, an error's type and its words.
FAULTS = {
    "limited": (429, {"retry-after": "7"}, "rate_limit_exceeded", "Rate limit reached"),
    "broken": (500, {}, "server_error", "The server had an error"),
    "overloaded": (503, {}, "overloaded", "The engine is overloaded"),
    "forbidden": (401, {}, "invalid_api_key", "Incorrect API key provided"),
    "refusing": (400, {}, "invalid_request_error", "'temperature' is too high"),
    "moderated": (403, {}, "content_policy_violation", "The request was rejected by the safety system"),
    "unprocessable": (422, {}, "invalid_request_error", "'messages' cannot be processed"),
}
# A target that has failed is left alone for a while: each test takes a target of its own, `limited.0`, `limited.1`, …
TARGETS = 60
SIGNATURE = "c2lnbmF0dXJl"


def signed(asked):
    """A call with Google's signature on it; and once that has come back, word of it."""
    calls = [call for message in asked["messages"] for call in message.get("tool_calls") or []]
    if calls:
        seen = [call.get("extra_content", {}).get("google", {}).get("thought_signature") for call in calls]
        message, end = {"role": "assistant", "content": f"signed: {seen == [SIGNATURE]}"}, "stop"
    else:
        call = {"id": "call_1", "type": "function", "function": {"name": "find_order", "arguments": '{"number": 1}'}}
        call["extra_content"] = {"google": {"thought_signature": SIGNATURE}}
        message, end = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    return {**ANSWER, "choices": [{"index": 0, "message": message, "finish_reason": end}]}


SIMS = {
    "SIM": [],
    "STRICT_SIM": ["--model", "gemini-2.5-flash", "--window", "512"],
    "BROKEN_SIM": ["--model", "gemini-2.5-flash", "--misbehave", "bad-request-as-500"],
}
SLOW = 2.0
# Models that answer late, with what else their route says: `silent` and `keyless` are given up before they answer.
LATE = {
    "slow": "",
    "silent": 'attempt_timeout = "500ms"\n',
    "keyless": 'attempt_timeout = "500ms"\nidempotency = "generate"\n',
}


class Faulty(BaseHTTPRequestHandler):
    """Breaks as its model is named, and tells how often each was called."""

    protocol_version = "HTTP/1.1"
    calls: dict = {}

    def do_GET(self):
        self.answer(200, {}, self.calls)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model = asked["model"].partition(".")[0]
        self.calls[model] = self.calls.get(model, 0) + 1
        if model in LATE:
            time.sleep(SLOW)
            return self.answer(200, {}, ANSWER)
        if model == "signed":
            return self.answer(200, {}, signed(asked))
        status, headers, code, words = FAULTS[model]
        self.answer(status, headers, {"error": {"message": words, "type": code, "code": code, "param": None}})

    def answer(self, status, headers, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "content-type": "application/json", "content-length": len(body)}.items():
            self.send_header(name, str(value))
        # Whoever was cancelled does not wait for the answer.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def settings(sim, faulty):
    more = {**{f"{name}.{at}": "" for name in FAULTS for at in range(TARGETS)}, **LATE}
    routes = [f'[routes."{name}"]\ntargets = ["faulty/{name}"]\nretries = 0\n{more[name]}' for name in more]
    return "\n".join([
        '[server]\nlisten = "127.0.0.1:0"\noperator_listen = "127.0.0.1:0"\noperator_token = "env:OPERATOR_TOKEN"\n',
        f'[providers.openai]\nadapter = "openai"\nbase_url = "{sim}"\n',
        f'[providers.anthropic]\nadapter = "anthropic"\nbase_url = "{sim}"\n',
        f'[providers.google]\nadapter = "gemini"\nbase_url = "{sim}beta"\napi_key = "env:OPERATOR_TOKEN"\n',
        f'[providers.faulty]\nadapter = "openai"\nbase_url = "{faulty}"\n',
        f'[providers.signing]\nadapter = "gemini-openai"\nbase_url = "{faulty}"\napi_key = "env:OPERATOR_TOKEN"\n',
        '[routes.signed]\ntargets = ["signing/signed"]\n',
        '[routes.chat]\ntargets = ["openai/sim-1"]\n',
        '[routes.claude]\ntargets = ["anthropic/sim-1"]\n',
        '[routes.gemini]\ntargets = ["google/sim-1"]\n',
        *routes,
    ])


def start(binary, *arguments, **more):
    """A process, and the http addresses that it prints, in their order."""
    process = subprocess.Popen([binary, *arguments], stdout=subprocess.PIPE, text=True, **more)

    def addresses():
        for line in process.stdout:
            if "http://" in line:
                yield "http://" + line.split("http://")[1].split('"')[0].strip()
        raise SystemExit(f"{binary} {' '.join(arguments)} did not start")

    return process, addresses()


def main(command):
    binary = os.environ["INTERLOCK"]
    here = pathlib.Path(tempfile.mkdtemp(prefix="interlock-clients-"))
    here.chmod(0o755)
    faulty = ThreadingHTTPServer(("127.0.0.1", 0), Faulty)
    threading.Thread(target=faulty.serve_forever, daemon=True).start()
    faulty_at = f"http://127.0.0.1:{faulty.server_port}"
    running = []
    try:
        sims = {}
        for name, arguments in SIMS.items():
            sim, addresses = start(binary, "sim", "--listen", "127.0.0.1:0", *arguments)
            running.append(sim)
            sims[name] = next(addresses)
        config = here / "interlock.toml"
        config.write_text(settings(sims["SIM"], faulty_at))
        token = "operator-token-of-the-client-tests"
        env = {**os.environ, "OPERATOR_TOKEN": token, "INTERLOCK_LOG": "error"}
        at = {"cwd": here, "env": env}
        gateway, addresses = start(binary, "--config", str(config), "serve", **at)
        running.append(gateway)
        gateway_at, operator_at = next(addresses), next(addresses)
        made = subprocess.run([binary, "--config", str(config), "--json", "key", "create", "--owner", "clients"],
                              check=True, capture_output=True, text=True, **at)
        key = json.loads(made.stdout)["key"]
        world = {"TARGETS": str(TARGETS), "GATEWAY": gateway_at, "GATEWAY_KEY": key, "FAULTY": faulty_at, **sims}
        world |= {"OPERATOR": operator_at, "OPERATOR_TOKEN": token}
        return subprocess.run(command, env={**os.environ, **world}).returncode
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
