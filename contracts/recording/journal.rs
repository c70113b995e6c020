//! The exchanges of a run that is under way, kept so that an interrupted run is taken up again and nothing is asked, or
//! paid, twice.
//!
//! Written like a recording: redacted, one file an exchange. What may pass by itself (no answer, "later", a server's
//! error) is asked again. A journal serves the same suite, target, adapter and settings, and only for a day: what a
//! provider said longer ago is no evidence of today.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::StatusCode;
use providers::adapter::UpstreamRequest;
use providers::json::{Json, Object};

use super::{Recorder, Replay, pretty};
use crate::suite::{Source, SuiteError};
use crate::upstream::{Exchanged, LiveUpstream, Mode, Network, ProviderUpstream, Wire};

/// How long a run can be taken up again.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

const FACTS: &str = "run.json";

/// A run's folder.
#[derive(Debug)]
pub struct Journal {
    root: PathBuf,
    run: String,
}

/// What must be the same for a run to be taken up again: name and value.
pub type Facts<'a> = [(&'a str, &'a str)];

impl Journal {
    /// A fresh journal at `root/run`.
    pub fn begin(root: &Path, run: &str, facts: &Facts<'_>) -> Result<Journal, SuiteError> {
        sweep(root);
        let journal = Journal { root: root.to_owned(), run: run.to_owned() };
        let folder = journal.folder();
        let wrong = |e: std::io::Error| {
            problem(&folder, format!("it cannot be made: {e}"), "Set database.data_dir to a folder of yours")
        };
        std::fs::create_dir_all(&folder).map_err(wrong)?;
        private(&folder).map_err(wrong)?;
        let mut document = Object::new();
        for (name, value) in facts {
            document.insert(*name, *value);
        }
        let mut out = Vec::new();
        pretty(&Json::Object(document), 0, &mut out);
        std::fs::write(folder.join(FACTS), out).map_err(wrong)?;
        Ok(journal)
    }

    /// Takes up the run `earlier`: its exchanges become those of `run`, so that it is taken up once.
    pub fn take_up(root: &Path, earlier: &str, run: &str, facts: &Facts<'_>) -> Result<Journal, SuiteError> {
        let folder = root.join(earlier);
        let again = "Run the suite again without --resume";
        let file = folder.join(FACTS);
        let written = std::fs::read(&file).map_err(|_| {
            problem(&folder, format!("run {earlier} left nothing to take up, or was taken up before"), again)
        })?;
        let then = Json::parse(&written).map_err(|e| problem(&file, format!("it is not JSON: {e}"), again))?;
        for (name, value) in facts {
            if then.get(name).and_then(Json::as_str) != Some(*value) {
                let was = then.get(name).and_then(Json::as_str).unwrap_or("not there");
                return Err(problem(&file, format!("{name} was {was} and is now {value}"), again));
            }
        }
        // A file whose age cannot be told proves nothing of today.
        if age(&file).is_none_or(|age| age > KEPT) {
            return Err(problem(&folder, "it is older than a day".to_owned(), again));
        }
        let journal = Journal { root: root.to_owned(), run: run.to_owned() };
        std::fs::rename(&folder, journal.folder())
            .map_err(|e| problem(&folder, format!("it cannot be renamed: {e}"), again))?;
        Ok(journal)
    }

    pub fn folder(&self) -> PathBuf {
        self.root.join(&self.run)
    }

    /// The run was made to its end: nothing is left to take up.
    pub fn remove(self) {
        if let Err(error) = std::fs::remove_dir_all(self.folder()) {
            tracing::warn!(folder = %self.folder().display(), %error, "a run's journal cannot be removed");
        }
    }
}

/// Nobody takes these up any more, and prompts lie in them. Only folders that hold a journal are touched.
fn sweep(root: &Path) {
    let Ok(entries) = std::fs::read_dir(root) else { return };
    for folder in entries.flatten().map(|entry| entry.path()) {
        let facts = folder.join(FACTS);
        if age(&facts).is_some_and(|age| age > KEPT) {
            Journal {
                root: root.to_owned(),
                run: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            }
            .remove();
        }
    }
}

fn age(file: &Path) -> Option<Duration> {
    std::fs::metadata(file).and_then(|m| m.modified()).ok()?.elapsed().ok()
}

fn problem(path: &Path, what: String, cure: &str) -> SuiteError {
    SuiteError { file: path.display().to_string(), line: None, column: None, what, cure: cure.to_owned() }
}

/// Prompts and answers lie here: nobody else reads them.
fn private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
}

impl LiveUpstream {
    /// Keeps every exchange in the journal, and takes from it what is there.
    pub fn keeping(self, journal: &Journal) -> ProviderUpstream<Kept<Network>> {
        self.kept_in(journal)
    }
}

impl<W: Wire> ProviderUpstream<W> {
    pub(super) fn kept_in(self, journal: &Journal) -> ProviderUpstream<Kept<W>> {
        let kept = Replay { source: Source::Folder(journal.root.clone()), folder: journal.run.clone() };
        let recorder = Recorder { inner: self.wire, folder: journal.folder(), secret: self.api_key.clone() };
        ProviderUpstream {
            adapter: self.adapter,
            model: self.model,
            api_key: self.api_key,
            wire: Kept { kept, recorder },
        }
    }
}

/// A wire that asks only for what is not kept.
#[derive(Debug)]
pub struct Kept<W> {
    kept: Replay,
    recorder: Recorder<W>,
}

impl<W: Wire> Wire for Kept<W> {
    const MODE: Mode = W::MODE;

    async fn exchange(&self, name: &str, request: UpstreamRequest) -> Exchanged {
        if self.keeps(name)
            && let answer @ Exchanged::Answer(..) = self.kept.read(name, &request)
        {
            return answer;
        }
        self.recorder.exchange(name, request).await
    }

    /// Whole answers, and refusals that would be the same tomorrow.
    fn keeps(&self, name: &str) -> bool {
        let passing = |status: StatusCode| {
            matches!(
                status,
                StatusCode::REQUEST_TIMEOUT
                    | StatusCode::CONFLICT
                    | StatusCode::TOO_EARLY
                    | StatusCode::TOO_MANY_REQUESTS
            )
        };
        self.kept.status(name).is_some_and(|s| s.is_success() || (s.is_client_error() && !passing(s)))
    }
}
