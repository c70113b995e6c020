// Vercel's AI SDK, by its OpenAI-compatible provider.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, embedMany, generateObject, generateText, streamText, tool } from "ai";
import { z } from "zod";
import { apiKey, baseURL, errors, intent, models, oneCall, route } from "./world.js";

const interlock = createOpenAICompatible({ name: "interlock", baseURL, apiKey, supportsStructuredOutputs: true });

for (const model of models) {
  test(`${model}: text and stream`, async () => {
    const headers = intent();
    const whole = await generateText({ model: interlock(model), prompt: "hello there", headers });
    assert.match(whole.text, /hello there/);
    const streamed = streamText({ model: interlock(model), prompt: "hello there", headers });
    assert.equal(await streamed.text, whole.text);
    assert.equal(await streamed.finishReason, "stop");
  });

  test(`${model}: an object of a schema`, async () => {
    const schema = z.object({ title: z.string(), urgent: z.boolean() });
    const made = await generateObject({ model: interlock(model), schema, prompt: "Login is broken", headers: intent() });
    assert.equal(typeof made.object.urgent, "boolean");
  });

  test(`${model}: parallel tools`, async () => {
    const find_order = tool({ description: "Finds an order.", inputSchema: z.object({ number: z.int() }) });
    const prompt = 'find_order for {"number": 1} and {"number": 2}';
    const asked = { model: interlock(model), tools: { find_order }, toolChoice: "required", prompt };
    const made = await generateText({ ...asked, headers: intent() });
    assert.deepEqual(made.toolCalls.map((call) => call.input), [{ number: 1 }, { number: 2 }]);
  });
}

for (const [model, , statusCode] of errors) {
  test(`${model} raises an APICallError`, async () => {
    const asked = { prompt: "hello", headers: intent(), maxRetries: 0 };
    const failed = (error) => APICallError.isInstance(error) && error.statusCode === statusCode;
    await assert.rejects(generateText({ ...asked, model: interlock(route(model)) }), failed);
  });
}

test("a wrong key and a conflict", async () => {
  const failed = (statusCode) => (error) => APICallError.isInstance(error) && error.statusCode === statusCode;
  const stranger = createOpenAICompatible({ name: "interlock", baseURL, apiKey: "ilk_nobody" });
  const asked = { prompt: "hello", headers: intent(), maxRetries: 0 };
  await assert.rejects(generateText({ ...asked, model: stranger("chat") }), failed(401));
  await generateText({ ...asked, model: interlock("chat") });
  await assert.rejects(generateText({ ...asked, model: interlock("chat"), prompt: "something else" }), failed(409));
});

test("embeddings", async () => {
  const made = await embedMany({ model: interlock.textEmbeddingModel("chat"), values: ["a", "b"], headers: intent() });
  assert.deepEqual(made.embeddings.map((vector) => vector.length), [64, 64]);
});

test("clicks are one job: a provider that is never called twice for one answer", async () => {
  const headers = intent();
  const ask = () => generateText({ model: interlock("slow"), prompt: "hello", headers });
  const [one, two] = await oneCall("slow", () => Promise.all([ask(), ask()]));
  assert.deepEqual([one.text, two.text], ["late", "late"]);
});

test("a call that was given up is taken up again with its key", async () => {
  const asked = { model: interlock("slow"), prompt: "hello", headers: intent() };
  const late = await oneCall("slow", async () => {
    const impatient = generateText({ ...asked, abortSignal: AbortSignal.timeout(400) });
    await assert.rejects(impatient, (error) => ["TimeoutError", "AbortError"].includes(error.name));
    return generateText(asked);
  });
  assert.equal(late.text, "late");
});

test("a stream that was given up is taken up again with its key", async () => {
  const asked = { model: interlock("slow"), prompt: "hello", headers: intent() };
  const late = await oneCall("slow", async () => {
    const parts = [];
    const impatient = streamText({ ...asked, abortSignal: AbortSignal.timeout(400), onError: () => {} });
    for await (const part of impatient.fullStream) parts.push(part.type);
    assert.ok(parts.includes("abort") || parts.includes("error"), parts.join(" "));
    return streamText(asked).text;
  });
  assert.equal(late, "late");
});

test("its own retries after an unknown outcome are one call at the provider", async () => {
  const ask = () => generateText({ model: interlock("silent"), prompt: "hello", headers: intent(), maxRetries: 3 });
  assert.equal((await oneCall("silent", ask)).text, "late");
});
