//! A call without arguments: clients and providers write it as an empty text, or leave it out; readers want `{}`.

use crate::json::{Json, Object};

/// Puts `{}` where `blank` says that a message's calls have no arguments. Whether any had none.
pub(super) fn fill(message: &mut Object, blank: impl Fn(Option<&Json>) -> bool) -> bool {
    let mut changed = false;
    let Some(Json::Array(calls)) = message.get_mut("tool_calls") else { return false };
    for call in calls {
        let Json::Object(call) = call else { continue };
        let Some(Json::Object(function)) = call.get_mut("function") else { continue };
        if blank(function.get("arguments")) {
            function.insert("arguments", "{}");
            changed = true;
        }
    }
    changed
}
