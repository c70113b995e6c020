//! The tool calls of one choice, out of fragments.
//!
//! A fragment belongs to the call of its index, in whatever order they come (field case B003). Where servers leave the
//! index out (B002), a new id is a new call, and a fragment without one goes on with the call opened last. A new id
//! under an index that is taken is a new call too: some servers number every call 0. What the client sees is the
//! number of the call in the order of their first fragments.

use crate::json::{Json, Object};
use crate::openai::request::MAX_TOOL_CALLS;

#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug)]
struct Call {
    /// The provider's index, or ours where it gives none.
    index: u64,
    /// The call without its function.
    members: Object,
    function: Object,
}

impl Calls {
    /// Takes the fragments over and gives each the index for the client. Whether one had another, or none.
    pub fn take(&mut self, fragments: &mut [Json]) -> Result<bool, String> {
        let mut changed = false;
        for fragment in fragments {
            let Json::Object(fragment) = fragment else { return Err("a tool-call fragment is no object".to_owned()) };
            let index = fragment.get_some("index").and_then(Json::as_u64);
            let at = self.at(index, text(fragment, "id"))?;
            self.0[at].take(fragment)?;
            if index != Some(at as u64) {
                fragment.insert("index", at as u64);
                changed = true;
            }
        }
        Ok(changed)
    }

    /// The place of the call that the fragment belongs to, opened where it is new.
    fn at(&mut self, index: Option<u64>, id: Option<&str>) -> Result<usize, String> {
        let position = match (index, id) {
            // From behind: of two calls under one index the later one goes on.
            (Some(index), id) => self.0.iter().rposition(|call| call.index == index).filter(|at| {
                let own = text(&self.0[*at].members, "id");
                id.is_none() || own.is_none() || own == id
            }),
            (None, Some(id)) => self.0.iter().rposition(|call| text(&call.members, "id") == Some(id)),
            (None, None) => self.0.len().checked_sub(1),
        };
        if let Some(at) = position {
            return Ok(at);
        }
        if self.0.len() >= MAX_TOOL_CALLS {
            return Err(format!("more than {MAX_TOOL_CALLS} tool calls"));
        }
        let at = self.0.len();
        let index = index.unwrap_or(at as u64);
        self.0.push(Call { index, members: Object::new(), function: Object::new() });
        Ok(at)
    }

    /// Fragments that give `{}` to the calls whose arguments never came, as the stored answer has it.
    pub fn missing_arguments(&self) -> Option<Json> {
        let missing = self.0.iter().enumerate().filter(|(_, call)| call.function.get_some("arguments").is_none());
        let fragments: Vec<Json> = missing
            .map(|(at, _)| {
                let function: Object = [("arguments", "{}")].into_iter().collect();
                let mut fragment = Object::new();
                fragment.insert("index", at as u64);
                fragment.insert("function", function);
                Json::Object(fragment)
            })
            .collect();
        (!fragments.is_empty()).then_some(Json::Array(fragments))
    }

    pub fn render(&self) -> Option<Json> {
        let calls: Vec<Json> = self.0.iter().map(Call::render).collect();
        (!calls.is_empty()).then_some(Json::Array(calls))
    }
}

impl Call {
    /// Arguments are appended, exactly as they come; ids, types and names keep their first; of the rest the last holds.
    fn take(&mut self, fragment: &Object) -> Result<(), String> {
        for (name, value) in fragment.iter().filter(|(_, value)| !value.is_null()) {
            match (name, value) {
                ("index", _) => {}
                ("id" | "type", _) => keep_first(&mut self.members, name, value),
                ("function", Json::Object(function)) => self.take_function(function)?,
                ("function", _) => return Err("the function of a tool call is no object".to_owned()),
                _ => drop(self.members.insert(name, value.clone())),
            }
        }
        Ok(())
    }

    fn take_function(&mut self, function: &Object) -> Result<(), String> {
        for (name, value) in function.iter().filter(|(_, value)| !value.is_null()) {
            match (name, value) {
                ("name", _) => keep_first(&mut self.function, name, value),
                ("arguments", Json::String(more)) => match self.function.get_mut(name) {
                    Some(Json::String(arguments)) => arguments.push_str(more),
                    _ => drop(self.function.insert(name, more.as_str())),
                },
                ("arguments", _) => return Err("the arguments of a tool call are no text".to_owned()),
                _ => drop(self.function.insert(name, value.clone())),
            }
        }
        Ok(())
    }

    fn render(&self) -> Json {
        let mut call = self.members.clone();
        call.insert("function", self.function.clone());
        Json::Object(call)
    }
}

fn keep_first(object: &mut Object, name: &str, value: &Json) {
    if text(object, name).is_none() {
        object.insert(name, value.clone());
    }
}

/// A text that is not empty.
fn text<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Json::as_str).filter(|text| !text.is_empty())
}
