//! The files of one private Postgres, and who owns which.
//!
//! ```text
//! data_dir/postgres/         the server's user, 0700: the only thing that is ever given away
//!          postgres/data     the cluster           postgres/socket   where the server listens
//! data_dir/postgres.log      this program's user: the server writes through an inherited descriptor
//!          postgres.turn, postgres.users           the two locks
//!          postgres.socket   the short socket folder, where the path above is too long for a socket
//! ```
//! Root never follows a link that the server's user could have planted: what it writes lies beside the folder.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::PostgresError;
use super::account::Account;

/// The longest folder that still fits a socket's name into `sun_path` everywhere (macOS: 104 bytes with the NUL).
const LONGEST_SOCKET_FOLDER: usize = 104 - 1 - "/.s.PGSQL.5432.lock".len();

/// The log is set aside at the next start once it is this large, bytes.
const LOG_LIMIT: u64 = 16 << 20;

#[derive(Debug)]
pub(super) struct Place {
    pub(super) data_dir: PathBuf,
    pub(super) home: PathBuf,
    pub(super) account: Account,
}

impl Place {
    /// Creates what is missing of the folders; existing ones must belong to the server's user.
    pub(super) fn create(data_dir: &Path, account: Account) -> Result<Place, PostgresError> {
        let place = Place { data_dir: data_dir.to_owned(), home: home(data_dir), account };
        // Only what is created here gets its mode set. 0711: the server's user may pass, and see nothing.
        let mode = if place.account.lent { 0o711 } else { 0o700 };
        let missing: Vec<&Path> = data_dir.ancestors().take_while(|part| !part.exists()).collect();
        for part in missing.into_iter().rev() {
            make_folder(part, mode)?;
        }
        place.own(&place.home)?;
        Ok(place)
    }

    /// Makes `folder` a 0700 folder of the server's user.
    fn own(&self, folder: &Path) -> Result<(), PostgresError> {
        let fail = |doing| move |source: io::Error| PostgresError::io(doing, folder, source);
        if std::fs::symlink_metadata(folder).is_err() {
            make_folder(folder, 0o700)?;
        }
        let found = std::fs::symlink_metadata(folder).map_err(fail("read"))?;
        if !found.is_dir() {
            return Err(fail("use as a folder")(io::ErrorKind::NotADirectory.into()));
        }
        if self.account.lent && found.uid() == 0 {
            std::os::unix::fs::lchown(folder, Some(self.account.uid), Some(self.account.gid))
                .map_err(fail("hand over to the server's user"))?;
        } else if !self.account.lent && found.mode() & 0o077 != 0 {
            std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).map_err(fail("close to others"))?;
        }
        Ok(())
    }

    pub(super) fn cluster(&self) -> PathBuf {
        self.home.join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.data_dir.join("postgres.log")
    }

    pub(super) fn turn(&self) -> PathBuf {
        self.data_dir.join("postgres.turn")
    }

    pub(super) fn users(&self) -> PathBuf {
        self.data_dir.join("postgres.users")
    }

    fn socket_record(&self) -> PathBuf {
        self.data_dir.join("postgres.socket")
    }

    /// The folder for the server's socket. Its length is limited by the kernel, and a URL holds only UTF-8: where the
    /// natural one does not fit, a short one with an unguessable name, remembered in a file for the next start.
    pub(super) fn socket_folder(&self) -> Result<PathBuf, PostgresError> {
        let natural = self.home.join("socket");
        if natural.to_str().is_some_and(|path| path.len() <= LONGEST_SOCKET_FOLDER) {
            self.own(&natural)?;
            return Ok(natural);
        }
        if let Some(known) = self.remembered_socket_folder() {
            return Ok(known);
        }
        let short = PathBuf::from(format!("/tmp/interlock-{:016x}", rand::random::<u64>()));
        self.own(&short)?;
        let record = self.socket_record();
        let write = |source| PostgresError::io("write", &record, source);
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
        io::Write::write_all(&mut file.open(&record).map_err(write)?, short.as_os_str().as_encoded_bytes())
            .map_err(write)?;
        Ok(short)
    }

    /// The short folder of an earlier start, if it is still the server's user's own: /tmp is emptied now and then, and
    /// anybody can make a folder there.
    fn remembered_socket_folder(&self) -> Option<PathBuf> {
        let known = PathBuf::from(std::fs::read_to_string(self.socket_record()).ok()?);
        let found = std::fs::symlink_metadata(&known).ok()?;
        (found.is_dir() && found.uid() == self.account.uid && found.mode() & 0o077 == 0).then_some(known)
    }

    /// Takes the short socket folder away again; the server has removed its socket by then.
    pub(super) fn forget_socket_folder(&self) {
        if let Some(known) = self.remembered_socket_folder() {
            let _ = std::fs::remove_dir(known);
            let _ = std::fs::remove_file(self.socket_record());
        }
    }

    /// The log, open for appending, and its length now: what a failed start says is what stands after that.
    pub(super) fn open_log(&self) -> Result<(std::fs::File, u64), PostgresError> {
        let path = self.log();
        let fail = |source| PostgresError::io("write", &path, source);
        if std::fs::metadata(&path).is_ok_and(|found| found.len() > LOG_LIMIT) {
            std::fs::rename(&path, self.data_dir.join("postgres.log.old")).map_err(fail)?;
        }
        let mut options = std::fs::OpenOptions::new();
        let options = options.append(true).create(true).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
        let file = options.open(&path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        Ok((file, length))
    }

    /// The last lines of the log from byte `since` on.
    pub(super) fn log_tail(&self, since: u64) -> String {
        const LINES: usize = 12;
        let text = std::fs::read(self.log()).unwrap_or_default();
        let from = usize::try_from(since).unwrap_or(usize::MAX).min(text.len());
        let text = String::from_utf8_lossy(&text[from..]);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

/// The server's own folder under `data_dir`.
pub(super) fn home(data_dir: &Path) -> PathBuf {
    data_dir.join("postgres")
}

/// Creates one folder with exactly this mode, whatever the umask says.
fn make_folder(folder: &Path, mode: u32) -> Result<(), PostgresError> {
    let fail = |source| PostgresError::io("create", folder, source);
    match std::fs::DirBuilder::new().mode(mode).create(folder) {
        Err(made) if made.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(fail(source)),
        Ok(()) => std::fs::set_permissions(folder, PermissionsExt::from_mode(mode)).map_err(fail),
    }
}
