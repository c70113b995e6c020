// Anthropic's own Node client.
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { apiKey, errors, gateway, hello, intent, models, oneCall, route } from "./world.js";

const client = new Anthropic({ baseURL: gateway, apiKey });

for (const model of models) {
  test(`${model}: plain and streamed`, async () => {
    const headers = intent();
    const asked = { model, max_tokens: 100, messages: hello };
    const whole = await client.messages.create(asked, { headers });
    assert.match(whole.content[0].text, /hello there/);
    const final = await client.messages.stream(asked, { headers }).finalMessage();
    assert.equal(final.content[0].text, whole.content[0].text);
    assert.equal(final.stop_reason, "end_turn");
  });
}

for (const model of models) {
  test(`${model}: parallel tools, whole and streamed, and their results`, async () => {
    const input_schema = { type: "object", properties: { number: { type: "integer" } }, required: ["number"] };
    const tools = [{ name: "find_order", description: "Finds an order.", input_schema }];
    const said = [{ role: "user", content: 'find_order for {"number": 1} and {"number": 2}' }];
    const asked = { model, max_tokens: 200, messages: said, tools, tool_choice: { type: "any" } };
    const whole = await client.messages.create(asked, { headers: intent() });
    const streamed = await client.messages.stream(asked, { headers: intent() }).finalMessage();
    const uses = (answer) => answer.content.filter((block) => block.type === "tool_use");
    for (const answer of [whole, streamed]) {
      assert.deepEqual(uses(answer).map((use) => use.input), [{ number: 1 }, { number: 2 }]);
    }
    const results = uses(whole).map((use) => ({ type: "tool_result", tool_use_id: use.id, content: "shipped" }));
    const talk = [...said, { role: "assistant", content: whole.content }, { role: "user", content: results }];
    const after = await client.messages.create({ model, max_tokens: 200, messages: talk, tools }, { headers: intent() });
    assert.match(after.content[0].text, /shipped/);
  });
}

for (const [model, raised, status] of errors) {
  test(`${model} raises its class, whole and streamed`, async () => {
    // This SDK has classes of its own for 502 to 504: kinds of its InternalServerError.
    const is = (error) => error instanceof Anthropic[raised] && error.status === status;
    const body = { model: route(model), max_tokens: 10, messages: hello };
    const once = { headers: intent(), maxRetries: 0 };
    await assert.rejects(client.messages.create(body, once), is);
    await assert.rejects(client.messages.stream(body, once).finalMessage(), is);
  });
}

test("models, tokens, a conflict", async () => {
  const names = [];
  for await (const model of client.models.list({ limit: 2 })) names.push(model.id);
  assert.ok(models.every((model) => names.includes(model)), names.join(" "));
  assert.equal((await client.models.retrieve("claude")).type, "model");
  assert.ok((await client.messages.countTokens({ model: "claude", messages: hello })).input_tokens > 0);
  const headers = intent();
  await client.messages.create({ model: "chat", max_tokens: 10, messages: hello }, { headers });
  const other = client.messages.create({ model: "chat", max_tokens: 11, messages: hello }, { headers });
  await assert.rejects(other, Anthropic.ConflictError);
});

test("a wrong key and a missing one", async () => {
  const asked = { model: "chat", max_tokens: 10, messages: hello };
  const stranger = new Anthropic({ baseURL: gateway, apiKey: "ilk_nobody", maxRetries: 0 });
  await assert.rejects(stranger.messages.create(asked, { headers: intent() }), Anthropic.AuthenticationError);
  await assert.rejects(client.messages.create(asked), Anthropic.BadRequestError);
});

test("timeouts and retries are one call at the provider", async () => {
  const slow = { model: "slow", max_tokens: 10, messages: hello };
  const headers = intent();
  const answer = await oneCall("slow", async () => {
    const impatient = client.messages.create(slow, { headers, timeout: 400, maxRetries: 0 });
    await assert.rejects(impatient, Anthropic.APIConnectionTimeoutError);
    return client.messages.create(slow, { headers, timeout: 700, maxRetries: 5 });
  });
  assert.equal(answer.content[0].text, "late");
});

test("retries after an unknown outcome are one call at the provider", async () => {
  const silent = { model: "silent", max_tokens: 10, messages: hello };
  const ask = () => client.messages.create(silent, { headers: intent(), maxRetries: 8 });
  assert.equal((await oneCall("silent", ask)).content[0].text, "late");
});
