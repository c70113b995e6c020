//! How the mini-model reads: word stems, a few synonyms, and which part of a prompt is the thing to work on.
//!
//! General English and the vocabulary of support desks only. Nothing in here may know a suite, a case or a fixture.

use std::collections::BTreeSet;

/// Words that go with a value of an enum. The first column holds stems of the value's own words.
const SYNONYMS: [(&[&str], &[&str]); 12] = [
    (
        &["billing", "payment", "refund", "invoice"],
        &[
            "charge",
            "refund",
            "invoice",
            "payment",
            "paid",
            "twice",
            "card",
            "subscription",
            "receipt",
            "price",
            "money",
        ],
    ),
    (
        &["technical", "bug", "tech", "incident"],
        &[
            "error",
            "crash",
            "bug",
            "broken",
            "login",
            "password",
            "slow",
            "fail",
            "exception",
            "timeout",
            "load",
            "freeze",
            "outage",
            "down",
        ],
    ),
    (
        &["account", "profile", "access"],
        // Who cannot get in has a matter of the account as much as a technical one: the rest of the text decides.
        &[
            "account", "profile", "email", "username", "close", "delete", "member", "settings", "password", "login",
            "forgot", "reset", "locked",
        ],
    ),
    (&["shipping", "delivery", "order"], &["package", "parcel", "deliver", "courier", "tracking", "ship", "arrive"]),
    (&["sales", "pricing"], &["quote", "demo", "upgrade", "pricing", "discount", "plan", "seats"]),
    (&["question", "inquiry", "howto"], &["how", "what", "where", "wonder", "question", "which"]),
    (
        &["high", "urgent", "critical", "emergency"],
        &["urgent", "immediately", "down", "outage", "now", "asap", "production", "emergency", "critical"],
    ),
    (
        &["low", "minor"],
        &["whenever", "rush", "later", "eventually", "minor", "curious", "not:urgent", "hurry", "typo"],
    ),
    (&["medium", "normal", "moderate"], &["soon", "week", "annoying"]),
    (&["positive", "happy"], &["thanks", "great", "love", "happy", "excellent", "wonderful", "perfect"]),
    (
        &["negative", "angry", "unhappy"],
        &["angry", "terrible", "unacceptable", "disappointed", "worst", "hate", "awful", "ridiculous"],
    ),
    (&["feature", "suggestion", "feedback"], &["feature", "suggest", "wish", "idea", "add", "support"]),
];

/// What a reader picks when nothing speaks for any value.
const NEUTRAL: [&str; 8] = ["medium", "normal", "neutral", "other", "general", "unknown", "none", "unclear"];

/// `no` is none of them: who has no invoice talks about an invoice.
const NEGATORS: [&str; 4] = ["not", "never", "isn't", "don't"];

/// Words that a negation reaches across.
const ARTICLES: [&str; 5] = ["a", "an", "the", "that", "very"];

const EMPTY: [&str; 24] = [
    "the", "and", "for", "are", "was", "with", "that", "this", "when", "has", "have", "from", "any", "all", "customer",
    "user", "ticket", "message", "about", "its", "one", "text", "use", "you",
];

/// The stems of a text. A negated word counts as `not:stem`.
#[derive(Debug, Clone, Default)]
pub(super) struct Stems(BTreeSet<String>);

impl Stems {
    pub(super) fn of(text: &str) -> Stems {
        let lower = text.to_lowercase().replace('’', "'");
        let mut stems = BTreeSet::new();
        let mut negated = false;
        for word in lower.split(|c: char| !(c.is_alphanumeric() || c == '\'')).filter(|word| !word.is_empty()) {
            let stem = stem(word);
            if negated {
                stems.insert(format!("not:{stem}"));
            } else if word.chars().count() > 2 && !EMPTY.contains(&word) {
                stems.insert(stem);
            }
            negated = NEGATORS.contains(&word) || (negated && ARTICLES.contains(&word));
        }
        Stems(stems)
    }

    pub(super) fn overlap(&self, other: &Stems) -> usize {
        self.0.intersection(&other.0).count()
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(word) || self.0.contains(&stem(word))
    }

    /// How much a text with these stems speaks for an enum's value: its own words, their synonyms, then the hints that
    /// a description or a system prompt gives for it.
    fn score(&self, value: &str, hints: &[Stems]) -> usize {
        let own: Vec<String> = value.split(['_', '-', ' ', '/']).map(|word| stem(&word.to_lowercase())).collect();
        let mut score = 3 * own.iter().filter(|word| self.0.contains(*word)).count();
        for (names, synonyms) in SYNONYMS {
            if names.iter().any(|name| own.contains(&stem(name))) {
                score += 2 * synonyms.iter().filter(|synonym| self.has(synonym)).count();
            }
        }
        score + hints.iter().map(|hint| self.overlap(hint)).sum::<usize>()
    }

    /// Enum values with their scores, best first; equal ones keep the order in which they were given.
    pub(super) fn rank<'v>(&self, values: &[&'v str], explained: &[&str]) -> Vec<(&'v str, usize)> {
        let mut ranked: Vec<(&str, usize)> = values
            .iter()
            .map(|value| {
                let hints: Vec<Stems> = explained.iter().map(|text| hint(text, value, values)).collect();
                (*value, self.score(value, &hints))
            })
            .collect();
        ranked.sort_by_key(|(value, score)| (usize::MAX - score, *score == 0 && !NEUTRAL.contains(value)));
        ranked
    }
}

/// What `explained` says about `value`: from where it names it to the end of the sentence or to the next value.
fn hint(explained: &str, value: &str, values: &[&str]) -> Stems {
    let mut stems = Stems::default();
    for at in mentions(explained, value) {
        let rest = &explained[at + value.len()..];
        let next = values.iter().filter_map(|other| mentions(rest, other).into_iter().next()).min();
        let sentence = rest.find(['.', ';', '\n']);
        let end = next.into_iter().chain(sentence).min().unwrap_or(rest.len());
        stems.0.extend(Stems::of(&rest[..end]).0);
    }
    stems
}

/// Where `text` holds `word` as a word of its own: `low` is not in `follow`.
fn mentions(text: &str, word: &str) -> Vec<usize> {
    let (lower, wanted) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let places = lower.match_indices(&wanted).map(|(at, _)| at);
    let alone = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    };
    places.filter(alone).collect()
}

/// Cuts the common endings: `charged`, `charges` and `charging` meet at `charg`.
fn stem(word: &str) -> String {
    let word = word.trim_matches('\'').trim_end_matches("'s");
    for ending in ["ing", "ed", "es", "s", "e"] {
        if let Some(short) = word.strip_suffix(ending)
            && short.chars().count() >= 3
        {
            return short.to_owned();
        }
    }
    word.to_owned()
}

/// The thing to work on inside a user's message: what stands in a tag, in triple quotes, after a label such as
/// `Ticket:` or under a heading; else all of it.
pub(super) fn subject(text: &str) -> &str {
    const LABELS: [&str; 9] =
        ["ticket:", "message:", "text:", "input:", "email:", "content:", "document:", "question:", "review:"];
    for fence in ["\"\"\"", "```"] {
        if let Some((_, rest)) = text.split_once(fence)
            && let Some((inner, _)) = rest.split_once(fence)
        {
            return inner.trim();
        }
    }
    if let Some(inner) = tagged(text) {
        return inner.trim();
    }
    let lower = text.to_ascii_lowercase();
    for label in LABELS {
        let at = lower.match_indices(label).find(|(at, _)| *at == 0 || lower.as_bytes()[at - 1] == b'\n');
        if let Some((at, _)) = at {
            return text[at + label.len()..].trim();
        }
    }
    // A short first line that ends in a colon is a heading: `Mail from Ann:`.
    match text.trim().split_once('\n') {
        Some((heading, rest)) if heading.trim_end().ends_with(':') && heading.len() <= 80 => rest.trim(),
        _ => text.trim(),
    }
}

/// The inside of the first `<name>…</name>`.
fn tagged(text: &str) -> Option<&str> {
    for (at, _) in text.match_indices('<') {
        let rest = &text[at + 1..];
        let Some((name, inner)) = rest.split_once('>') else { continue };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
            continue;
        }
        if let Some((inner, _)) = inner.split_once(&format!("</{name}>")) {
            return Some(inner);
        }
    }
    None
}

/// The first sentence, or the first line where no sentence ends in it.
pub(super) fn first_sentence(text: &str) -> &str {
    let line = text.trim().lines().next().unwrap_or("").trim();
    let end = line.char_indices().find(|(at, c)| {
        matches!(c, '.' | '!' | '?') && line[at + c.len_utf8()..].chars().next().is_none_or(char::is_whitespace)
    });
    match end {
        Some((at, c)) => &line[..at + c.len_utf8()],
        None => line,
    }
}
