//! "Too long" is said only where it is certain, and nothing is counted where bytes are few enough.

use super::*;
use crate::dialects::Dialect;
use crate::json::Json;

/// Holds a thousand tokens, as the settings say.
fn window() -> Window {
    Window {
        context: Some(1000),
        input: None,
        output: None,
        answer_counts: false,
        encoding: Some(Encoding::Cl100kBase),
        identity: "settings".into(),
    }
}

fn request(dialect: Dialect, body: &str) -> Request {
    dialect.parse(Json::parse(body.as_bytes()).unwrap().into_object().unwrap()).unwrap()
}

/// A prompt of so many tokens, and further members.
fn chat(tokens: usize, members: &str) -> Request {
    let text = format!("a{}", " a".repeat(tokens - 1));
    request(Dialect::Chat, &format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}]{members}}}"#))
}

fn judge(request: &Request, window: &Window) -> Option<Overflow> {
    overflows(request, &[window]).pop().unwrap()
}

fn said(request: &Request, window: &Window) -> Option<String> {
    judge(request, window).map(|overflow| overflow.to_string())
}

#[test]
fn a_prompt_is_too_long_from_the_first_token_beyond_the_window() {
    assert_eq!(judge(&chat(1000, ""), &window()), None);
    assert_eq!(
        said(&chat(1001, ""), &window()).as_deref(),
        Some("`messages` has at least 1001 tokens, and its window holds 1000 (settings)")
    );
    let narrower = Window { input: Some(900), ..window() };
    assert_eq!(judge(&chat(901, ""), &narrower).unwrap().window, 900);
    assert_eq!(judge(&chat(900, ""), &narrower), None);
}

#[test]
fn the_answer_asked_for_counts_only_where_the_window_says_so_and_never_beyond_the_longest() {
    let asked = chat(950, r#","max_tokens":100"#);
    assert_eq!(judge(&asked, &window()), None, "the answer just ends at the window's end");
    let counted = Window { answer_counts: true, ..window() };
    assert_eq!(
        said(&asked, &counted).as_deref(),
        Some(
            "`messages` has at least 950 tokens, `max_tokens` asks for 100 more, and its window holds 1000 (settings)"
        )
    );
    assert_eq!(judge(&chat(900, r#","max_tokens":100"#), &counted), None);
    let longest = Window { output: Some(50), ..counted.clone() };
    assert_eq!(judge(&asked, &longest), None, "no answer is longer than the model's longest");
    let nothing_left = judge(&chat(1, r#","max_completion_tokens":1000"#), &counted).unwrap();
    assert_eq!(nothing_left.answer, Some(("max_completion_tokens", 1000)));
    assert_eq!(judge(&chat(1, ""), &counted), None);
}

#[test]
fn each_dialect_is_told_in_its_own_words() {
    let long = "a ".repeat(1100);
    let body = |members: &str| format!(r#"{{"model":"m",{members}}}"#).replace("TEXT", &long);
    let counted = Window { answer_counts: true, ..window() };
    for (dialect, members, param, answer) in [
        (Dialect::Chat, r#""messages":[{"role":"system","content":"TEXT"}]"#, "messages", None),
        (
            Dialect::Messages,
            r#""max_tokens":5,"system":"TEXT","messages":[{"role":"user","content":"x"}]"#,
            "messages",
            Some(("max_tokens", 5)),
        ),
        (Dialect::Responses, r#""max_output_tokens":16,"input":"TEXT""#, "input", Some(("max_output_tokens", 16))),
        (Dialect::Embeddings, r#""input":["x","TEXT"]"#, "input[1]", None),
        (Dialect::Embeddings, r#""input":"TEXT""#, "input", None),
    ] {
        let overflow = judge(&request(dialect, &body(members)), &counted).expect(members);
        assert_eq!((overflow.param.as_str(), overflow.answer), (param, answer));
    }
}

#[test]
fn each_text_for_vectors_is_held_for_itself_and_tokens_are_counted_as_they_are() {
    let of = |input: String| request(Dialect::Embeddings, &format!(r#"{{"model":"m","input":{input}}}"#));
    let texts = vec![format!("{:?}", "a ".repeat(700)); 5].join(",");
    assert_eq!(judge(&of(format!("[{texts}]")), &window()), None);
    let numbers = |n: usize| format!("[{}]", vec!["7"; n].join(","));
    assert_eq!(judge(&of(numbers(1000)), &window()), None);
    assert_eq!(judge(&of(numbers(1001)), &window()).unwrap().param, "input");
    let uncounted = Window { encoding: None, ..window() };
    let several = format!("[{},{}]", numbers(3), numbers(1001));
    assert_eq!(judge(&of(several), &uncounted).unwrap().param, "input[1]");
}

#[test]
fn what_is_not_certain_fits() {
    let uncounted = Window { encoding: None, ..window() };
    assert_eq!(judge(&chat(5000, ""), &uncounted), None, "nobody here counts for it");
    for shortened in [
        r#","truncation":"auto""#,
        r#","truncate_prompt_tokens":500"#,
        r#","transforms":["middle-out"]"#,
        r#","context_management":{"edits":[]}"#,
    ] {
        assert_eq!(judge(&chat(5000, shortened), &window()), None, "{shortened}");
    }
    assert!(judge(&chat(5000, r#","truncation":"disabled""#), &window()).is_some());
    let unbounded = Window { context: None, ..window() };
    assert_eq!(judge(&chat(5000, ""), &unbounded), None);
    let image = r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,PIXELS"}}]"#
        .replace("PIXELS", &"A".repeat(20_000));
    let pictured =
        request(Dialect::Chat, &format!(r#"{{"model":"m","messages":[{{"role":"user","content":{image}}}]}}"#));
    assert_eq!(judge(&pictured, &window()), None, "an image is not its letters");
}

#[test]
fn few_enough_bytes_are_enough_to_know_and_what_was_counted_is_not_counted_again() {
    let short = chat(400, "");
    assert!(window().surely_holds(&short, 1000) && !window().surely_holds(&short, 1001));
    let counted = Window { answer_counts: true, ..window() };
    let asked = chat(400, r#","max_tokens":100"#);
    assert!(counted.surely_holds(&asked, 900) && !counted.surely_holds(&asked, 901));
    assert!(Window { context: None, ..window() }.surely_holds(&short, usize::MAX));

    let (small, large) = (window(), Window { context: Some(3000), ..window() });
    let other = Window { encoding: Some(Encoding::O200kBase), ..window() };
    let verdicts = overflows(&chat(2000, ""), &[&small, &large, &other]);
    assert_eq!(verdicts.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(verdicts[0].as_ref().unwrap().tokens, 2000, "counted up to what the largest holds");
    // However long it is, it is not counted much further than the window is large.
    let tokens = judge(&chat(1_000_000, ""), &window()).unwrap().tokens;
    assert!(tokens > 1000 && tokens < 100_000, "{tokens}");
}

#[test]
fn every_listed_window_can_be_judged() {
    for (model, window) in read(include_str!("../windows.toml")).unwrap().all() {
        assert!(window.output.is_none_or(|output| window.context.is_none_or(|window| output <= window)), "{model}");
        assert!(window.encoding.is_some() && window.context.or(window.input) > Some(1000), "{model}");
    }
}

#[test]
fn a_listed_window_holds_at_its_vendors_address_only() {
    let here = listed("https://api.openai.com/v1", "gpt-4").unwrap();
    assert_eq!((here.context, here.output, here.encoding), (Some(8192), Some(8192), Some(Encoding::Cl100kBase)));
    assert_eq!(listed("https://api.openai.com/v1", "text-embedding-3-small").unwrap().input, Some(8192));
    for elsewhere in ["https://api.openai.com.evil.example/v1", "http://127.0.0.1:9001/v1"] {
        assert_eq!(listed(elsewhere, "gpt-4"), None, "{elsewhere}");
    }
}

#[test]
fn a_list_with_a_window_that_is_none_is_refused() {
    let list = |model: &str, window: &str| {
        read(&format!(
            "[pages.x]\nbase_url='https://x'\nsource='https://x'\ndate='2026-12-01'\n[pages.x.models.{model}]\n{window}"
        ))
    };
    assert!(list("gpt-4", "context_window = 10").is_ok());
    assert!(list("strange", "context_window = 10\ntokenizer = 'cl100k_base'").is_ok());
    for (model, wrong) in [
        ("gpt-4", "max_output_tokens = 10"),
        ("gpt-4", "context_window = 10\nwindow = 3"),
        ("strange", "context_window = 10"),
        ("gpt-4", "context_window = 10\ntokenizer = 'base'"),
    ] {
        assert!(list(model, wrong).is_err(), "{wrong}");
    }
}
