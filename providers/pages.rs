//! What vendors' pages say of their models: data files in the binary, a table a page, with the day on which it was read.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page<Stated> {
    /// What the addresses begin with at which the page holds.
    base_url: String,
    source: String,
    date: String,
    /// Of prices.
    currency: Option<String>,
    models: BTreeMap<String, Stated>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File<Stated> {
    pages: BTreeMap<String, Page<Stated>>,
}

/// What all that a page states has in common.
#[derive(Debug)]
pub(crate) struct Common {
    /// Day and page, as they are kept with whatever was judged by them.
    pub identity: Arc<str>,
    pub currency: Option<Arc<str>>,
}

/// By the beginning of the address, then by the model. A vendor may have several pages.
#[derive(Debug)]
pub(crate) struct Listed<T>(Vec<(String, BTreeMap<String, T>)>);

impl<T> Listed<T> {
    /// # Errors
    ///
    /// Names the page, and the model that `make` can make nothing of.
    pub fn read<Stated: DeserializeOwned>(
        text: &str,
        make: impl Fn(&str, Stated, &Common) -> Option<T>,
    ) -> Result<Listed<T>, String> {
        let file: File<Stated> = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut list = Vec::new();
        for (name, page) in file.pages {
            let sourced = page.source.starts_with("https://") && page.date.len() == 10 && page.date.starts_with("20");
            if !sourced || !page.base_url.starts_with("https://") || page.base_url.ends_with('/') {
                return Err(format!("{name}: no base_url, source and date as the other pages have them"));
            }
            let identity = format!("{} {}", page.date, page.source).into();
            let common = Common { identity, currency: page.currency.map(Arc::from) };
            let mut models = BTreeMap::new();
            for (model, stated) in page.models {
                let made = make(&model, stated, &common).ok_or_else(|| format!("{name}, {model}: nothing sound"))?;
                models.insert(model, made);
            }
            list.push((page.base_url, models));
        }
        Ok(Listed(list))
    }

    /// What is listed of a model of the vendor at this address. Elsewhere the same model may be another thing.
    pub fn find(&self, base_url: &str, model: &str) -> Option<&T> {
        let mut pages = self.0.iter().filter(|(start, _)| stands_at(base_url, start));
        pages.find_map(|(_, models)| models.get(model))
    }

    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = (&String, &T)> {
        self.0.iter().flat_map(|(_, models)| models)
    }
}

/// Whether an address is one of those that begin so.
fn stands_at(base_url: &str, start: &str) -> bool {
    base_url.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_where_it_holds_and_where_and_when_it_was_read() {
        let read = |base_url: &str, source: &str, date: &str| {
            let page = format!("base_url = '{base_url}'\nsource = '{source}'\ndate = '{date}'\n");
            Listed::read(&format!("[pages.x]\n{page}[pages.x.models]\nm = 1"), |_, n: u8, common| {
                Some((n, common.identity.to_string()))
            })
        };
        let list = read("https://x", "https://x/prices", "2026-12-01").unwrap();
        assert_eq!(list.find("https://x/v1", "m"), Some(&(1, "2026-12-01 https://x/prices".to_owned())));
        for elsewhere in ["https://x.evil.example/v1", "http://x/v1", "https://y"] {
            assert_eq!(list.find(elsewhere, "m"), None, "{elsewhere}");
        }
        assert!(read("http://x", "https://x/prices", "2026-12-01").is_err());
        assert!(read("https://x/", "https://x/prices", "2026-12-01").is_err());
        assert!(read("https://x", "a friend", "2026-12-01").is_err());
        assert!(read("https://x", "https://x/prices", "lately").is_err());
    }
}
