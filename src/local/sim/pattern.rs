//! A text that a regular expression matches, where no word of a prompt does.
//!
//! Plain constructions only: the fewest repetitions, the first of each choice. What came out is validated by the caller.

use regex_syntax::hir::{Class, Hir, HirKind};

/// More repetitions than this make no text that anybody would write.
const MOST: u32 = 400;

pub(super) fn example(pattern: &str) -> Option<String> {
    let mut out = String::new();
    write(&regex_syntax::parse(pattern).ok()?, &mut out)?;
    Some(out)
}

fn write(hir: &Hir, out: &mut String) -> Option<()> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(Class::Unicode(class)) => {
            // A letter or digit reads better than what a class may begin with.
            let plain = ('a'..='z').chain('0'..='9').find(|c| class.iter().any(|r| (r.start()..=r.end()).contains(c)));
            out.push(plain.or(class.iter().next().map(|range| range.start()))?);
        }
        HirKind::Class(Class::Bytes(class)) => out.push(char::from(class.iter().next()?.start())),
        HirKind::Repetition(repetition) => {
            for _ in 0..repetition.min.min(MOST) {
                write(&repetition.sub, out)?;
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, out)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| write(part, out))?,
        HirKind::Alternation(ways) => write(ways.first()?, out)?,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_the_plainest_match() {
        assert_eq!(example("^PO-[0-9]{4}$").as_deref(), Some("PO-0000"));
        assert_eq!(example("^(red|green)\\s?x+$").as_deref(), Some("redx"));
        assert_eq!(example("[A-Z]{2}").as_deref(), Some("AA"));
        assert_eq!(example("(unclosed"), None);
    }
}
