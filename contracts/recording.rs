//! Exchanges on disk: written by a recording run, read by a replay, named after suite, target, case and probe.
//!
//! Recorded at the wire, so that a replay exercises the adapter both ways: what it sends today must be what was
//! recorded, and what was recorded is read by today's code. Of headers only `content-type` is kept, and the provider's
//! key is masked wherever it stands. A replay has no network: what is missing is said, never fetched.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use providers::adapter::{Adapter, Head, Secret, UpstreamRequest};
use providers::failure::{Failure, Proof, Rejection};
use providers::json::{Json, Number, Object};

use crate::assertion::first_difference;
use crate::observation::Observation;
use crate::suite::{Source, Suite, SuiteError};
use crate::upstream::{Exchanged, LiveUpstream, Mode, Network, ProviderUpstream, Wire};

mod journal;

pub use journal::{Facts, Journal, Kept};

/// The provider over the network, with every exchange written down.
pub type RecordingUpstream = ProviderUpstream<Recorder<Network>>;

/// What was recorded, without a network.
pub type ReplayUpstream = ProviderUpstream<Replay>;

/// `recordings/<provider>-<model>` inside the suite, in characters that every file system takes.
fn folder_of(provider: &str, model: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' }).collect()
    };
    format!("recordings/{}-{}", plain(provider), plain(model))
}

impl<W: Wire> ProviderUpstream<W> {
    /// Writes every exchange under the suite's `recordings/`. A shipped suite has no folder to write to.
    pub fn recording(self, suite: &Suite, provider: &str) -> Result<ProviderUpstream<Recorder<W>>, SuiteError> {
        let folder = suite.source.folder().ok_or_else(|| SuiteError {
            file: suite.name().to_owned(),
            line: None,
            column: None,
            what: "a shipped suite has no folder to record into".to_owned(),
            cure: "Copy it under contracts.dir and record there".to_owned(),
        })?;
        let folder = folder.join(folder_of(provider, &self.model));
        std::fs::create_dir_all(&folder).map_err(|e| SuiteError {
            file: folder.display().to_string(),
            line: None,
            column: None,
            what: format!("the folder cannot be made: {e}"),
            cure: "Give it to the user that records".to_owned(),
        })?;
        let recorder = Recorder { inner: self.wire, folder, secret: self.api_key.clone() };
        Ok(ProviderUpstream { adapter: self.adapter, model: self.model, api_key: self.api_key, wire: recorder })
    }
}

impl RecordingUpstream {
    /// A live upstream that writes down what it sees.
    pub fn new(live: LiveUpstream, suite: &Suite, provider: &str) -> Result<Self, SuiteError> {
        live.recording(suite, provider)
    }
}

impl ReplayUpstream {
    /// The recordings of one target in the suite's folder, or in the binary for a shipped suite.
    pub fn new(suite: &Suite, adapter: Arc<dyn Adapter>, provider: &str, model: impl Into<String>) -> Self {
        let model = model.into();
        let wire = Replay { source: suite.source.clone(), folder: folder_of(provider, &model) };
        ProviderUpstream { adapter, model, api_key: None, wire }
    }
}

/// A wire that writes down what passes.
#[derive(Debug)]
pub struct Recorder<W> {
    inner: W,
    folder: PathBuf,
    secret: Option<Secret>,
}

impl<W: Wire> Wire for Recorder<W> {
    const MODE: Mode = W::MODE;

    async fn exchange(&self, name: &str, request: UpstreamRequest) -> Exchanged {
        let (path, body) = (request.path.clone(), request.body.clone());
        let exchanged = self.inner.exchange(name, request).await;
        let Some(document) = self.document(&path, &body, &exchanged) else { return exchanged };
        let file = self.folder.join(format!("{name}.json"));
        match write_whole(&file, document).await {
            Ok(()) => exchanged,
            Err(e) => Exchanged::Nothing(Observation::Recording(format!("{} cannot be written: {e}", file.display()))),
        }
    }
}

/// Whole or not at all, whenever this process ends.
async fn write_whole(file: &Path, document: Vec<u8>) -> std::io::Result<()> {
    let unfinished = file.with_extension("json.new");
    tokio::fs::write(&unfinished, document).await?;
    tokio::fs::rename(&unfinished, file).await
}

impl<W> Recorder<W> {
    /// The exchange as it is written: readable, redacted, the same for the same exchange.
    fn document(&self, path: &str, body: &[u8], exchanged: &Exchanged) -> Option<Vec<u8>> {
        let mut request = Object::new();
        request.insert("path", Json::String(self.mask(path)));
        self.put_body(&mut request, body);
        let mut document = Object::new();
        document.insert("request", Json::Object(request));
        match exchanged {
            Exchanged::Answer(head, body) => {
                let mut response = Object::new();
                response.insert("status", Json::Number(Number::from_u64(u64::from(head.status.as_u16()))));
                if let Some(kind) = head.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()) {
                    response.insert("content_type", Json::String(kind.to_owned()));
                }
                self.put_body(&mut response, body);
                document.insert("response", Json::Object(response));
            }
            Exchanged::Failed(failure) => {
                let mut words = Object::new();
                words.insert("proof", Json::String(proof_word(failure.proof).to_owned()));
                words.insert("reason", Json::String(failure.reason.to_owned()));
                words.insert("message", Json::String(self.mask(&failure.message)));
                document.insert("failure", Json::Object(words));
            }
            Exchanged::Nothing(_) => return None,
        }
        let mut out = Vec::new();
        pretty(&Json::Object(document), 0, &mut out);
        out.push(b'\n');
        Some(out)
    }

    /// JSON as JSON, with its digits; anything else (HTML, two members of one name) as text.
    fn put_body(&self, into: &mut Object, body: &[u8]) {
        let text = self.mask(&String::from_utf8_lossy(body));
        match Json::parse(text.as_bytes()) {
            Ok(json) => into.insert("body", json),
            Err(_) => into.insert("body_text", Json::String(text)),
        };
    }

    fn mask(&self, text: &str) -> String {
        match &self.secret {
            Some(secret) => secret.mask(text),
            None => text.to_owned(),
        }
    }
}

/// One member a line, so that a change of a recording can be read in a diff. Numbers stay as they are.
pub(crate) fn pretty(json: &Json, depth: usize, out: &mut Vec<u8>) {
    let newline = |depth: usize, out: &mut Vec<u8>| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', 2 * depth));
    };
    match json {
        Json::Object(members) if !members.is_empty() => {
            out.push(b'{');
            for (i, (name, value)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                newline(depth + 1, out);
                Json::String(name.to_owned()).write_to(out);
                out.extend_from_slice(b": ");
                pretty(value, depth + 1, out);
            }
            newline(depth, out);
            out.push(b'}');
        }
        Json::Array(items) if !items.is_empty() => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                newline(depth + 1, out);
                pretty(item, depth + 1, out);
            }
            newline(depth, out);
            out.push(b']');
        }
        plain => plain.write_to(out),
    }
}

/// A wire that reads what was written.
#[derive(Debug)]
pub struct Replay {
    source: Source,
    folder: String,
}

impl Wire for Replay {
    const MODE: Mode = Mode::Replay;

    async fn exchange(&self, name: &str, request: UpstreamRequest) -> Exchanged {
        self.read(name, &request)
    }
}

impl Replay {
    /// The status of the answer of this name, where there is one.
    fn status(&self, name: &str) -> Option<StatusCode> {
        let bytes = self.source.read(&format!("{}/{name}.json", self.folder)).ok()?;
        answer_from(Json::parse(&bytes).ok()?.get("response")).map(|(head, _)| head.status)
    }

    fn read(&self, name: &str, request: &UpstreamRequest) -> Exchanged {
        let file = format!("{}/{name}.json", self.folder);
        let shown = self.source.shown(&file);
        let Ok(bytes) = self.source.read(&file) else {
            return Exchanged::Nothing(Observation::NotRecorded { file: shown });
        };
        let unreadable =
            |why: &str| Exchanged::Nothing(Observation::Recording(format!("{shown} cannot be read: {why}")));
        let document = match Json::parse(&bytes) {
            Ok(document) => document,
            Err(e) => return unreadable(&e.to_string()),
        };
        if let Some(difference) = stale(&document, request) {
            return Exchanged::Nothing(Observation::Stale { file: shown, difference });
        }
        if let Some(failure) = document.get("failure") {
            return Exchanged::Failed(failure_from(failure));
        }
        match answer_from(document.get("response")) {
            Some((head, body)) => Exchanged::Answer(head, body),
            None => unreadable("it holds neither a response nor a failure"),
        }
    }
}

/// What is sent now and was not sent then, or the other way round.
fn stale(document: &Json, request: &UpstreamRequest) -> Option<String> {
    let recorded = document.get("request")?;
    if recorded.get("path").and_then(Json::as_str) != Some(request.path.as_str()) {
        return Some("the request's path changed".to_owned());
    }
    match (recorded.get("body"), Json::parse(&request.body)) {
        (Some(then), Ok(now)) => first_difference(then, &now, "").map(|what| format!("in the request {what}")),
        _ => {
            let now = String::from_utf8_lossy(&request.body);
            let then = recorded.get("body_text").and_then(Json::as_str);
            (then != Some(now.as_ref())).then(|| "the request's body changed".to_owned())
        }
    }
}

fn answer_from(response: Option<&Json>) -> Option<(Head, Bytes)> {
    let response = response?;
    let status = StatusCode::from_u16(u16::try_from(response.get("status")?.as_u64()?).ok()?).ok()?;
    let mut headers = HeaderMap::new();
    if let Some(kind) = response.get("content_type").and_then(Json::as_str) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(kind).ok()?);
    }
    let body = match (response.get("body"), response.get("body_text")) {
        (Some(json), _) => json.to_bytes(),
        (None, Some(Json::String(text))) => Bytes::from(text.clone()),
        _ => return None,
    };
    Some((Head { status, headers }, body))
}

fn proof_word(proof: Proof) -> &'static str {
    match proof {
        Proof::NotSent => "not_sent",
        Proof::Refused => "refused",
        Proof::Rejected(_) => "rejected",
        Proof::EndedWithoutResult => "ended_without_result",
        Proof::Unknown => "unknown",
    }
}

/// A transport failure, as recorded. Its reason's word survives in the message.
fn failure_from(words: &Json) -> Failure {
    let word = |name: &str| words.get(name).and_then(Json::as_str).unwrap_or_default();
    let proof = match word("proof") {
        "not_sent" => Proof::NotSent,
        "refused" => Proof::Refused,
        "rejected" => Proof::Rejected(Rejection::BadRequest),
        "ended_without_result" => Proof::EndedWithoutResult,
        _ => Proof::Unknown,
    };
    Failure::new(proof, "recorded_failure", format!("{}: {}", word("reason"), word("message")))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod wires;
