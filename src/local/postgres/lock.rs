//! The two lock files beside the cluster: whose turn it is to start or stop the server, and who uses it.
//!
//! Both are `flock`s, so the kernel lets go of them when a process is killed. The use lock only ever changes under
//! the turn: that is why letting go of a shared lock to take the exclusive one, which is not atomic, cannot go wrong.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::PostgresError;

/// How often a held lock is asked for again.
const POLL: Duration = Duration::from_millis(20);

/// The right to start or stop the server, held by one process at a time.
#[derive(Debug)]
pub(super) struct Turn(File);

impl Turn {
    /// Waits for the turn, at most `limit`.
    pub(super) async fn take(path: &Path, limit: Duration) -> Result<Turn, PostgresError> {
        let until = Instant::now() + limit;
        loop {
            if let Some(turn) = Turn::try_take(path)? {
                return Ok(turn);
            }
            if Instant::now() >= until {
                return Err(PostgresError::Busy { lock: path.to_owned(), waited: limit });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// As [`Turn::take`], for `Drop`, where nothing can be awaited.
    pub(super) fn take_blocking(path: &Path, limit: Duration) -> Result<Turn, PostgresError> {
        let until = Instant::now() + limit;
        loop {
            if let Some(turn) = Turn::try_take(path)? {
                return Ok(turn);
            }
            if Instant::now() >= until {
                return Err(PostgresError::Busy { lock: path.to_owned(), waited: limit });
            }
            std::thread::sleep(POLL);
        }
    }

    fn try_take(path: &Path) -> Result<Option<Turn>, PostgresError> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Turn(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(PostgresError::io("lock", path, source)),
        }
    }
}

impl Drop for Turn {
    /// Explicit, because a child that another thread is just forking holds a copy of the descriptor until it execs.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// The sign that this handle uses the server.
#[derive(Debug)]
pub(super) struct InUse(File);

impl InUse {
    /// Joins the users. Needs the turn.
    pub(super) fn join(path: &Path, _turn: &Turn) -> Result<InUse, PostgresError> {
        let file = open(path)?;
        match file.try_lock_shared() {
            Ok(()) => Ok(InUse(file)),
            Err(TryLockError::WouldBlock) => Err(PostgresError::Busy { lock: path.to_owned(), waited: Duration::ZERO }),
            Err(TryLockError::Error(source)) => Err(PostgresError::io("lock", path, source)),
        }
    }

    /// Leaves the users; true when nobody else is left, who then may stop the server. Needs the turn.
    pub(super) fn leave(self, _turn: &Turn) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(source)) => Err(source),
        }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

fn open(path: &Path) -> Result<File, PostgresError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(path)
        .map_err(|source| PostgresError::io("open the lock file", path, source))
}
