// What every client's tests need: where the gateway is, a fresh key per intent, how often a provider was called.
import assert from "node:assert/strict";
import { randomInt, randomUUID } from "node:crypto";

export const gateway = process.env.GATEWAY;
export const baseURL = `${gateway}/v1`;
export const apiKey = process.env.GATEWAY_KEY;
export const models = ["chat", "claude", "gemini"];
export const hello = [{ role: "user", content: "hello there" }];

/** What a route's provider does, the class that both vendors' SDKs raise for it, and the status that the gateway answers. */
export const errors = [
  ["refusing", "BadRequestError", 400],
  ["moderated", "PermissionDeniedError", 403],
  ["no-such-route", "NotFoundError", 404],
  ["unprocessable", "UnprocessableEntityError", 422],
  ["limited", "RateLimitError", 429],
  ["broken", "InternalServerError", 502],
  ["forbidden", "InternalServerError", 502],
  ["overloaded", "InternalServerError", 503],
  ["silent", "InternalServerError", 504],
];

/** A route to a target of one's own that does as its name says, where there are such. */
export const route = (model) => (model === "silent" ? model : `${model}.${randomInt(Number(process.env.TARGETS))}`);

/** The header of one intent: sent again, it is the same job. */
export const intent = () => ({ "Idempotency-Key": randomUUID() });

export async function providerCalls(model) {
  const counts = await (await fetch(process.env.FAULTY)).json();
  return counts[model] ?? 0;
}

/** What `work` gives, during which the model's provider is called once, however often the client asks. */
export async function oneCall(model, work) {
  const before = await providerCalls(model);
  const made = await work();
  assert.equal((await providerCalls(model)) - before, 1);
  return made;
}
