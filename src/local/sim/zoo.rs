//! The zoo: everything that a provider was seen to do wrong, one at a time, as a catalogue.
//!
//! Each row names what is done, where it was seen, and which kind of contract check ought to see it. A row is data: its
//! [`Act`]s say at which places of the way from a request to the bytes of its answer something else happens. How suites
//! fare against it is measured elsewhere (`local::kill_table`); a row never knows a suite.

mod envelope;
mod errors;
mod memory;
mod parameters;
mod prompt;
mod quirks;
mod rewrite;
mod streams;
mod structured;
mod text;
mod tools;
mod usage;
mod window;

use contracts::Kind;
use serde_json::Value;

pub(super) use memory::Memory;

use super::Wire;
use super::model::{Ask, Reply};
use super::wire::Fault;

/// What a suite can be expected to make of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// A check of this kind ought to fail.
    Caught(Kind),
    /// It ought to be caught by this kind, and the shipped suites cannot: why.
    Unseen(Kind, &'static str),
    /// Odd, and within what a provider may do: no check may fail.
    Harmless,
}

/// One way to misbehave.
#[derive(Debug)]
pub struct Misbehaviour {
    /// In kebab-case; what `interlock sim --misbehave` takes.
    pub name: &'static str,
    pub does: &'static str,
    /// A field case (`B…`, `D…`), or in words where it was seen.
    pub source: &'static str,
    pub expect: Expect,
    /// The protocols in which it can be shown.
    pub wires: &'static [Wire],
    acts: &'static [Act],
}

/// A place where something else is done than a sound provider does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    /// To the request, before it is read and counted: what is lost here is not billed.
    Body(fn(&mut Value)),
    /// To what the model is told. The prompt was counted before: what is lost here is billed.
    Ask(fn(&mut Ask, &Memory)),
    /// To what the model answered.
    Reply(fn(&mut Reply, &Ask, &Memory)),
    /// To what is billed.
    Bill(fn(&mut Bill, &Memory)),
    /// To the request that the count endpoint counts.
    CountBody(fn(&mut Value)),
    /// To the answer of the count endpoint, in tokens.
    Count(fn(usize) -> usize),
    /// There is no count endpoint.
    NoCount,
    /// To a whole answer.
    Answer(fn(&mut Value, Wire)),
    /// To the events of a stream.
    Events(fn(Vec<String>, Wire) -> Vec<String>),
    /// To an error: another status, content type and body.
    Error(fn(&Fault, Wire) -> Option<Raw>),
    /// To the bytes of a whole answer.
    Bytes(fn(&mut Raw)),
    /// A check that is left out.
    Skip(Skip),
    /// Sampling noise, whether it was asked for or not.
    Noisy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skip {
    Model,
    Window,
    Tools,
}

/// Tokens as they go into the bill.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bill {
    pub(super) prompt: usize,
    pub(super) output: usize,
    pub(super) cached: usize,
}

/// A whole answer as it goes out.
#[derive(Debug, Clone)]
pub(super) struct Raw {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) encoding: Option<&'static str>,
    pub(super) body: Vec<u8>,
    /// Announces more bytes than follow.
    pub(super) cut: bool,
}

const BOTH: &[Wire] = &[Wire::OpenAiChat, Wire::AnthropicMessages];
const OPENAI: &[Wire] = &[Wire::OpenAiChat];
const ANTHROPIC: &[Wire] = &[Wire::AnthropicMessages];

const SCHEMA: Expect = Expect::Caught(Kind::Schema);
const TOKENIZER: Expect = Expect::Caught(Kind::Tokenizer);
const ROUND_TRIP: Expect = Expect::Caught(Kind::RoundTrip);

impl Misbehaviour {
    const fn new(
        name: &'static str,
        does: &'static str,
        source: &'static str,
        expect: Expect,
        wires: &'static [Wire],
        acts: &'static [Act],
    ) -> Misbehaviour {
        Misbehaviour { name, does, source, expect, wires, acts }
    }

    pub(super) fn acts(&self) -> &'static [Act] {
        self.acts
    }

    /// The row of this name.
    pub fn named(name: &str) -> Option<&'static Misbehaviour> {
        catalogue().find(|row| row.name == name)
    }
}

/// Every row, in the order of the way from request to answer.
pub fn catalogue() -> impl Iterator<Item = &'static Misbehaviour> {
    let parts = [
        structured::ROWS,
        text::ROWS,
        prompt::ROWS,
        parameters::ROWS,
        tools::ROWS,
        streams::ROWS,
        window::ROWS,
        usage::ROWS,
        errors::ROWS,
        envelope::ROWS,
        quirks::ROWS,
    ];
    parts.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own_a_source_and_something_to_do() {
        let mut names = BTreeSet::new();
        for row in catalogue() {
            assert!(names.insert(row.name), "{} stands twice", row.name);
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(row.name.chars().all(plain), "{} is not kebab-case", row.name);
            assert!(!row.does.is_empty() && !row.source.is_empty() && !row.acts.is_empty(), "{}", row.name);
            assert!(!row.wires.is_empty(), "{}", row.name);
        }
        let bad = catalogue().filter(|row| row.expect != Expect::Harmless).count();
        assert!(bad >= 60, "only {bad} misbehaviours");
    }
}
