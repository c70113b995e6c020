//! Where `postgres` and `initdb` are: on PATH, else in the folders that packages use, newest first.
//!
//! A pair counts only if the server's user can run it, and a cluster is only ever opened by the major version that
//! made it: Postgres cannot read another's files.

use std::path::{Path, PathBuf};

use super::PostgresError;
use super::account::Account;

/// The oldest major version that the schema is tested with.
const OLDEST: u32 = 15;

/// Folders that hold one installation per version: parent, prefix of the folder's name, folder of the programs.
const VERSIONED: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql@"),
    ("/usr/local/opt", "postgresql@"),
];

/// One installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binaries {
    pub(super) postgres: PathBuf,
    pub(super) initdb: PathBuf,
    pub(super) major: u32,
}

/// The folders to search, best first.
pub(super) fn search_path() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    for (parent, prefix) in VERSIONED {
        folders.extend(versioned(Path::new(parent), prefix));
    }
    folders
}

/// `parent/<prefix>N/bin`, highest N first: 16 before 9, which text order gets wrong.
pub(super) fn versioned(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let mut found: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let number = major(entry.file_name().to_str()?.strip_prefix(prefix)?)?;
            Some((number, entry.path().join("bin")))
        })
        .collect();
    found.sort_by(|left, right| right.cmp(left));
    found.into_iter().map(|(_, folder)| folder).collect()
}

/// The number a version begins with: `15.18 (Debian …)`, `17beta1`, `18devel`.
fn major(version: &str) -> Option<u32> {
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version.get(..digits)?.parse().ok()
}

impl Binaries {
    /// The first pair that is new enough; where a cluster exists, of its major version.
    pub(super) async fn find(
        search: &[PathBuf],
        account: &Account,
        cluster: Option<u32>,
    ) -> Result<Binaries, PostgresError> {
        let mut seen = Vec::new();
        for folder in search {
            let Some(found) = Binaries::in_folder(folder, account).await else { continue };
            if found.major >= OLDEST && cluster.is_none_or(|wanted| wanted == found.major) {
                return Ok(found);
            }
            if !seen.contains(&found.major) {
                seen.push(found.major);
            }
        }
        let found = seen.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        match (cluster, found.is_empty()) {
            (_, true) => Err(PostgresError::NoBinaries { searched: shown(search), account: account.name.clone() }),
            (Some(wanted), false) => Err(PostgresError::OtherMajor { wanted, found }),
            (None, false) => Err(PostgresError::TooOld { found, oldest: OLDEST }),
        }
    }

    async fn in_folder(folder: &Path, account: &Account) -> Option<Binaries> {
        let (postgres, initdb) = (folder.join("postgres"), folder.join("initdb"));
        if !postgres.is_file() || !initdb.is_file() {
            return None;
        }
        let mut command = super::cluster::command(&postgres, account, Path::new("/"));
        let said = command.arg("--version").output().await.ok().filter(|said| said.status.success())?;
        let said = String::from_utf8_lossy(&said.stdout);
        let major = major(said.split_once("PostgreSQL) ")?.1)?;
        Some(Binaries { postgres, initdb, major })
    }
}

/// The major version that made the cluster in `folder`, if there is one.
pub(super) fn cluster_major(folder: &Path) -> Option<u32> {
    major(std::fs::read_to_string(folder.join("PG_VERSION")).ok()?.trim())
}

fn shown(search: &[PathBuf]) -> String {
    search.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(":")
}
