//! Sampling noise: what a sound provider may do otherwise from one call to the next.
//!
//! Everything in here keeps every promise. It varies white space, the order of members, the wording of free text, how an
//! answer is cut into pieces, and nothing that a consumer may rely on. Deterministic: seed, body and repetition decide.

use std::cell::Cell;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// A source of choices; the silent one always takes the first.
#[derive(Debug, Clone)]
pub(super) struct Noise(Option<Cell<u64>>);

impl Noise {
    pub(super) fn silent() -> Noise {
        Noise(None)
    }

    /// The same parts give the same choices.
    pub(super) fn of(parts: &[&[u8]]) -> Noise {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        let first: [u8; 8] = hash.finalize()[..8].try_into().unwrap_or_default();
        Noise(Some(Cell::new(u64::from_le_bytes(first))))
    }

    /// A number below `bound`; 0 from the silent one. (SplitMix64.)
    pub(super) fn below(&self, bound: usize) -> usize {
        let Some(cell) = &self.0 else { return 0 };
        let state = cell.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        cell.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound.max(1) as u64).unwrap_or(0)
    }

    /// Once in so many times; never from the silent one.
    pub(super) fn once_in(&self, times: usize) -> bool {
        self.0.is_some() && self.below(times) == 0
    }

    /// JSON text of a value: compact without noise, else in one of the usual layouts, with members in any order.
    pub(super) fn write(&self, value: &Value) -> String {
        const LAYOUTS: [Layout; 4] = [
            Layout { after: "", line: None },
            Layout { after: " ", line: None },
            Layout { after: " ", line: Some("  ") },
            Layout { after: " ", line: Some("\t") },
        ];
        let mut out = String::new();
        if self.once_in(16) {
            out.push('\n');
        }
        self.put(&mut out, value, &LAYOUTS[self.below(LAYOUTS.len())], 0);
        if self.once_in(4) {
            out.push('\n');
        }
        out
    }

    fn put(&self, out: &mut String, value: &Value, layout: &Layout, depth: usize) {
        let (open, close, items): (_, _, Vec<(Option<&String>, &Value)>) = match value {
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().map(|(name, value)| (Some(name), value)).collect();
                for at in (1..members.len()).rev().filter(|_| self.0.is_some()) {
                    members.swap(at, self.below(at + 1));
                }
                ('{', '}', members)
            }
            Value::Array(items) => ('[', ']', items.iter().map(|item| (None, item)).collect()),
            plain => return out.push_str(&plain.to_string()),
        };
        out.push(open);
        for (at, (name, item)) in items.iter().enumerate() {
            if at > 0 {
                out.push(',');
                out.push_str(if layout.line.is_some() { "" } else { layout.after });
            }
            layout.line_break(out, depth + 1);
            if let Some(name) = name {
                out.push_str(&Value::String((*name).clone()).to_string());
                out.push(':');
                out.push_str(layout.after);
            }
            self.put(out, item, layout, depth + 1);
        }
        if !items.is_empty() {
            layout.line_break(out, depth);
        }
        out.push(close);
    }

    /// A text that was asked for word for word, as models give it back.
    pub(super) fn told(&self, text: String) -> String {
        match self.below(8) {
            1 => format!("{text}\n"),
            2 => format!("\"{text}\""),
            3 => format!(" {text}"),
            _ => text,
        }
    }

    /// The pieces of a stream, some of them joined.
    pub(super) fn grouped(&self, pieces: Vec<String>) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for piece in pieces {
            match out.last_mut() {
                Some(last) if self.once_in(3) => last.push_str(&piece),
                _ => out.push(piece),
            }
        }
        out
    }
}

/// How JSON is laid out: what follows a colon or comma, and the indent of a line.
struct Layout {
    after: &'static str,
    line: Option<&'static str>,
}

impl Layout {
    fn line_break(&self, out: &mut String, depth: usize) {
        if let Some(indent) = self.line {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn noise_changes_the_text_and_never_the_value() {
        let value = json!({"a": [1, {"b": null}, []], "id": 7_300_000_000_000_000_001_u64, "s": "x\"y\n", "e": {}});
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0_u8..100 {
            let text = Noise::of(&[&[seed]]).write(&value);
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value, "{text}");
            seen.insert(text);
        }
        assert!(seen.len() > 20, "only {} ways of writing", seen.len());
        assert_eq!(Noise::silent().write(&value), value.to_string());
    }

    #[test]
    fn pieces_stay_the_same_text() {
        let pieces: Vec<String> = "a b c d e f g".split_inclusive(' ').map(str::to_owned).collect();
        let grouped = Noise::of(&[b"1"]).grouped(pieces.clone());
        assert!(grouped.len() < pieces.len());
        assert_eq!(grouped.concat(), pieces.concat());
    }
}
