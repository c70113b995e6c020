//! A response's events as a client sees them, and as one answer.

use super::*;
use crate::stream::sampling::*;

const NAME: &str = "openai-responses";

fn response(status: &str, output: &str, more: &str) -> String {
    format!(
        r#"{{"id":"resp_1","object":"response","created_at":1796068800,"model":"gpt-x","status":"{status}","output":[{output}]{more}}}"#
    )
}

fn of(kind: &str, response: &str) -> String {
    format!(r#"{{"type":"response.{kind}","response":{response}}}"#)
}

fn event(kind: &str, members: &str) -> String {
    format!(r#"{{"type":"response.{kind}",{members}}}"#)
}

fn text(delta: &str) -> String {
    event("output_text.delta", &format!(r#""output_index":0,"content_index":0,"delta":"{delta}","logprobs":[]"#))
}

fn message(text: &str) -> String {
    format!(r#"{{"type":"message","id":"msg_1","content":[{{"type":"output_text","text":"{text}","logprobs":[]}}]}}"#)
}

const USAGE: &str = r#","service_tier":"default","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":5}}"#;

/// Numbered and named as the provider does it.
fn stream(events: &[String]) -> String {
    let event = |(i, data): (usize, &String)| {
        let kind = Json::parse(data.as_bytes()).unwrap().get("type").and_then(Json::as_str).unwrap().to_owned();
        let data = data.strip_suffix('}').unwrap();
        format!("event: {kind}\ndata: {data},\"sequence_number\":{i}}}\n\n")
    };
    events.iter().enumerate().map(event).collect()
}

/// A response with these events between its beginning and its end.
fn around(events: &[String], kind: &str, output: &str, more: &str) -> String {
    let begun = response("in_progress", "", "");
    let mut all = vec![of("created", &begun), of("in_progress", &begun)];
    all.extend_from_slice(events);
    all.push(of(kind, &response(kind, output, &format!("{more}{USAGE}"))));
    stream(&all)
}

fn outcome(body: &str) -> Outcome {
    decode_every_way(NAME, &request(""), &head("text/event-stream; charset=utf-8"), body.as_bytes())
}

fn sound(body: &str) -> Outcome {
    let outcome = outcome(body);
    assert_the_client_saw_the_answer(&outcome);
    assert_round_trip(&outcome.answer().1);
    let unknown = assert_cuts_prove_nothing(NAME, &request(""), &head("text/event-stream"), body);
    assert_eq!(unknown, frames(body).len(), "only the terminal event ends it");
    outcome
}

#[test]
fn text_goes_out_as_it_comes_and_ends_with_the_terminal_event() {
    let added = event("output_item.added", r#""output_index":0,"item":{"type":"message","content":[]}"#);
    let done = event("output_text.done", r#""output_index":0,"content_index":0,"text":"Hello水😀""#);
    let body = around(&[added, text("Hel"), text("lo水😀"), done], "completed", &message("Hello水😀"), "");
    let outcome = sound(&body);
    let chunk = |choice: &str, more: &str| {
        format!(
            r#"{{"id":"resp_1","object":"chat.completion.chunk","created":1796068800,"model":"gpt-x","choices":[{choice}]{more}}}"#
        )
    };
    let said = |delta: &str| chunk(&format!(r#"{{"index":0,"delta":{delta},"finish_reason":null}}"#), "");
    let last = r#"{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","native_finish_reason":"completed"}"#;
    let usage = r#","service_tier":"default","usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":5}}"#;
    let expected = [
        said(r#"{"role":"assistant","refusal":null}"#),
        said(r#"{"content":"Hel"}"#),
        said(r#"{"content":"lo水😀"}"#),
        chunk(last, r#","service_tier":"default""#),
        chunk("", usage),
    ];
    assert_eq!(outcome.payloads(), expected);
    assert_eq!(outcome.answer().0.usage.unwrap().output_tokens, 7);
}

/// The same response whole and streamed: one rendering.
#[test]
fn a_streamed_response_means_what_the_whole_one_means() {
    let call = |n: u64, status: &str, arguments: &str| {
        format!(
            r#"{{"type":"function_call","id":"fc_{n}","call_id":"c{n}","name":"rd","status":"{status}","arguments":"{arguments}"}}"#
        )
    };
    let reasoning = r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Ask twice."},{"type":"summary_text","text":"Wait."}],"encrypted_content":"gAAA"}"#;
    let search = r#"{"type":"web_search_call","id":"ws_1"}"#;
    let thought = |part: u64, delta: &str| {
        event("reasoning_summary_text.delta", &format!(r#""output_index":0,"summary_index":{part},"delta":"{delta}""#))
    };
    let open = |at: u64, item: &str| event("output_item.added", &format!(r#""output_index":{at},"item":{item}"#));
    let argue = |at: u64, delta: &str| {
        event("function_call_arguments.delta", &format!(r#""output_index":{at},"item_id":"fc","delta":"{delta}""#))
    };
    let digits = r#"{\"id\":7300000000000000001}"#;
    let events = [
        thought(0, "Ask "),
        thought(0, "twice."),
        thought(1, "Wait."),
        text("both"),
        open(2, &call(1, "in_progress", "")),
        argue(2, r#"{\"id\":73000000"#),
        open(3, &call(2, "in_progress", "")),
        argue(2, r#"00000000001}"#),
        open(4, search),
        event("invented_after_this_was_written", r#""output_index":4"#),
    ];
    let both =
        [reasoning, &message("both"), &call(1, "completed", digits), &call(2, "completed", ""), search].join(",");
    let streamed = sound(&around(&events, "completed", &both, ""));
    let whole = response("completed", &both, USAGE);
    let whole = reply::read(&head("application/json"), whole.as_bytes(), false).unwrap();
    assert_eq!(streamed.answer().1.to_bytes(), whole.body);
}

/// A server may leave the pieces out, or some of them: what is missing comes with the end.
#[test]
fn what_was_not_streamed_comes_with_the_end() {
    let tokens = r#"[{"token":"Hello","logprob":-0.1,"top_logprobs":[]}]"#;
    let likely = message("Hello").replace(r#""logprobs":[]"#, &format!(r#""logprobs":{tokens}"#));
    let call = r#"{"type":"function_call","call_id":"c1","name":"rd","arguments":"{}"}"#;
    let refusal = r#"{"type":"message","content":[{"type":"refusal","refusal":"No."}]}"#;
    for (events, output) in [
        (vec![], [likely.as_str(), call].join(",")),
        (vec![text("Hel")], message("Hello")),
        (vec![], refusal.to_owned()),
        (vec![event("refusal.delta", r#""output_index":0,"delta":"N""#)], refusal.to_owned()),
        (vec![], message("")),
    ] {
        let outcome = sound(&around(&events, "completed", &output, ""));
        let whole = response("completed", &output, USAGE);
        let whole = reply::read(&head("application/json"), whole.as_bytes(), false).unwrap();
        assert_eq!(outcome.answer().1.to_bytes(), whole.body);
    }
    // The items themselves, where the terminal event leaves them out.
    let done = event("output_item.done", &format!(r#""output_index":0,"item":{}"#, message("Hello")));
    let outcome = sound(&around(&[text("Hello"), done], "completed", "", ""));
    assert_eq!(outcome.answer().0.choices[0].text.as_deref(), Some("Hello"));
}

#[test]
fn logprobs_are_those_that_the_client_was_told() {
    let with = |text: &str, logprob: &str| {
        let tokens = format!(r#"[{{"token":"{text}","logprob":{logprob},"top_logprobs":[]}}]"#);
        event("output_text.delta", &format!(r#""output_index":0,"delta":"{text}","logprobs":{tokens}"#))
    };
    let body = around(&[with("Hel", "-1.9e-7"), with("lo", "-2e-7")], "completed", &message("Hello"), "");
    let (_, answer) = (sound(&body), outcome(&body).answer().1);
    let text = String::from_utf8(answer.to_bytes().to_vec()).unwrap();
    assert!(text.contains("-1.9e-7") && text.contains("-2e-7"), "{text}");
}

#[test]
fn a_limit_and_a_filter_are_ends_like_any_other() {
    let details = |reason: &str| format!(r#","incomplete_details":{{"reason":"{reason}"}}"#);
    let outcome = sound(&around(&[text("1, 2")], "incomplete", &message("1, 2"), &details("max_output_tokens")));
    assert_eq!(outcome.finishes(), [(0, "length".to_owned())]);
    // Field case B025: thinking used the whole budget.
    let outcome = sound(&around(&[], "incomplete", "", &details("max_output_tokens")));
    assert_eq!(outcome.answer().0.choices[0].text.as_deref(), Some(""));
    let outcome = sound(&around(&[text("x")], "incomplete", &message("x"), &details("content_filter")));
    assert_eq!(outcome.finishes(), [(0, "content_filter".to_owned())]);
}

fn failed_with(body: &str, reason: &str) -> Failure {
    let failure = outcome(body).failure().clone();
    assert_eq!((failure.proof, failure.reason), (Proof::EndedWithoutResult, reason), "{body}");
    failure
}

#[test]
fn a_response_that_fails_in_its_stream_ended_without_a_result() {
    let error = r#","error":{"code":"server_error","message":"Sorry."}"#;
    let failure = failed_with(&around(&[text("Hel")], "failed", "", error), "response_failed");
    assert_eq!((failure.code.as_deref(), failure.usage.unwrap().output_tokens), (Some("server_error"), 7));
    let begun = of("created", &response("in_progress", "", ""));
    let error = r#"{"type":"error","code":"rate_limit_exceeded","message":"Slow down.","param":null}"#.to_owned();
    let failure = failed_with(&stream(&[begun, error]), "error_in_answer");
    assert_eq!((failure.code.as_deref(), failure.kind), (Some("rate_limit_exceeded"), None));
    failed_with("event: error\ndata: overloaded\n\n", "error_in_answer");
    failed_with(&around(&[], "completed", "", ""), "invalid_answer");
}

#[test]
fn a_stream_that_contradicts_itself_is_no_answer() {
    let begun = response("in_progress", "", "");
    let created = || of("created", &begun);
    let ended = |output: &str| of("completed", &response("completed", output, USAGE));
    let call = |name: &str| format!(r#"{{"type":"function_call","call_id":"c1","name":"{name}","arguments":"{{}}"}}"#);
    let open = event("output_item.added", &format!(r#""output_index":0,"item":{}"#, call("rd")));
    let other = begun.replace("resp_1", "resp_2");
    let argue = event("function_call_arguments.delta", r#""output_index":9,"delta":"x""#);
    for events in [
        vec![created(), text("Hel"), ended(&message("Goodbye"))],
        vec![created(), text("Hello"), ended(&message("Hel"))],
        vec![created(), open.clone(), ended(&message("x"))],
        vec![created(), open.clone(), ended(&call("wr"))],
        vec![created(), open.clone(), open.clone()],
        vec![created(), of("in_progress", &other)],
        vec![created(), argue],
        vec![created(), event("output_text.delta", r#""output_index":0"#)],
        vec![created(), event("output_item.added", r#""output_index":0,"item":{"type":"function_call","name":"x"}"#)],
        vec![text("x")],
        vec![r#"{"type":"response.created"}"#.to_owned()],
    ] {
        failed_with(&stream(&events), "garbled_stream");
    }
    let events = [created(), text("Hel"), text("lo"), text("!"), ended(&message("Hello!"))];
    let body = stream(&events);
    sound(&body);
    let frames = frames(&body);
    failed_with(&[frames[0], frames[1], frames[3], frames[4]].concat(), "garbled_stream");
    failed_with(&[frames[0], frames[1], frames[1]].concat(), "garbled_stream");
    // Without numbers nothing shows a gap but the end.
    let unnumbered = |events: &[&String]| events.iter().map(|data| format!("data: {data}\n\n")).collect::<String>();
    let all: Vec<&String> = events.iter().collect();
    sound(&unnumbered(&all));
    failed_with(&unnumbered(&[&events[0], &events[1], &events[3], &events[4]]), "garbled_stream");
}

fn decoder_of(in_background: bool) -> Box<dyn StreamDecoder> {
    decoder(&head("text/event-stream"), in_background, false).unwrap()
}

#[test]
fn the_first_event_brings_the_id_by_which_work_in_the_background_can_be_asked_about() {
    let first = stream(&[of("created", &response("queued", "", ""))]);
    let (mut here, mut there) = (decoder_of(false), decoder_of(true));
    assert_eq!(there.reference(), None);
    here.feed(first.as_bytes()).unwrap();
    there.feed(first.as_bytes()).unwrap();
    assert_eq!((here.reference(), there.reference()), (None, Some("resp_1")));
    there.feed(b"data: {\n\n").unwrap_err();
    assert_eq!(there.reference(), Some("resp_1"), "an error does not take it away");
}

/// The stream is not the work: only the response's own status says that it is over.
#[test]
fn a_broken_stream_proves_nothing_of_work_in_the_background() {
    let begun = stream(&[of("created", &response("queued", "", ""))]);
    for (more, proof) in [
        ("data: {\n\n".to_owned(), Proof::Unknown),
        ("data: \u{0}\n\n".to_owned(), Proof::Unknown),
        (stream(&[r#"{"type":"error","code":"server_error","message":"x"}"#.to_owned()]), Proof::Unknown),
        (format!("data: {}\n\n", of("completed", &response("completed", &message("x"), ""))), Proof::Unknown),
        (format!("data: {}\n\n", of("failed", &response("failed", "", ""))), Proof::EndedWithoutResult),
        (format!("data: {}\n\n", of("completed", &response("completed", "", ""))), Proof::EndedWithoutResult),
    ] {
        let mut decoder = decoder_of(true);
        decoder.feed(begun.as_bytes()).unwrap();
        decoder.feed(format!("data: {}\n\n", text("Hel")).as_bytes()).unwrap();
        assert_eq!(decoder.feed(more.as_bytes()).unwrap_err().proof, proof, "{more}");
    }
    let mut huge = decoder_of(true);
    let line = format!("data: {}", "x".repeat(crate::sse::MAX_EVENT_BYTES + 1));
    assert_eq!(huge.feed(line.as_bytes()).unwrap_err().proof, Proof::Unknown);
    assert_eq!(decoder_of(false).feed(line.as_bytes()).unwrap_err().proof, Proof::EndedWithoutResult);
}
