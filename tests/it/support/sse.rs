//! Scripted streams, and what a client makes of one.

use std::time::Duration;

use serde_json::{Value, json};

use super::upstream::{Piece, Reply};

/// A stream in the making: an answer of several words, one chunk each.
#[derive(Debug, Clone)]
pub struct Stream {
    pieces: Vec<Piece>,
}

impl Stream {
    /// The head, and the chunk that only names the role.
    pub fn begin() -> Stream {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        Stream { pieces: vec![Piece::Bytes(head.into())] }.delta(&json!({ "role": "assistant", "content": "" }))
    }

    pub fn words(mut self, words: &[&str]) -> Stream {
        for word in words {
            self = self.delta(&json!({ "content": word }));
        }
        self
    }

    pub fn delta(self, delta: &Value) -> Stream {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": null });
        self.data(&chunk(&json!([choice])).to_string())
    }

    /// One event with this data, whatever it is.
    pub fn data(self, data: &str) -> Stream {
        self.raw(&format!("data: {data}\n\n"))
    }

    pub fn raw(mut self, bytes: &str) -> Stream {
        self.pieces.push(Piece::Bytes(format!("{:x}\r\n{bytes}\r\n", bytes.len()).into_bytes()));
        self
    }

    pub fn then(mut self, piece: Piece) -> Stream {
        self.pieces.push(piece);
        self
    }

    pub fn finish(self, reason: &str) -> Stream {
        let choice = json!({ "index": 0, "delta": {}, "finish_reason": reason });
        self.data(&chunk(&json!([choice])).to_string())
    }

    pub fn usage(self, input: u64, output: u64) -> Stream {
        let mut chunk = chunk(&json!([]));
        chunk["usage"] = json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output });
        self.data(&chunk.to_string())
    }

    /// The connection closes in the middle of everything.
    pub fn cut(self) -> Reply {
        Reply::pieces(self.pieces)
    }

    /// The body ends as HTTP says it should.
    pub fn end(mut self) -> Reply {
        self.pieces.push(Piece::Bytes(b"0\r\n\r\n".to_vec()));
        Reply::pieces(self.pieces)
    }

    /// Finish reason, usage, `[DONE]`, end.
    pub fn sound(self) -> Reply {
        self.finish("stop").usage(3, 5).data("[DONE]").end()
    }
}

fn chunk(choices: &Value) -> Value {
    json!({ "id": "chatcmpl-s", "object": "chat.completion.chunk", "created": 1_760_000_000, "model": "m", "choices": choices })
}

/// A whole sound stream of these words.
pub fn sound(words: &[&str]) -> Reply {
    Stream::begin().words(words).sound()
}

pub fn pause(milliseconds: u64) -> Piece {
    Piece::Pause(Duration::from_millis(milliseconds))
}

/// What a client understands of a stream's events.
#[derive(Debug, Default, PartialEq)]
pub struct Heard {
    pub text: String,
    pub finish: Vec<String>,
    pub usage: Option<Value>,
    pub error: Option<Value>,
    pub done: bool,
}

impl Heard {
    pub fn of(events: &[String]) -> Heard {
        let mut heard = Heard::default();
        for event in events {
            let Some(data) = event.strip_prefix("data: ") else { continue };
            assert!(!heard.done && heard.error.is_none(), "an event after the end: {event}");
            if data == "[DONE]" {
                heard.done = true;
                continue;
            }
            let value: Value = serde_json::from_str(data).expect("every event is JSON");
            if let Some(error) = value.get("error") {
                heard.error = Some(error.clone());
                continue;
            }
            if value["usage"].is_object() {
                assert!(heard.usage.is_none(), "usage comes once");
                heard.usage = Some(value["usage"].clone());
            }
            for choice in value["choices"].as_array().into_iter().flatten() {
                heard.text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
                heard.finish.extend(choice["finish_reason"].as_str().map(str::to_owned));
            }
        }
        heard
    }

    /// A complete, sound stream of this text.
    pub fn assert_whole(&self, text: &str) {
        assert_eq!((self.text.as_str(), self.done, &self.error), (text, true, &None), "{self:?}");
        assert_eq!(self.finish, ["stop"], "one finish reason");
    }

    /// A stream that says that it is broken.
    pub fn assert_broken(&self, code: &str) {
        assert!(!self.done, "a broken stream has no [DONE]: {self:?}");
        let told = self.error.as_ref().and_then(|error| error["code"].as_str());
        assert_eq!(told, Some(code), "{self:?}");
    }
}
