//! The sources that an answer names, out of each provider's form of them: what chat completions call annotations, and
//! what is kept beside the message as its provider said it.
//!
//! Only sources with an address have a place in every dialect. Places in documents that the request brought along have
//! none: no dialect but their own can bring such documents.

use crate::json::{Json, Object};

/// The members of a message, or of a choice, in which sources stand.
pub(super) const MEMBERS: [&str; 5] = ["annotations", "citations", "other_blocks", "other_items", "groundingMetadata"];

/// One source of a text.
#[derive(Debug, Default)]
struct Source {
    url: String,
    title: String,
    /// The words that it stands for, where they are said.
    text: String,
    /// Where they stand in the text.
    from: Option<Json>,
    to: Option<Json>,
}

/// As annotations of a response.
pub(crate) fn annotations(name: &str, value: &Json) -> Vec<Json> {
    match name {
        "annotations" => list(value).iter().map(flat).collect(),
        "other_items" => of_items(value).cloned().collect(),
        _ => sources(name, value).iter().map(annotation).collect(),
    }
}

/// As citations of a message.
pub(super) fn citations(name: &str, value: &Json) -> Vec<Json> {
    match name {
        "other_blocks" => of_blocks(value).cloned().collect(),
        _ => sources(name, value).iter().map(citation).collect(),
    }
}

/// Of a whole message and its choice, by one of the two above.
pub(crate) fn of_choice(choice: &Json, form: impl Fn(&str, &Json) -> Vec<Json>) -> Vec<Json> {
    let holders = [choice.get("message"), Some(choice)].into_iter().flatten();
    let members = holders.filter_map(Json::as_object).flat_map(Object::iter);
    members.filter(|(name, _)| MEMBERS.contains(name)).flat_map(|(name, value)| form(name, value)).collect()
}

/// Chat completions put an annotation's members under its type, responses beside it.
fn flat(annotation: &Json) -> Json {
    let nested = annotation.get("type").and_then(Json::as_str).and_then(|kind| annotation.get(kind)?.as_object());
    let (Some(nested), Some(kind)) = (nested, annotation.get("type")) else { return annotation.clone() };
    let mut flat: Object = [("type", kind.clone())].into_iter().collect();
    for (name, value) in nested.iter() {
        flat.insert(name, value.clone());
    }
    flat.into()
}

fn annotation(source: &Source) -> Json {
    let index = |index: &Option<Json>| index.clone().unwrap_or_else(|| 0.into());
    let mut written: Object = [("type", Json::from("url_citation"))].into_iter().collect();
    written.insert("start_index", index(&source.from));
    written.insert("end_index", index(&source.to));
    written.insert("url", source.url.as_str());
    written.insert("title", source.title.as_str());
    written.into()
}

/// The kind that a search on the web leaves. Its index is Anthropic's own to make.
fn citation(source: &Source) -> Json {
    let members = [
        ("type", "web_search_result_location"),
        ("cited_text", &source.text),
        ("encrypted_index", ""),
        ("title", &source.title),
        ("url", &source.url),
    ];
    Object::from_iter(members).into()
}

fn sources(name: &str, value: &Json) -> Vec<Source> {
    let read: Vec<Source> = match name {
        "annotations" => list(value).iter().map(|annotation| of_annotation(&flat(annotation))).collect(),
        "other_items" => of_items(value).map(of_annotation).collect(),
        "other_blocks" => of_blocks(value).map(of_citation).collect(),
        "citations" => list(value).iter().flat_map(of_others).collect(),
        _ => of_grounding(value),
    };
    read.into_iter().filter(|source| !source.url.is_empty()).collect()
}

fn list(value: &Json) -> &[Json] {
    value.as_array().unwrap_or_default()
}

fn member<'a>(value: &'a Json, name: &str) -> &'a [Json] {
    value.get(name).map_or(&[], list)
}

fn text(value: &Json, name: &str) -> String {
    value.get(name).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn place(value: Option<&Json>, name: &str) -> Option<Json> {
    value.and_then(|value| value.get_some(name)).cloned()
}

/// The annotations of OpenAI's items.
fn of_items(items: &Json) -> impl Iterator<Item = &Json> {
    list(items).iter().flat_map(|item| member(item, "content")).flat_map(|part| member(part, "annotations"))
}

/// The citations of Anthropic's text blocks.
fn of_blocks(blocks: &Json) -> impl Iterator<Item = &Json> {
    list(blocks).iter().flat_map(|block| member(block, "citations"))
}

fn of_annotation(annotation: &Json) -> Source {
    let (from, to) = (place(Some(annotation), "start_index"), place(Some(annotation), "end_index"));
    Source { url: text(annotation, "url"), title: text(annotation, "title"), from, to, ..Source::default() }
}

fn of_citation(citation: &Json) -> Source {
    Source {
        url: text(citation, "url"),
        title: text(citation, "title"),
        text: text(citation, "cited_text"),
        ..Source::default()
    }
}

/// Cohere's (one text, several sources), Amazon's (`location.web`), or a bare address.
fn of_others(citation: &Json) -> Vec<Source> {
    if let Json::String(url) = citation {
        return vec![Source { url: url.clone(), ..Source::default() }];
    }
    if let Some(web) = citation.get("location").and_then(|location| location.get("web")) {
        return vec![Source { url: text(web, "url"), title: text(citation, "title"), ..Source::default() }];
    }
    let cohere = |source: &Json| {
        let document = source.get("document").or_else(|| source.get("tool_output")).unwrap_or(&Json::Null);
        Source {
            url: text(document, "url"),
            title: text(document, "title"),
            text: text(citation, "text"),
            from: place(Some(citation), "start"),
            to: place(Some(citation), "end"),
        }
    };
    member(citation, "sources").iter().map(cohere).collect()
}

/// Google's: each piece of the text with the pages that support it; pages that support none stand for all.
fn of_grounding(metadata: &Json) -> Vec<Source> {
    let chunks = member(metadata, "groundingChunks");
    let page = |at: usize, support: Option<&Json>| {
        let web = chunks.get(at)?.get("web")?;
        let segment = support.and_then(|support| support.get("segment"));
        Some(Source {
            url: text(web, "uri"),
            title: text(web, "title"),
            text: segment.map_or_else(String::new, |segment| text(segment, "text")),
            from: place(segment, "startIndex"),
            to: place(segment, "endIndex"),
        })
    };
    let mut sources = Vec::new();
    let mut used = vec![false; chunks.len()];
    for support in member(metadata, "groundingSupports") {
        for at in member(support, "groundingChunkIndices").iter().filter_map(Json::as_u64) {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            used.get_mut(at).into_iter().for_each(|used| *used = true);
            sources.extend(page(at, Some(support)));
        }
    }
    sources.extend(used.iter().enumerate().filter(|(_, used)| !**used).filter_map(|(at, _)| page(at, None)));
    sources
}
