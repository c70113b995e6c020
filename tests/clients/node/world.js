// What every client's tests need: where the gateway is, a fresh key per intent, how often a provider was called.
import { randomUUID } from "node:crypto";

export const gateway = process.env.GATEWAY;
export const baseURL = `${gateway}/v1`;
export const apiKey = process.env.GATEWAY_KEY;
export const models = ["chat", "claude", "gemini"];
export const hello = [{ role: "user", content: "hello there" }];

/** The header of one intent: sent again, it is the same job. */
export const intent = () => ({ "Idempotency-Key": randomUUID() });

export async function providerCalls(model) {
  const counts = await (await fetch(process.env.FAULTY)).json();
  return counts[model] ?? 0;
}
