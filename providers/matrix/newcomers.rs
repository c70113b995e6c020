//! Events that vendors may add after this was written, within each format's full stream: signs of life are passed over;
//! a piece of the answer is kept as the reader of whole answers keeps what it does not know; nothing else changes, in any
//! dialect. A client of the provider's own dialect gets the event as it came.

use super::answers::{client, sent};
use super::samples::{self, Sample};
use crate::compatible::adapter_named;
use crate::dialects::Dialect;
use crate::json::Json;

const MARK: &str = "H-ONE";

/// What becomes of a new kind of content.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// It stands beside the message.
    Kept,
    /// The last event of the stream holds the answer whole: what it does not hold is none of it.
    ToldAgain,
}

/// The format, a sign of life, a piece of content, and where in the stream they come: behind the line that holds this.
const NEWCOMERS: [(&str, &str, &str, &str, Fate); 7] = [
    (
        "openai",
        r#"{"type":"vendor.news","note":7}"#,
        r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"M-ONE","choices":[{"index":0,"delta":{"hologram":"H-ONE"},"finish_reason":null}]}"#,
        "T-ONE",
        Fate::Kept,
    ),
    (
        "openai-responses",
        r#"{"type":"response.vendor_news"}"#,
        r#"{"type":"response.hologram.delta","output_index":9,"delta":"H-ONE"}"#,
        "output_text.delta",
        Fate::ToldAgain,
    ),
    (
        "anthropic",
        r#"{"type":"vendor_news","note":7}"#,
        r#"{"type":"hologram_delta","index":9,"delta":{"type":"hologram","hologram":"H-ONE"}}"#,
        "T-ONE",
        Fate::Kept,
    ),
    (
        "gemini",
        r#"{"vendorNews":7,"responseId":"r1","modelVersion":"M-ONE"}"#,
        r#"{"candidates":[{"index":0,"content":{"role":"model","parts":[{"hologram":{"data":"H-ONE"}}]}}],"responseId":"r1","modelVersion":"M-ONE"}"#,
        "T-ONE",
        Fate::Kept,
    ),
    (
        "ollama",
        r#"{"model":"M-ONE","created_at":"2026-11-30T20:00:00Z","vendor_news":7,"done":false}"#,
        r#"{"model":"M-ONE","created_at":"2026-11-30T20:00:00Z","message":{"role":"assistant","content":"","hologram":"H-ONE"},"done":false}"#,
        "T-ONE",
        Fate::Kept,
    ),
    (
        "cohere",
        r#"{"type":"vendor-news","note":7}"#,
        r#"{"type":"hologram-delta","index":9,"delta":{"message":{"hologram":"H-ONE"}}}"#,
        "T-ONE",
        Fate::Kept,
    ),
    (
        "bedrock",
        r#"vendorNews {"note":7}"#,
        r#"contentBlockDelta {"contentBlockIndex":9,"delta":{"hologram":{"data":"H-ONE"}}}"#,
        "T-ONE",
        Fate::Kept,
    ),
];

/// The full stream with this line behind the first that holds the anchor.
fn with(format: &str, line: &str, anchor: &str) -> Sample {
    samples::full_with(format, &|lines: &str| {
        let mut seen = false;
        let grown = lines.lines().flat_map(|known| {
            let here = !seen && known.contains(anchor);
            seen |= here;
            [Some(known), here.then_some(line)].into_iter().flatten()
        });
        let grown: Vec<&str> = grown.collect();
        assert_eq!(grown.len(), lines.lines().count() + 1, "{format} has no {anchor}");
        grown.join("\n") + "\n"
    })
}

fn text(json: &Json) -> String {
    String::from_utf8(json.to_bytes().to_vec()).unwrap()
}

/// Without what stands beside the message in chat completions: that is what grows.
fn bare(answer: &Json) -> String {
    let mut answer = answer.clone();
    if let Some(Json::Array(choices)) = answer.as_object_mut().and_then(|answer| answer.get_mut("choices")) {
        let messages = choices.iter_mut().filter_map(|choice| choice.as_object_mut()?.get_mut("message"));
        for message in messages.filter_map(Json::as_object_mut) {
            message.remove("other_blocks");
            message.remove("hologram");
        }
    }
    text(&answer)
}

#[test]
fn events_that_nobody_knows_yet_change_nothing_and_what_they_bring_is_kept() {
    for (format, sign, piece, anchor, fate) in NEWCOMERS {
        let adapter = adapter_named(format).unwrap();
        for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
            let native = dialect != Dialect::Chat && adapter.dialect() == Some(dialect);
            let at = format!("{format} as {dialect:?}");
            for (line, brings) in [(sign, false), (piece, true)] {
                let sample = with(format, line, anchor);
                if native {
                    let stream = sent(dialect, format, &sample, true).unwrap();
                    let known = sent(dialect, format, &samples::full(format, true), true).unwrap();
                    assert!(stream.contains(&format!("data: {line}\n")), "{at}: {line} is not in {stream}");
                    assert_eq!(stream.matches("\n\n").count(), known.matches("\n\n").count() + 1, "{at}");
                    continue;
                }
                let known = client(dialect, format, &samples::full(format, true), true).unwrap();
                let seen = client(dialect, format, &sample, true).unwrap_or_else(|why| panic!("{at}: {line}: {why}"));
                assert_eq!(bare(&seen), bare(&known), "{at}: {line}");
                let kept = text(&seen).contains(MARK);
                let expected = brings && dialect == Dialect::Chat && fate == Fate::Kept;
                assert_eq!(kept, expected, "{at}: {}", text(&seen));
            }
        }
    }
}

/// A piece that is no JSON is a broken event, new or not: some of the answer may be lost with it.
#[test]
fn a_broken_event_is_never_taken_for_a_new_one() {
    for (format, _, _, anchor, _) in NEWCOMERS.iter().filter(|(format, ..)| !["ollama", "bedrock"].contains(format)) {
        let sample = with(format, r#"{"type":"vendor_news""#, anchor);
        assert!(client(Dialect::Chat, format, &sample, true).is_err(), "{format}");
    }
}
