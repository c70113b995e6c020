//! One call for an answer on its way through a provider: where the mini-model is asked, where its noise comes from, and
//! where a misbehaving provider does something else.
//!
//! All protocols pass through here, so that a row of the zoo does the same in each.

use std::borrow::Cow;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::model::{self, Ask, Reply};
use super::noise::Noise;
use super::wire::{self, Fault};
use super::zoo::{Act, Bill, Memory, Raw};
use super::{Behaviour, Settings, Wire};

pub(super) struct Asked<'a> {
    pub(super) settings: &'a Settings,
    pub(super) behaviour: Behaviour,
    pub(super) memory: &'a Memory,
    /// The request's id.
    pub(super) id: &'a str,
}

impl Asked<'_> {
    /// The request as this provider reads it.
    pub(super) fn body<'b>(&self, body: &'b Value) -> Cow<'b, Value> {
        let mut body = Cow::Borrowed(body);
        for act in self.settings.acts() {
            if let Act::Body(change) = act {
                change(body.to_mut());
            }
        }
        body
    }

    /// The answers: as many as were asked for.
    pub(super) fn replies(&self, mut ask: Ask, body: &Value) -> Result<Vec<Reply>, Fault> {
        ask.window = self.settings.context_window;
        for act in self.settings.acts() {
            if let Act::Ask(change) = act {
                change(&mut ask, self.memory);
            }
        }
        let chance = self.chance(&ask, body);
        (0..ask.choices).map(|choice| self.reply(&ask, &chance, choice)).collect()
    }

    fn reply(&self, ask: &Ask, chance: &Chance, choice: usize) -> Result<Reply, Fault> {
        let mut reply = model::answer(ask, self.behaviour, &chance.noise(choice), &chance.dice(choice))?;
        let sound = reply.calls.first().map_or_else(|| reply.text.clone(), |call| call.arguments.clone());
        let mut changed = false;
        for act in self.settings.acts() {
            if let Act::Reply(change) = act {
                change(&mut reply, ask, self.memory);
                changed = true;
            }
        }
        if changed {
            let calls = reply.calls.iter().map(|call| model::count(&call.name) + model::count(&call.arguments));
            reply.tokens = model::count(&reply.text) + calls.sum::<usize>();
        }
        self.memory.note(&sound);
        Ok(reply)
    }

    /// With a seed in the request it is the same for the same request, streamed or not; without one, and where noise
    /// is wanted, it differs each time.
    fn chance(&self, ask: &Ask, body: &Value) -> Chance {
        let forced = self.settings.acts().any(|act| matches!(act, Act::Noisy));
        let mut body = body.clone();
        for delivery in ["stream", "stream_options"] {
            body.as_object_mut().map(|body| body.remove(delivery));
        }
        let body = body.to_string();
        let repetition = if ask.seed.is_none() { self.memory.repetition(&body) } else { 0 };
        Chance { seed: self.settings.noise.or(forced.then_some(0)), asked: ask.seed, repetition, body }
    }

    /// What is billed for a prompt and these answers.
    pub(super) fn bill(&self, prompt: usize, replies: &[Reply]) -> Bill {
        let output: usize = replies.iter().map(|reply| reply.tokens).sum();
        let mut bill = match self.behaviour {
            Behaviour::BreaksContract => {
                Bill { prompt: wire::understated(prompt), output: wire::understated(output), cached: 0 }
            }
            Behaviour::Sound | Behaviour::Refuses | Behaviour::Hangs => Bill { prompt, output, cached: 0 },
        };
        for act in self.settings.acts() {
            if let Act::Bill(change) = act {
                change(&mut bill, self.memory);
            }
        }
        bill
    }

    /// A whole answer on the wire.
    pub(super) fn whole(&self, mut answer: Value, wire: Wire) -> Response {
        for act in self.settings.acts() {
            if let Act::Answer(change) = act {
                change(&mut answer, wire);
            }
        }
        let mut raw = Raw {
            status: StatusCode::OK.as_u16(),
            kind: "application/json",
            encoding: None,
            body: answer.to_string().into_bytes(),
            cut: false,
        };
        for act in self.settings.acts() {
            if let Act::Bytes(change) = act {
                change(&mut raw);
            }
        }
        wire::raw(raw)
    }

    /// A stream on the wire.
    pub(super) fn streamed(&self, mut events: Vec<String>, wire: Wire) -> Response {
        for act in self.settings.acts() {
            if let Act::Events(change) = act {
                events = change(events, wire);
            }
        }
        wire::events(events)
    }

    /// A text in the pieces of a stream.
    pub(super) fn pieces(&self, text: &str, body: &Value) -> Vec<String> {
        let pieces = model::pieces(text);
        match self.settings.noise {
            None => pieces,
            Some(seed) => Noise::of(&[&seed.to_le_bytes(), body.to_string().as_bytes(), b"pieces"]).grouped(pieces),
        }
    }
}

/// Where the choices of one call come from.
struct Chance {
    /// The provider's own seed; none: it is not noisy.
    seed: Option<u64>,
    /// The request's seed.
    asked: Option<i64>,
    repetition: u64,
    body: String,
}

impl Chance {
    fn noise(&self, choice: usize) -> Noise {
        if self.seed.is_none() { Noise::silent() } else { self.draw(choice) }
    }

    /// Chance that was asked for: a seed decides it also where there is no noise.
    fn dice(&self, choice: usize) -> Noise {
        if self.seed.is_none() && self.asked.is_none() { Noise::silent() } else { self.draw(choice) }
    }

    fn draw(&self, choice: usize) -> Noise {
        Noise::of(&[
            &self.seed.unwrap_or_default().to_le_bytes(),
            &self.asked.map(i64::to_le_bytes).unwrap_or_default(),
            &self.repetition.to_le_bytes(),
            &choice.to_le_bytes(),
            self.body.as_bytes(),
        ])
    }
}
