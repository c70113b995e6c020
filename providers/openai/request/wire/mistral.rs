//! Mistral's schema takes no member that it does not know (`additionalProperties: false`), and its own names for two.

use std::borrow::Cow;

use crate::adapter::Unsupported;
use crate::canonical::Request;
use crate::compatible::Row;
use crate::draft::fingerprint;
use crate::json::{Json, Object};
use crate::leftover::{is_by_product, refuse_delivery, short};

const KNOWN: &[&str] = &["role", "content", "tool_calls", "tool_call_id", "prefix"];

/// Refuses what a message would be refused for there, but for what answers hold and clients send back.
pub(super) fn refuse(row: &Row, request: &Request) -> Result<(), Unsupported> {
    let messages = request.body.get("messages").and_then(Json::as_array).unwrap_or_default();
    for (i, message) in messages.iter().enumerate() {
        let members = message.as_object().into_iter().flat_map(Object::iter);
        let mut unknown =
            members.filter(|(name, value)| !KNOWN.contains(name) && !is_by_product(name) && !value.is_null());
        if let Some((name, _)) = unknown.next() {
            let why = format!("{} takes no such member of a message: leave it out", row.name);
            return Err(Unsupported::new(format!("messages[{i}].{}", short(name)), why));
        }
    }
    refuse_delivery(request, row.name)
}

/// The message without what is null or a by-product, and with ids that fit.
pub(super) fn fit(message: &mut Object) {
    let unknown: Vec<String> =
        message.iter().map(|(name, _)| name.to_owned()).filter(|name| !KNOWN.contains(&name.as_str())).collect();
    for name in unknown {
        message.remove(&name);
    }
    fit_id(message, "tool_call_id");
    let Some(Json::Array(calls)) = message.get_mut("tool_calls") else { return };
    for call in calls {
        if let Json::Object(call) = call {
            fit_id(call, "id");
        }
    }
}

fn fit_id(holder: &mut Object, name: &str) {
    if let Some(id) = holder.get(name).and_then(Json::as_str) {
        let id = nine(id).into_owned();
        holder.insert(name, id);
    }
}

/// An id only ties a result to its call: where it does not fit, another is made from it, the same each time.
fn nine(id: &str) -> Cow<'_, str> {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(fingerprint(id)[..9].to_owned())
}

#[cfg(test)]
mod tests {
    use crate::adapter::CallContext;
    use crate::compatible::adapter_named;
    use crate::json::Json;
    use crate::openai::request::parse;

    fn sent(members: &str) -> Result<String, String> {
        let body = Json::parse(format!(r#"{{"model":"m",{members}}}"#).as_bytes()).unwrap();
        let request = parse(body.into_object().unwrap()).unwrap();
        let context = CallContext { model: "target", attempt_id: "0193", api_key: None };
        let sent = adapter_named("mistral").unwrap().to_upstream(&request, &context);
        sent.map(|sent| String::from_utf8(sent.body.to_vec()).unwrap()).map_err(|refusal| refusal.param)
    }

    #[test]
    fn a_history_of_ours_has_nothing_that_mistral_refuses() {
        let history = r#""messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"refusal":null,
            "annotations":[],"reasoning_content":"t","tool_calls":[
            {"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}},
            {"id":"rHU0eZiMa","type":"function","function":{"name":"g","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"call_1","content":"1"},{"role":"tool","tool_call_id":"rHU0eZiMa","content":"2"}]"#;
        let body = sent(history).unwrap();
        for gone in ["refusal", "annotations", "reasoning_content", "call_1"] {
            assert!(!body.contains(gone), "{gone}: {body}");
        }
        let id = &super::fingerprint("call_1")[..9];
        assert_eq!((body.matches(id).count(), body.matches("rHU0eZiMa").count()), (2, 2), "{body}");
    }

    #[test]
    fn the_rest_goes_under_mistrals_names_or_is_refused_by_its_own() {
        const HI: &str = r#""messages":[{"role":"user","content":"hi"}]"#;
        assert_eq!(
            sent(&format!(r#"{HI},"seed":7300000000000000001,"max_completion_tokens":5,"store":false"#)).unwrap(),
            format!(r#"{{"model":"target",{HI},"random_seed":7300000000000000001,"max_tokens":5,"store":false}}"#)
        );
        let streamed = format!(r#"{HI},"stream":true,"stream_options":{{"include_usage":true}}"#);
        assert_eq!(
            sent(&streamed).unwrap(),
            format!(r#"{{"model":"target",{HI},"stream":true}}"#),
            "usage comes unasked"
        );
        assert_eq!(sent(&format!(r#"{HI},"user":"u""#)).unwrap_err(), "user");
        assert_eq!(sent(r#""messages":[{"role":"user","name":"n","content":"hi"}]"#).unwrap_err(), "messages[0].name");
    }
}
