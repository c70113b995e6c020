//! Where each key and value of suite.toml stands, by its JSON pointer: an error is told with its line and column, not
//! with a guess.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::assertion::step;

/// A place in a text file; both counted from one, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub line: usize,
    pub column: usize,
}

impl Place {
    pub(super) fn at(text: &str, offset: usize) -> Place {
        let before = text.get(..offset.min(text.len())).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Place { line: before.matches('\n').count() + 1, column: before[start..].chars().count() + 1 }
    }
}

/// Of each pointer, the bytes of its key (of an item: of the item) and of its value.
#[derive(Debug, Default)]
pub(super) struct Places {
    rows: BTreeMap<String, (Range<usize>, Range<usize>)>,
}

impl Places {
    pub(super) fn read(text: &str) -> Result<Places, toml::de::Error> {
        let mut places = Places::default();
        places.table("", DeTable::parse(text)?.get_ref());
        Ok(places)
    }

    fn table(&mut self, at: &str, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            self.row(format!("{at}/{}", step(key.get_ref())), key.span(), value);
        }
    }

    fn row(&mut self, at: String, key: Range<usize>, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => self.table(&at, table),
            DeValue::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.row(format!("{at}/{i}"), item.span(), item);
                }
            }
            _ => {}
        }
        self.rows.insert(at, (key, value.span()));
    }

    /// Where the key stands; of an item, where the item begins.
    pub(super) fn key(&self, pointer: &str) -> Option<usize> {
        self.rows.get(pointer).map(|(key, _)| key.start)
    }

    pub(super) fn value(&self, pointer: &str) -> Option<Range<usize>> {
        self.rows.get(pointer).map(|(_, value)| value.clone())
    }

    /// The first place that sets a key of this name, wherever in the file.
    pub(super) fn named(&self, name: &str) -> Option<usize> {
        let end = format!("/{}", step(name));
        self.rows.iter().filter(|(at, _)| at.ends_with(&end)).map(|(_, (key, _))| key.start).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_values_and_items_are_found_by_their_pointers() {
        let text = "a = 1\n[b]\n\"c/d\" = [\n  1, { e = \"ü\", f = 2 },\n]\n[[g]]\nh = 1\n[[g]]\nh = 2\n";
        let places = Places::read(text).unwrap();
        let key = |pointer: &str| Place::at(text, places.key(pointer).unwrap());
        assert_eq!(key("/a"), Place { line: 1, column: 1 });
        assert_eq!(key("/b/c~1d/1/f"), Place { line: 4, column: 17 });
        assert_eq!(key("/g/1/h"), Place { line: 9, column: 1 });
        assert_eq!(&text[places.value("/b/c~1d/1/e").unwrap()], "\"ü\"");
        assert_eq!(places.named("h"), Some(text.find("h = 1").unwrap()));
    }
}
