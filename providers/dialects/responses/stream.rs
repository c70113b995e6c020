//! A stored stream as the events of a response, numbered from 0: `response.created` and `in_progress`, each item of the
//! output from `output_item.added` to `output_item.done`, and the response whole with the last.
//!
//! Chunks of chat completions are told as they come. Events of an OpenAI provider go on as they are, under our own id.

mod item;

use bytes::Bytes;

use super::reply::{self, Ending};
use crate::dialects::carried::{Carried, OF_RESPONSES};
use crate::dialects::cited;
use crate::dialects::said::{self, Kind};
use crate::dialects::{EventWriter, Over, Rendering};
use crate::json::{Json, Object};

use item::{Events, Open};

#[derive(Debug)]
pub(crate) struct Writer {
    rendering: Rendering,
    events: Events,
    /// The response as it was announced.
    response: Option<Object>,
    /// The output so far; the last item may be open.
    items: Vec<Object>,
    open: Option<Open>,
    /// The item of each tool call, by its number in the chunks.
    calls: Vec<(u64, usize)>,
    carried: Carried,
    ending: Ending,
    service_tier: Option<Json>,
    /// The provider's own events were passed on: they bring their own end.
    native: bool,
}

impl Writer {
    pub fn new(rendering: &Rendering) -> Self {
        Writer {
            rendering: rendering.clone(),
            events: Events::after(rendering.after),
            response: None,
            items: Vec::new(),
            open: None,
            calls: Vec::new(),
            carried: Carried::default(),
            ending: Ending::default(),
            service_tier: None,
            native: false,
        }
    }

    fn begin(&mut self, chunk: &Json) {
        if self.response.is_none() {
            let created = reply::created(chunk);
            self.announce(reply::opening(&self.rendering, "in_progress", created, chunk.get("model")));
        }
        if let Some(tier) = chunk.get_some("service_tier") {
            self.service_tier = Some(tier.clone());
        }
    }

    fn announce(&mut self, response: Object) {
        for kind in ["response.created", "response.in_progress"] {
            self.events.tell(kind, [("response", response.clone().into())]);
        }
        self.response = Some(response);
    }

    fn choice(&mut self, choice: &Json) {
        let logprobs = choice.get("logprobs").and_then(|logprobs| logprobs.get("content")).and_then(Json::as_array);
        let empty = Object::new();
        let delta = choice.get("delta").and_then(Json::as_object).unwrap_or(&empty);
        let logprobs = reply::logprobs(logprobs.unwrap_or_default());
        let mut unspoken = Some(&logprobs[..]).filter(|logprobs| !logprobs.is_empty());
        self.carried.take(delta);
        for (name, value) in delta.iter() {
            match (name, value) {
                ("tool_calls", Json::Array(fragments)) => fragments.iter().for_each(|fragment| self.call(fragment)),
                (name, value) if cited::MEMBERS.contains(&name) => self.annotate(cited::annotations(name, value)),
                // The same words under an older name.
                ("reasoning", _) if delta.get_some("reasoning_content").is_some() => {}
                _ => {
                    for (kind, text) in said::words(name, value) {
                        let logprobs = unspoken.take_if(|_| kind == Kind::Text).unwrap_or_default();
                        self.say(kind, text, logprobs);
                    }
                }
            }
        }
        // Some tell them at the end, or with a token that is no text.
        if let Some(logprobs) = unspoken {
            self.say(Kind::Text, "", logprobs);
        }
        for (name, value) in choice.as_object().into_iter().flat_map(Object::iter) {
            if cited::MEMBERS.contains(&name) {
                self.annotate(cited::annotations(name, value));
            }
        }
        if choice.get_some("finish_reason").is_some() {
            self.ending = Ending::of(choice);
        }
    }

    fn say(&mut self, kind: Kind, text: &str, logprobs: &[Json]) {
        let fits = matches!(
            (&self.open, kind),
            (Some(Open::Reasoning), Kind::Reasoning) | (Some(Open::Message(_)), Kind::Text | Kind::Refusal)
        );
        if !fits {
            self.close();
            let index = self.items.len();
            let (open, item) = match kind {
                Kind::Reasoning => (Open::Reasoning, reply::reasoning(&self.rendering, index)),
                Kind::Text | Kind::Refusal => (Open::Message(None), reply::message(&self.rendering, index)),
            };
            self.start(open, item);
        }
        let (Some(open), Some(item)) = (&mut self.open, self.items.last_mut()) else { return };
        self.events.say(open, item, kind, text, logprobs);
    }

    /// Sources that the model named; they belong to the text that is being said, or else to one without a word.
    fn annotate(&mut self, annotations: Vec<Json>) {
        if annotations.is_empty() {
            return;
        }
        if !matches!(self.open, Some(Open::Message(Some(Kind::Text)))) {
            self.say(Kind::Text, "", &[]);
        }
        if let Some(item) = self.items.last_mut() {
            annotations.into_iter().for_each(|annotation| self.events.annotate(item, annotation));
        }
    }

    /// A call begins with its id and name; its arguments follow, whatever else has begun meanwhile.
    fn call(&mut self, fragment: &Json) {
        let number = fragment.get("index").and_then(Json::as_u64).unwrap_or_default();
        let function = fragment.get("function");
        let of_function = |name: &str| function.and_then(|function| function.get(name));
        let known = self.calls.iter().find(|(known, _)| *known == number).map(|(_, item)| *item);
        let at = known.unwrap_or_else(|| {
            self.close();
            let at = self.items.len();
            let item = reply::call(&self.rendering, at, fragment.get("id"), of_function("name"));
            self.start(Open::Call, item);
            self.calls.push((number, at));
            at
        });
        let arguments = of_function("arguments").and_then(Json::as_str).unwrap_or_default();
        if let Some(item) = self.items.get_mut(at).filter(|_| !arguments.is_empty()) {
            self.events.argue(item, at, arguments);
        }
    }

    fn start(&mut self, open: Open, item: Object) {
        self.events.at = self.items.len();
        self.events.tell_item("response.output_item.added", &item);
        self.items.push(item);
        self.open = Some(open);
    }

    fn close(&mut self) {
        self.close_as(Ending::default());
    }

    fn close_as(&mut self, ending: Ending) {
        if let (Some(open), Some(item)) = (self.open.take(), self.items.last_mut()) {
            self.events.close(open, item, ending);
        }
    }
}

impl EventWriter for Writer {
    fn chunk(&mut self, stored: &[u8]) -> Bytes {
        let Ok(mut chunk) = Json::parse(stored) else { return Bytes::new() };
        match chunk.get("choices").and_then(Json::as_array).map(<[Json]>::first) {
            None => {
                self.native = true;
                let response = chunk.as_object_mut().and_then(|event| event.get_mut("response"));
                if let Some(response) = response.and_then(Json::as_object_mut) {
                    reply::adopt(&self.rendering, response);
                    self.response = Some(response.clone());
                }
                self.events.pass_on(&chunk);
            }
            // Azure's first chunk has no choice yet, and no model.
            Some(None) => {}
            // One answer per request: this dialect cannot ask for more.
            Some(Some(choice)) => {
                self.begin(&chunk);
                self.choice(choice);
            }
        }
        self.events.take()
    }

    fn end(&mut self, usage: Option<&[u8]>) -> Bytes {
        if self.native {
            return Bytes::new();
        }
        self.close_as(self.ending);
        for data in self.carried.sealed(OF_RESPONSES) {
            let item = reply::opaque(&self.rendering, self.items.len(), &data);
            self.events.at = self.items.len();
            self.events.whole_item(&item);
            self.items.push(item);
        }
        let mut response = self.response.take().unwrap_or_default();
        response.insert("output", std::mem::take(&mut self.items).into_iter().map(Json::from).collect::<Vec<_>>());
        let usage = usage.and_then(|usage| Json::parse(usage).ok());
        let usage = usage.as_ref().and_then(|chunk| chunk.get_some("usage"));
        self.ending.write(usage, self.service_tier.as_ref(), &mut response);
        let kind = format!("response.{}", self.ending.status);
        self.events.tell(&kind, [("response", response.into())]);
        self.events.take()
    }

    /// `error` is OpenAI's shape of a whole answer; as an event its members stand at the top.
    fn error(&mut self, error: &str) -> Bytes {
        let error = Json::parse(error.as_bytes()).unwrap_or(Json::Null);
        let error = error.get("error").and_then(Json::as_object).cloned().unwrap_or_default();
        let mut event: Object =
            [("code", Json::Null), ("message", Json::Null), ("param", Json::Null)].into_iter().collect();
        for (name, value) in error.iter().filter(|(name, _)| *name != "type") {
            event.insert(name, value.clone());
        }
        self.events.behind_what_is_known();
        self.events.tell_object("error", event);
        self.events.take()
    }

    /// `response.failed`, with what there is of the response. OpenAI has no event of its own for one that was cancelled
    /// (OpenAPI 2.3.0, `ResponseStreamEvent`; read 2026-11-30): the response in it says so.
    fn over(&mut self, over: &Over<'_>, _error: &str) -> Bytes {
        if self.response.is_none() {
            let model = self.rendering.request.get("model").cloned();
            self.announce(reply::opening(&self.rendering, "in_progress", over.created, model.as_ref()));
        }
        self.close_as(Ending::CUT);
        let mut response = self.response.take().unwrap_or_default();
        reply::write_over(over, &mut response);
        if !self.native {
            response.insert("output", std::mem::take(&mut self.items).into_iter().map(Json::from).collect::<Vec<_>>());
        }
        self.events.behind_what_is_known();
        self.events.tell("response.failed", [("response", response.into())]);
        self.events.take()
    }
}

/// A whole stored answer as the events of its response.
pub(crate) fn of_whole(rendering: &Rendering, stored: &Bytes) -> Option<Bytes> {
    let whole = Json::parse(&reply::whole(rendering, stored)?).ok()?.into_object()?;
    let mut events = Events::after(rendering.after);
    let mut begun = whole.clone();
    begun.insert("status", "in_progress");
    begun.insert("output", Vec::new());
    begun.insert("incomplete_details", Json::Null);
    begun.insert("usage", Json::Null);
    for kind in ["response.created", "response.in_progress"] {
        events.tell(kind, [("response", begun.clone().into())]);
    }
    for (at, item) in whole.get("output")?.as_array()?.iter().enumerate() {
        events.at = at;
        events.whole_item(item.as_object()?);
    }
    let status = whole.get("status").and_then(Json::as_str).unwrap_or("completed");
    events.tell(&format!("response.{status}"), [("response", whole.clone().into())]);
    Some(events.take())
}
