//! Which operating-system user the server runs as, and whether that user can reach its folder.
//!
//! Postgres refuses to run as root. Then it runs as the owner of an existing cluster, else as `postgres`, else as
//! `nobody`. Nothing here creates or changes anything: it decides, so that a refusal leaves no trace.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User, geteuid};

use super::PostgresError;

/// Users to lend to the server, in order of preference.
const LENT: [&str; 3] = ["postgres", "_postgres", "nobody"];

/// The user the server runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// True: another user than this process runs as, which only root can switch to.
    pub(super) lent: bool,
}

impl Account {
    /// The user for the cluster in `home`, which may not exist yet.
    pub(super) fn choose(data_dir: &Path, home: &Path) -> Result<Account, PostgresError> {
        let me = geteuid();
        let owner = std::fs::symlink_metadata(home).ok().map(|found| found.uid());
        if !me.is_root() {
            let uid = me.as_raw();
            if let Some(owner) = owner.filter(|owner| *owner != uid) {
                let (folder, owner, me) = (home.to_owned(), name_of(owner), name_of(uid));
                return Err(PostgresError::Foreign { folder, owner, me });
            }
            let user = User::from_uid(me).ok().flatten().ok_or(PostgresError::Nameless { uid })?;
            return Ok(Account { name: user.name, uid, gid: nix::unistd::getegid().as_raw(), lent: false });
        }
        let lendable: Vec<User> = LENT.iter().filter_map(|name| User::from_name(name).ok().flatten()).collect();
        let Some(uid) = owner.filter(|uid| *uid != 0) else {
            return lendable.first().map(Account::lent).ok_or(PostgresError::NoAccount);
        };
        // An existing cluster keeps its owner. Only one of ours, or the one whose whole data folder this is: a stranger
        // who put a `postgres` folder into a shared place must not get root to trust it.
        let keeper = std::fs::metadata(data_dir).ok().map(|found| found.uid());
        let known = lendable.iter().any(|user| user.uid.as_raw() == uid) || keeper == Some(uid);
        match User::from_uid(Uid::from_raw(uid)).ok().flatten() {
            Some(user) if known => Ok(Account::lent(&user)),
            _ => Err(PostgresError::Foreign { folder: home.to_owned(), owner: name_of(uid), me: "root".to_owned() }),
        }
    }

    fn lent(user: &User) -> Account {
        Account { name: user.name.clone(), uid: user.uid.as_raw(), gid: user.gid.as_raw(), lent: true }
    }

    /// Says which folder on the way to `data_dir` would stop this user, before anything is created.
    pub(super) fn check_reach(&self, data_dir: &Path) -> Result<(), PostgresError> {
        if !self.lent {
            return Ok(());
        }
        for folder in data_dir.ancestors().collect::<Vec<_>>().into_iter().rev() {
            let Ok(found) = std::fs::metadata(folder) else { break };
            let bit = match (found.uid() == self.uid, found.gid() == self.gid) {
                (true, _) => 0o100,
                (false, true) => 0o010,
                (false, false) => 0o001,
            };
            if found.mode() & bit == 0 {
                return Err(PostgresError::Blocked {
                    data_dir: data_dir.to_owned(),
                    folder: folder.to_owned(),
                    mode: found.mode() & 0o777,
                    account: self.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// Makes `command` run as this user. The standard library drops root's supplementary groups along with the uid.
    pub(super) fn apply(&self, command: &mut tokio::process::Command) {
        if self.lent {
            command.uid(self.uid).gid(self.gid);
        }
    }
}

/// `path` as an absolute path without links or dots, also where its last parts do not exist yet.
pub(super) fn settle(path: &Path) -> Result<PathBuf, PostgresError> {
    let absolute = std::path::absolute(path).map_err(|source| PostgresError::io("find", path, source))?;
    let Some((existing, real)) = absolute.ancestors().find_map(|part| Some((part, std::fs::canonicalize(part).ok()?)))
    else {
        return Ok(absolute);
    };
    let rest = absolute.strip_prefix(existing).unwrap_or(Path::new(""));
    Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

fn name_of(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => format!("uid {uid}"),
    }
}
