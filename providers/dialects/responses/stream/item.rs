//! The events of one item of the output, from its start to its end.

use bytes::{Bytes, BytesMut};

use crate::dialects::frames;
use crate::dialects::responses::reply::{self, Ending};
use crate::dialects::said::Kind;
use crate::json::{Json, Object};

/// The item that is being told.
#[derive(Debug)]
pub(super) enum Open {
    Reasoning,
    /// With the kind of its last part, which is open.
    Message(Option<Kind>),
    Call,
}

/// Events on their way, numbered in one row.
#[derive(Debug, Default)]
pub(super) struct Events {
    out: BytesMut,
    next: u64,
    /// Events up to this number are not told: the client has them.
    after: Option<u64>,
    /// The place of the item that is being told.
    pub at: usize,
}

impl Events {
    pub fn after(after: Option<u64>) -> Events {
        Events { after, ..Events::default() }
    }

    /// The next event is told, whatever the client has: it may come from a longer stream that another attempt has won
    /// over, and has to hear how this one ended.
    pub fn behind_what_is_known(&mut self) {
        self.next = self.after.map_or(self.next, |after| self.next.max(after.saturating_add(1)));
    }

    pub fn take(&mut self) -> Bytes {
        self.out.split().freeze()
    }

    pub fn tell<const N: usize>(&mut self, kind: &str, members: [(&str, Json); N]) {
        self.tell_object(kind, members.into_iter().collect());
    }

    pub fn tell_object(&mut self, kind: &str, members: Object) {
        let mut event: Object = [("type", kind)].into_iter().collect();
        for (name, value) in members.iter() {
            event.insert(name, value.clone());
        }
        event.insert("sequence_number", self.next);
        self.put(self.next, &Json::Object(event));
    }

    fn put(&mut self, number: u64, event: &Json) {
        self.next = number + 1;
        if self.after.is_none_or(|after| number > after) {
            frames::typed(&mut self.out, event);
        }
    }

    /// A provider's own event, with its own number.
    pub fn pass_on(&mut self, event: &Json) {
        self.put(event.get("sequence_number").and_then(Json::as_u64).unwrap_or(self.next), event);
    }

    pub fn tell_item(&mut self, kind: &str, item: &Object) {
        self.tell(kind, [("output_index", (self.at as u64).into()), ("item", item.clone().into())]);
    }

    /// An event of a part of the item.
    fn tell_part<const N: usize>(
        &mut self,
        kind: &str,
        item: &Object,
        part: (&str, usize),
        members: [(&str, Json); N],
    ) {
        let mut event: Object = [("item_id", item.get("id").cloned().unwrap_or(Json::Null))].into_iter().collect();
        event.insert("output_index", self.at as u64);
        event.insert(part.0, part.1 as u64);
        for (name, value) in members {
            event.insert(name, value);
        }
        self.tell_object(kind, event);
    }

    pub fn say(&mut self, open: &mut Open, item: &mut Object, kind: Kind, text: &str, logprobs: &[Json]) {
        if let Open::Message(last) = open {
            if *last != Some(kind) {
                self.close_part(*last, item);
                *last = Some(kind);
                reply::push_part(item, reply::part(kind, ""));
                self.open_part(item, "content", "response.content_part.added");
            }
        } else if parts(item, "summary").is_empty() {
            item.insert("summary", vec![Json::from(reply::summary(""))]);
            self.open_part(item, "summary", "response.reasoning_summary_part.added");
        }
        let (list, name, event) = names(kind);
        let at = parts(item, list).len().saturating_sub(1);
        if let Some(part) = last_part(item, list) {
            if let Some(Json::String(whole)) = part.get_mut(name) {
                whole.push_str(text);
            }
            if let Some(Json::Array(all)) = part.get_mut("logprobs") {
                all.extend_from_slice(logprobs);
            }
        }
        let delta = ("delta", Json::from(text));
        let index = (index_name(list), at);
        let kind = format!("{event}.delta");
        match name {
            "text" if list == "content" => {
                self.tell_part(&kind, item, index, [delta, ("logprobs", logprobs.to_vec().into())]);
            }
            _ => self.tell_part(&kind, item, index, [delta]),
        }
    }

    pub fn annotate(&mut self, item: &mut Object, annotation: Json) {
        let at = parts(item, "content").len().saturating_sub(1);
        let Some(Json::Array(all)) = last_part(item, "content").and_then(|part| part.get_mut("annotations")) else {
            return;
        };
        let number = all.len() as u64;
        all.push(annotation.clone());
        let members = [("annotation_index", number.into()), ("annotation", annotation)];
        self.tell_part("response.output_text.annotation.added", item, ("content_index", at), members);
    }

    pub fn argue(&mut self, item: &mut Object, at: usize, arguments: &str) {
        if let Some(Json::String(whole)) = item.get_mut("arguments") {
            whole.push_str(arguments);
        }
        let id = item.get("id").cloned().unwrap_or(Json::Null);
        let members = [("item_id", id), ("output_index", (at as u64).into()), ("delta", arguments.into())];
        self.tell("response.function_call_arguments.delta", members);
    }

    pub fn close(&mut self, open: Open, item: &mut Object, ending: Ending) {
        match open {
            Open::Reasoning => self.close_part(Some(Kind::Reasoning), item),
            Open::Message(last) => self.close_part(last, item),
            Open::Call => self.close_call(item),
        }
        ending.mark(item);
        self.tell_item("response.output_item.done", item);
    }

    fn close_call(&mut self, item: &Object) {
        let of_item = |name: &str| item.get(name).cloned().unwrap_or(Json::Null);
        let members = [
            ("item_id", of_item("id")),
            ("output_index", (self.at as u64).into()),
            ("name", of_item("name")),
            ("arguments", of_item("arguments")),
        ];
        self.tell("response.function_call_arguments.done", members);
    }

    fn open_part(&mut self, item: &Object, list: &str, kind: &str) {
        let parts = parts(item, list);
        if let Some(part) = parts.last().cloned() {
            self.tell_part(kind, item, (index_name(list), parts.len() - 1), [("part", part)]);
        }
    }

    fn close_part(&mut self, kind: Option<Kind>, item: &Object) {
        let Some(kind) = kind else { return };
        let (list, name, event) = names(kind);
        let parts = parts(item, list);
        let Some(part) = parts.last().cloned() else { return };
        let index = (index_name(list), parts.len() - 1);
        let whole = (name, part.get(name).cloned().unwrap_or(Json::Null));
        let done = format!("{event}.done");
        match part.get("logprobs").cloned() {
            Some(logprobs) => self.tell_part(&done, item, index, [whole, ("logprobs", logprobs)]),
            None => self.tell_part(&done, item, index, [whole]),
        }
        let closed = match kind {
            Kind::Reasoning => "response.reasoning_summary_part.done",
            Kind::Text | Kind::Refusal => "response.content_part.done",
        };
        self.tell_part(closed, item, index, [("part", part)]);
    }

    /// An item that is there already, from its start to its end. Of kinds that are not known here there is only that.
    pub fn whole_item(&mut self, item: &Object) {
        let mut begun = item.clone();
        let kind = item.get("type").and_then(Json::as_str).unwrap_or_default();
        let (open, list) = match kind {
            "message" => (Open::Message(None), "content"),
            "reasoning" => (Open::Reasoning, "summary"),
            "function_call" => (Open::Call, "arguments"),
            _ => {
                self.tell_item("response.output_item.added", item);
                self.tell_item("response.output_item.done", item);
                return;
            }
        };
        if begun.contains_key("status") {
            begun.insert("status", "in_progress");
        }
        begun.insert(list, if kind == "function_call" { Json::from("") } else { Json::Array(Vec::new()) });
        self.tell_item("response.output_item.added", &begun);
        match open {
            Open::Call => {
                let arguments = item.get("arguments").and_then(Json::as_str).unwrap_or_default();
                if !arguments.is_empty() {
                    let at = self.at;
                    self.argue(&mut begun, at, arguments);
                }
                self.close_call(&begun);
            }
            Open::Message(_) | Open::Reasoning => self.whole_parts(list, item, &mut begun),
        }
        self.tell_item("response.output_item.done", item);
    }

    fn whole_parts(&mut self, list: &str, item: &Object, begun: &mut Object) {
        for part in parts(item, list) {
            let kind = match part.get("type").and_then(Json::as_str) {
                Some("output_text") => Kind::Text,
                Some("refusal") => Kind::Refusal,
                Some("summary_text") => Kind::Reasoning,
                _ => continue,
            };
            let (_, name, event) = names(kind);
            let text = part.get(name).and_then(Json::as_str).unwrap_or_default();
            let mut empty = part.as_object().cloned().unwrap_or_default();
            empty.insert(name, "");
            for list in ["annotations", "logprobs"] {
                if let Some(Json::Array(all)) = empty.get_mut(list) {
                    all.clear();
                }
            }
            let at = parts(begun, list).len();
            if let Some(Json::Array(all)) = begun.get_mut(list) {
                all.push(empty.into());
            }
            let summary = kind == Kind::Reasoning;
            let added = if summary { "response.reasoning_summary_part.added" } else { "response.content_part.added" };
            self.open_part(begun, list, added);
            if !text.is_empty() {
                let index = (index_name(list), at);
                let delta = ("delta", Json::from(text));
                match part.get("logprobs").cloned() {
                    Some(logprobs) => {
                        self.tell_part(&format!("{event}.delta"), begun, index, [delta, ("logprobs", logprobs)]);
                    }
                    None => self.tell_part(&format!("{event}.delta"), begun, index, [delta]),
                }
            }
            for annotation in part.get("annotations").and_then(Json::as_array).unwrap_or_default() {
                self.annotate(begun, annotation.clone());
            }
            if let Some(Json::Array(all)) = begun.get_mut(list) {
                all.pop();
                all.push(part.clone());
            }
            self.close_part(Some(kind), begun);
        }
    }
}

/// The list of parts that holds this kind, the member with its text, and the name of its events.
fn names(kind: Kind) -> (&'static str, &'static str, &'static str) {
    match kind {
        Kind::Reasoning => ("summary", "text", "response.reasoning_summary_text"),
        Kind::Text => ("content", "text", "response.output_text"),
        Kind::Refusal => ("content", "refusal", "response.refusal"),
    }
}

fn index_name(list: &str) -> &'static str {
    if list == "summary" { "summary_index" } else { "content_index" }
}

fn parts<'a>(item: &'a Object, list: &str) -> &'a [Json] {
    item.get(list).and_then(Json::as_array).unwrap_or_default()
}

fn last_part<'a>(item: &'a mut Object, list: &str) -> Option<&'a mut Object> {
    let Some(Json::Array(parts)) = item.get_mut(list) else { return None };
    parts.last_mut()?.as_object_mut()
}
