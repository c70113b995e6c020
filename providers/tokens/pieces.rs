//! Long texts in pieces that can be counted one by one, so that no input is slow to count, or too much for the pattern
//! by which an encoding splits words.
//!
//! OpenAI's patterns never join a space to the character before it that is none, nor a letter or digit to a following
//! punctuation mark that is no apostrophe: between those two a text may be cut, and its tokens stay the same (nor is it cut
//! before `|` and `_`, which stand within control literals). Where a run has neither for [`LONGEST`] bytes it is cut all
//! the same, and its count is not exact.

/// Bytes of a piece, at most. The pattern goes back over a run of spaces as often as it is long, and gives up (which
/// tiktoken-rs does not survive) after a million steps.
const LONGEST: usize = 64 * 1024;
/// A cut is looked for in the last so many bytes before that.
const SHORTEST: usize = 48 * 1024;

/// Part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    pub text: &'a str,
    /// Whether its tokens are among those of the whole text.
    pub exact: bool,
}

/// The text, cut. Short texts are one piece.
pub fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    let mut torn = false;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (end, clean) = next_cut(rest);
        let (text, after) = rest.split_at(end);
        rest = after;
        let exact = clean && !torn;
        torn = !clean;
        Some(Piece { text, exact })
    })
}

/// Where the next piece ends, and whether that is a place where no token can be cut through.
fn next_cut(text: &str) -> (usize, bool) {
    if text.len() <= LONGEST {
        return (text.len(), true);
    }
    let end = text.floor_char_boundary(LONGEST);
    let mut at = end;
    while at > SHORTEST {
        let before = text[..at].chars().next_back();
        let after = text[at..].chars().next();
        if let (Some(before), Some(after)) = (before, after)
            && never_joined(before, after)
        {
            return (at, true);
        }
        at -= before.map_or(1, char::len_utf8);
    }
    (end, false)
}

fn never_joined(before: char, after: char) -> bool {
    match after {
        ' ' => !before.is_whitespace(),
        // Of letters only those that are certainly `\p{L}`, not marks, which some patterns take for punctuation.
        _ if before.is_ascii_alphanumeric() || is_ideograph(before) => {
            (after.is_ascii_punctuation() && !matches!(after, '\'' | '|' | '_'))
                || matches!(after, '、' | '。' | '，' | '！' | '？')
        }
        _ => false,
    }
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{Counter, Encoding};

    const ENCODINGS: [Encoding; 5] =
        [Encoding::O200kBase, Encoding::O200kHarmony, Encoding::Cl100kBase, Encoding::P50kBase, Encoding::R50kBase];

    fn whole(encoding: Encoding, text: &str) -> u64 {
        encoding.bpe().encode_ordinary(text).len() as u64
    }

    /// Texts of several pieces, in the ways that people and programs write.
    fn texts() -> Vec<String> {
        let repeat = |text: &str| text.repeat(150 * 1024 / text.len());
        vec![
            repeat("It's 1,234.5 o'clock: don't\n\n  indent\tthis (e.g. \"here\") - I'LL see. "),
            repeat("你好，世界。日本語のテキスト、です！안녕하세요？"),
            repeat("नमस्ते दुनिया। यह हिन्दी है, "),
            repeat("{\"id\":\"a1b2\",\"n\":[1,22,333,4444],\"path\":\"/x/y-z_0.json\"},"),
            repeat("fn main() {\r\n    let x = a::<B>();\r\n}\r\n"),
            repeat("QUJDRA==/+abc9"),
        ]
    }

    #[test]
    fn a_text_in_pieces_has_the_tokens_that_it_has_whole() {
        for text in texts() {
            let cut: Vec<Piece<'_>> = pieces(&text).collect();
            assert!(cut.len() > 2 && cut.iter().all(|piece| piece.exact), "{}", &text[..40.min(text.len())]);
            assert_eq!(cut.iter().map(|piece| piece.text).collect::<String>(), text);
            for encoding in ENCODINGS {
                let sum: u64 = cut.iter().map(|piece| whole(encoding, piece.text)).sum();
                assert_eq!(sum, whole(encoding, &text), "{encoding:?}, {}", text.chars().take(12).collect::<String>());
            }
        }
    }

    #[test]
    fn a_run_that_cannot_be_cut_is_cut_all_the_same_and_says_so() {
        let run = "a".repeat(3 * LONGEST);
        let cut: Vec<bool> = pieces(&format!("{run} and more")).map(|piece| piece.exact).collect();
        assert!(cut.iter().filter(|exact| !**exact).count() >= 3, "{cut:?}");
        assert!(pieces("").next().is_none());
        assert_eq!(pieces("short").collect::<Vec<_>>(), [Piece { text: "short", exact: true }]);
    }

    // A million blanks before a word were more steps than the pattern may take, and the count's task died of it.
    #[test]
    fn no_text_is_too_much_to_count() {
        for run in [" ", "\n", "A", "你", "!", "\u{301}"] {
            let text = run.repeat(1_100_000) + "a";
            for encoding in [Encoding::O200kBase, Encoding::Cl100kBase] {
                assert!(encoding.count_text(&text) > 0, "{run:?}");
            }
        }
    }
}
