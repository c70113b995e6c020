// OpenAI's own Node client.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { apiKey, baseURL, errors, hello, intent, models, oneCall, route } from "./world.js";

const client = new OpenAI({ baseURL, apiKey });
const parameters = { type: "object", properties: { number: { type: "integer" } }, required: ["number"] };
const tools = [{ type: "function", function: { name: "find_order", description: "Finds an order.", parameters } }];
const twoOrders = [{ role: "user", content: 'find_order for {"number": 1} and {"number": 2}' }];

for (const model of models) {
  test(`${model}: plain, replayed byte for byte`, async () => {
    const headers = intent();
    const ask = () => client.chat.completions.create({ model, messages: hello }, { headers }).withResponse();
    const [first, again] = [await ask(), await ask()];
    assert.match(first.data.choices[0].message.content, /hello there/);
    assert.deepEqual(again.data, first.data);
    assert.equal(again.response.headers.get("idempotent-replayed"), "true");
  });

  test(`${model}: the stream says what the whole says`, async () => {
    const headers = intent();
    const asked = { model, messages: hello, stream: true, stream_options: { include_usage: true } };
    let text = "";
    let usage;
    for await (const chunk of await client.chat.completions.create(asked, { headers })) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    const whole = await client.chat.completions.create({ model, messages: hello }, { headers });
    assert.equal(text, whole.choices[0].message.content);
    assert.deepEqual(usage, whole.usage);
  });

  test(`${model}: parallel tools, whole and streamed`, async () => {
    const asked = { model, messages: twoOrders, tools, tool_choice: "required" };
    const whole = await client.chat.completions.create(asked, { headers: intent() });
    const streamed = await client.chat.completions.stream(asked, { headers: intent() }).finalChatCompletion();
    for (const answer of [whole, streamed]) {
      const calls = answer.choices[0].message.tool_calls;
      assert.deepEqual(calls.map((call) => JSON.parse(call.function.arguments)), [{ number: 1 }, { number: 2 }]);
    }
  });

  test(`${model}: the parse helper`, async () => {
    const response_format = zodResponseFormat(z.object({ title: z.string(), urgent: z.boolean() }), "ticket");
    const answer = await client.chat.completions.parse(
      { model, messages: [{ role: "user", content: "Login is broken" }], response_format },
      { headers: intent() },
    );
    assert.equal(typeof answer.choices[0].message.parsed.urgent, "boolean");
  });
}

for (const model of models) {
  test(`${model}: a response, its stream, and the stream taken up again`, async () => {
    const headers = intent();
    const asked = { model, input: "hello there", background: true, stream: true };
    const first = [];
    for await (const event of await client.responses.create(asked, { headers })) {
      first.push(event);
      if (first.length === 5) break;
    }
    const id = first[0].response.id;
    const rest = [];
    for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: 4 })) rest.push(event);
    assert.deepEqual([...first, ...rest].map((event) => event.sequence_number), [...first, ...rest].map((_, at) => at));
    assert.match(rest.at(-1).response.output[0].content[0].text, /hello there/);
    assert.equal((await client.responses.retrieve(id)).status, "completed");
  });
}

test("a background response that fails or is cancelled says so in its stream", async () => {
  const asked = { model: route("refusing"), input: "hello", background: true, stream: true };
  const events = [];
  for await (const event of await client.responses.create(asked, { headers: intent() })) events.push(event);
  assert.deepEqual(events.map((event) => event.type), ["response.created", "response.in_progress", "response.failed"]);
  const failed = events.at(-1).response;
  assert.deepEqual([failed.status, failed.error.code], ["failed", "invalid_prompt"]);
  assert.equal((await client.responses.stream({ response_id: failed.id }).finalResponse()).status, "failed");
  const slow = { model: "slow", input: "hello", background: true };
  const begun = await client.responses.create(slow, { headers: intent() });
  await client.responses.cancel(begun.id);
  assert.equal((await client.responses.stream({ response_id: begun.id }).finalResponse()).status, "cancelled");
});

test("embeddings and models", async () => {
  const made = await client.embeddings.create({ model: "chat", input: ["a", "b"] }, { headers: intent() });
  assert.deepEqual(made.data.map((item) => item.embedding.length), [64, 64]);
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  assert.ok(models.every((model) => names.includes(model)), names.join(" "));
  assert.equal((await client.models.retrieve("chat")).object, "model");
});

for (const [model, raised, status] of errors) {
  test(`${model} raises its class, whole, streamed and as a response`, async () => {
    const is = (error) => error instanceof OpenAI[raised] && error.status === status;
    const once = { headers: intent(), maxRetries: 0 };
    const asked = { model: route(model), messages: hello };
    await assert.rejects(client.chat.completions.create(asked, once), is);
    const streamed = { model: route(model), messages: hello, stream: true };
    await assert.rejects(client.chat.completions.create(streamed, { headers: intent(), maxRetries: 0 }), is);
    const response = client.responses.create({ model: route(model), input: "hello" }, { headers: intent(), maxRetries: 0 });
    await assert.rejects(response, is);
  });
}

test("a wrong key, a missing one, a conflict", async () => {
  const stranger = new OpenAI({ baseURL, apiKey: "ilk_nobody", maxRetries: 0 });
  const asked = stranger.chat.completions.create({ model: "chat", messages: hello }, { headers: intent() });
  await assert.rejects(asked, OpenAI.AuthenticationError);
  const keyless = client.chat.completions.create({ model: "chat", messages: hello });
  await assert.rejects(keyless, (error) => error.code === "idempotency_key_missing");
  const headers = intent();
  await client.chat.completions.create({ model: "chat", messages: hello }, { headers });
  const other = [{ role: "user", content: "something else" }];
  await assert.rejects(client.chat.completions.create({ model: "chat", messages: other }, { headers }), OpenAI.ConflictError);
});

test("timeouts and retries are one call at the provider", async () => {
  const asked = { model: "slow", messages: hello };
  const headers = intent();
  const late = await oneCall("slow", async () => {
    const impatient = client.chat.completions.create(asked, { headers, timeout: 400, maxRetries: 0 });
    await assert.rejects(impatient, OpenAI.APIConnectionTimeoutError);
    return client.chat.completions.create(asked, { headers, timeout: 700, maxRetries: 5 });
  });
  assert.equal(late.choices[0].message.content, "late");
  const response = await oneCall("slow", () =>
    client.responses.create({ model: "slow", input: "hello" }, { headers: intent(), timeout: 700, maxRetries: 5 }),
  );
  assert.equal(response.output_text, "late");
});

test("retries after an unknown outcome are one call at the provider", async () => {
  const asked = { model: "silent", messages: hello };
  const ask = () => client.chat.completions.create(asked, { headers: intent(), maxRetries: 8 });
  assert.equal((await oneCall("silent", ask)).choices[0].message.content, "late");
});
