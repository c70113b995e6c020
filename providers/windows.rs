//! How much a model holds, and whether a prompt certainly does not fit: the list in the binary (`windows.toml`), and the
//! one judgement that is made of it before anything is sent.
//!
//! A verdict is never a guess. Only the client's texts are counted, exactly, without what a chat template, tools and
//! images add: the true prompt is longer. So "too long" is certain, and whatever is not certain fits, and is the
//! provider's to refuse. A model whose tokens nobody here can count holds everything.

mod prompt;

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use self::prompt::{Part, asked_for, may_be_shortened, parts};
use crate::canonical::Request;
use crate::pages::{Common, Listed};
use crate::tokens::{Encoding, encoding_for};

/// What a model holds, in tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Prompt and answer together.
    pub context: Option<u64>,
    /// The prompt alone; each text of it, where vectors are asked for.
    pub input: Option<u64>,
    /// The answer alone.
    pub output: Option<u64>,
    /// Whether a request is refused whose prompt and whose limit of the answer are together above `context`. Where not,
    /// the answer just ends at the window's end.
    pub answer_counts: bool,
    /// How its tokens are counted. `None`: nobody here can.
    pub encoding: Option<Encoding>,
    /// Who says so: `settings`, or the day and the page it was read.
    pub identity: Arc<str>,
}

/// A prompt that certainly does not fit, and by what measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overflow {
    /// What is too long, as the client calls it: `messages`, `input`, `input[3]`.
    pub param: String,
    /// Tokens that it has at least.
    pub tokens: u64,
    pub window: u64,
    /// The member that asks for an answer of so many tokens beside them, where that counts.
    pub answer: Option<(&'static str, u64)>,
    /// [`Window::identity`].
    pub identity: Arc<str>,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overflow { param, tokens, window, answer, identity } = self;
        write!(f, "`{param}` has at least {tokens} tokens")?;
        if let Some((name, asked)) = answer {
            write!(f, ", `{name}` asks for {asked} more")?;
        }
        write!(f, ", and its window holds {window} ({identity})")
    }
}

/// What a prompt may have.
struct Room {
    most: u64,
    window: u64,
    answer: Option<(&'static str, u64)>,
}

impl Window {
    /// `None`: as much as one likes.
    fn room(&self, request: &Request) -> Option<Room> {
        let asked = asked_for(request).filter(|_| self.answer_counts);
        // An answer is no longer than the model's longest, whatever was asked for.
        let answer = asked.map(|(name, asked)| (name, self.output.map_or(asked, |longest| asked.min(longest))));
        let within = self.context.map(|window| {
            let most = window.saturating_sub(answer.map_or(0, |(_, tokens)| tokens));
            Room { most, window, answer }
        });
        let alone = self.input.map(|window| Room { most: window, window, answer: None });
        within.into_iter().chain(alone).min_by_key(|room| room.most)
    }

    /// Whether a request whose body has so many bytes has room for sure: no encoding makes more tokens than bytes, and
    /// what JSON writes around a message is longer than what a template does.
    pub fn surely_holds(&self, request: &Request, bytes: usize) -> bool {
        self.room(request).is_none_or(|room| bytes as u64 <= room.most)
    }
}

/// Whether the prompt certainly does not fit each of these windows. It takes about as long as counting the longest
/// prompt that any of them holds; nothing is counted where its bytes are few enough.
pub fn overflows(request: &Request, windows: &[&Window]) -> Vec<Option<Overflow>> {
    if may_be_shortened(request) {
        return windows.iter().map(|_| None).collect();
    }
    let parts = parts(request);
    let rooms: Vec<Option<Room>> = windows.iter().map(|window| window.room(request)).collect();
    let mut counts = Counts::default();
    let judge = |(window, room): (&&Window, &Option<Room>)| {
        let room = room.as_ref()?;
        let enough = || enough(windows, &rooms, window.encoding);
        let over = |(at, part): (usize, &Part<'_>)| {
            let fits = part.bytes() <= room.most && part.tokens <= room.most;
            let tokens = if fits { 0 } else { counts.of(at, part, window.encoding, enough()) };
            (tokens > room.most).then(|| (part.param.clone(), tokens))
        };
        let (param, tokens) = parts.iter().enumerate().find_map(over)?;
        Some(Overflow {
            param,
            tokens,
            window: room.window,
            answer: room.answer,
            identity: Arc::clone(&window.identity),
        })
    };
    windows.iter().zip(&rooms).map(judge).collect()
}

/// A count above this is too long for all windows of that encoding.
fn enough(windows: &[&Window], rooms: &[Option<Room>], encoding: Option<Encoding>) -> u64 {
    let same = windows.iter().zip(rooms).filter(|(window, _)| window.encoding == encoding);
    same.filter_map(|(_, room)| Some(room.as_ref()?.most)).max().unwrap_or(0)
}

/// What has been counted of one request: nothing twice.
#[derive(Default)]
struct Counts {
    known: Vec<((usize, Option<Encoding>), u64)>,
}

impl Counts {
    fn of(&mut self, at: usize, part: &Part<'_>, encoding: Option<Encoding>, enough: u64) -> u64 {
        let key = (at, encoding);
        if let Some((_, tokens)) = self.known.iter().find(|(known, _)| *known == key) {
            return *tokens;
        }
        let mut tokens = part.tokens;
        for text in encoding.iter().flat_map(|_| &part.texts) {
            if tokens > enough {
                break;
            }
            tokens += encoding.map_or(0, |encoding| encoding.count_at_least(text, enough - tokens));
        }
        self.known.push((key, tokens));
        tokens
    }
}

/// A window as a file states it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stated {
    context_window: Option<u64>,
    max_input_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    #[serde(default)]
    answer_counts: bool,
    tokenizer: Option<String>,
}

static LIST: LazyLock<Listed<Window>> = LazyLock::new(|| {
    read(include_str!("windows.toml")).expect("the list of windows in the binary is sound: a test reads it")
});

/// The listed window of a model of the vendor at this address. Elsewhere the same model may be served with another.
pub fn listed(base_url: &str, model: &str) -> Option<&'static Window> {
    LIST.find(base_url, model)
}

fn read(text: &str) -> Result<Listed<Window>, String> {
    Listed::read(text, window)
}

/// `None`: it bounds nothing, or nobody here can count for it.
fn window(model: &str, stated: Stated, common: &Common) -> Option<Window> {
    let encoding = match &stated.tokenizer {
        Some(name) => Encoding::named(name)?,
        None => encoding_for(model)?,
    };
    stated.context_window.or(stated.max_input_tokens)?;
    Some(Window {
        context: stated.context_window,
        input: stated.max_input_tokens,
        output: stated.max_output_tokens,
        answer_counts: stated.answer_counts,
        encoding: Some(encoding),
        identity: Arc::clone(&common.identity),
    })
}

#[cfg(test)]
mod tests;
