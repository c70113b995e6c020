//! One candidate, whole or a fragment: its parts, its end, and what it says beside.

use http::StatusCode;

use crate::adapter::StreamPiece;
use crate::canonical::Finish;
use crate::draft::{Draft, fingerprint};
use crate::failure::Failure;
use crate::json::Json;
use crate::leftover::object;
use crate::refusal::{self, ErrorBody};

pub(super) fn take(
    draft: &mut Draft,
    status: StatusCode,
    candidate: &Json,
    out: &mut Vec<StreamPiece>,
) -> Result<(), Failure> {
    let Some(members) = candidate.as_object() else { return Err(draft.invalid("a candidate is no object")) };
    let index = match candidate.get_some("index") {
        None => 0,
        Some(index) => index.as_u64().ok_or_else(|| draft.invalid("the index of a candidate is no integer"))?,
    };
    if index >= MAX_CANDIDATES {
        return Err(draft.invalid("more candidates than any request can ask for"));
    }
    draft.open(index, out);
    match candidate.get("content").and_then(|content| content.get_some("parts")) {
        None => {}
        Some(Json::Array(parts)) => {
            for part in parts {
                take_part(draft, index, part, out)?;
            }
        }
        Some(_) => return Err(draft.invalid("the parts of a candidate are no array")),
    }
    if let Some(logprobs) = candidate.get_some("logprobsResult") {
        take_logprobs(draft, index, logprobs, out)?;
    }
    for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        match name {
            "content" | "index" | "finishReason" | "logprobsResult" | "tokenCount" => {}
            _ => draft.choice_member(index, name, value.clone(), out),
        }
    }
    match candidate.get_some("finishReason") {
        None => Ok(()),
        Some(Json::String(word)) => end(draft, status, index, word, candidate, out),
        Some(_) => Err(draft.invalid("a finishReason is no text")),
    }
}

const MAX_CANDIDATES: u64 = 256;

fn take_part(draft: &mut Draft, index: u64, part: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
    let signature = part.get_some("thoughtSignature");
    let beside = signature.map(|signature| {
        let google = object([("thought_signature", signature.clone())]);
        ("extra_content", object([("google", google)]))
    });
    if let Some(call) = part.get_some("functionCall") {
        return take_call(draft, index, call, beside, out);
    }
    match part.get_some("text") {
        Some(Json::String(text)) if part.get("thought").and_then(Json::as_bool) == Some(true) => {
            draft.reasoning(index, text, out);
        }
        Some(Json::String(text)) => draft.text(index, text, Vec::new(), out),
        Some(_) => return Err(draft.invalid("the text of a part is no text")),
        None if part.as_object().is_some_and(|part| part.iter().any(|(name, _)| name != "thoughtSignature")) => {
            draft.message_member(index, "other_blocks", Json::Array(vec![part.clone()]), out);
        }
        None if signature.is_some() => {}
        None => return Err(draft.invalid("a part of a candidate is empty")),
    }
    if let Some((name, value)) = beside {
        draft.message_member(index, name, value, out);
    }
    Ok(())
}

/// Calls come whole. An id is Google's own where it gives one, and made from the answer's id and the call's number
/// otherwise: the same each time, and never that of another call of the conversation (field case B004).
fn take_call(
    draft: &mut Draft,
    index: u64,
    call: &Json,
    beside: Option<(&'static str, Json)>,
    out: &mut Vec<StreamPiece>,
) -> Result<(), Failure> {
    let name = call.get("name").and_then(Json::as_str).unwrap_or_default();
    let arguments = match call.get_some("args") {
        None => "{}".to_owned(),
        Some(args @ Json::Object(_)) => String::from_utf8_lossy(&args.to_bytes()).into_owned(),
        Some(_) => return Err(draft.invalid(format!("the arguments of the call to {name} are no object"))),
    };
    let known = draft.calls(index);
    let theirs = call.get("id").and_then(Json::as_str).filter(|id| !id.is_empty());
    let id = match theirs.filter(|id| !known.iter().any(|call| call.id == *id)) {
        Some(id) => id.to_owned(),
        None => {
            let seed = draft.id().map_or_else(|| format!("{name}{arguments}"), str::to_owned);
            format!("call_{}_{index}_{}", fingerprint(&seed), known.len())
        }
    };
    let number = draft.call(index, &id, name, beside, out)?;
    draft.arguments(index, number, &arguments, out);
    Ok(())
}

fn end(
    draft: &mut Draft,
    status: StatusCode,
    index: u64,
    word: &str,
    candidate: &Json,
    out: &mut Vec<StreamPiece>,
) -> Result<(), Failure> {
    let message = candidate.get("finishMessage").and_then(Json::as_str).unwrap_or_default();
    let finish = match word {
        "STOP" => Finish::Stop,
        "MAX_TOKENS" => Finish::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Finish::ContentFilter,
        "FINISH_REASON_UNSPECIFIED" => return Ok(()),
        // MALFORMED_FUNCTION_CALL, UNEXPECTED_TOOL_CALL, LANGUAGE, OTHER, and what comes to be said later: it ended,
        // and this is no answer.
        _ => {
            let message = format!("the provider stopped with finishReason {word}: {message}");
            let error = ErrorBody { message, code: Some(word.to_owned()), ..ErrorBody::default() };
            return Err(draft.billed(refusal::error_in_answer(status, error)));
        }
    };
    if finish == Finish::ContentFilter && !draft.has_ended(index) {
        draft.refuse(index, message, out);
    }
    draft.end(index, finish, word, out);
    Ok(())
}

/// `chosenCandidates` and `topCandidates`, token by token, as OpenAI writes them. Google gives no bytes.
fn take_logprobs(draft: &mut Draft, index: u64, result: &Json, out: &mut Vec<StreamPiece>) -> Result<(), Failure> {
    let list = |name: &str| result.get(name).and_then(Json::as_array).unwrap_or_default();
    let token = |candidate: &Json| {
        Some([
            ("token", Json::from(candidate.get("token")?.as_str()?)),
            ("logprob", Json::Number(candidate.get("logProbability")?.as_number()?.clone())),
            ("bytes", Json::Null),
        ])
    };
    let read: Option<Vec<Json>> = list("chosenCandidates")
        .iter()
        .enumerate()
        .map(|(at, chosen)| {
            let top = list("topCandidates").get(at).and_then(|top| top.get("candidates")).and_then(Json::as_array);
            let top = top.unwrap_or_default().iter().map(|other| token(other).map(object));
            let top = top.collect::<Option<Vec<_>>>()?;
            let mut written = object(token(chosen)?).into_object()?;
            written.insert("top_logprobs", top);
            Some(Json::Object(written))
        })
        .collect();
    let read = read.ok_or_else(|| draft.invalid("the logprobs of a candidate cannot be read"))?;
    if !read.is_empty() {
        draft.text(index, "", read, out);
    }
    Ok(())
}
