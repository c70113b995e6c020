// Anthropic's own Node client.
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { apiKey, gateway, hello, intent, models, providerCalls } from "./world.js";

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

test("errors raise their class, retries are one call", async () => {
  const limited = { model: "limited", max_tokens: 10, messages: hello };
  const asked = client.messages.create(limited, { headers: intent(), maxRetries: 0 });
  await assert.rejects(asked, Anthropic.RateLimitError);
  const before = await providerCalls("slow");
  const slow = { model: "slow", max_tokens: 10, messages: hello };
  const answer = await client.messages.create(slow, { headers: intent(), timeout: 700, maxRetries: 5 });
  assert.equal(answer.content[0].text, "late");
  assert.equal((await providerCalls("slow")) - before, 1);
});
