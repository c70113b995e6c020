//! The real `interlock` binary as a user starts it: a folder of its own, an environment of its own, exit status and
//! both outputs kept.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A working folder with an `interlock.toml` in it, and the environment that goes with it.
pub struct Workplace {
    pub folder: TempDir,
    environment: Vec<(String, String)>,
}

/// What a command came to.
#[derive(Debug)]
pub struct Ran {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Workplace {
    pub fn new(settings: &str) -> Workplace {
        let folder = tempfile::Builder::new().prefix("ilk").permissions(Permissions::from_mode(0o755)).tempdir();
        let folder = folder.expect("a folder");
        let workplace = Workplace { folder, environment: Vec::new() };
        workplace.write("interlock.toml", settings);
        workplace
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    pub fn with(mut self, name: &str, value: &str) -> Workplace {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The command, ready to be started. Nothing of the tests' own environment reaches it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_interlock"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("USER", "tester").env("INTERLOCK_LOG", "warn");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.path()).args(arguments).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(arguments).output().expect("the binary runs"))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// Asserts the exit status.
    #[track_caller]
    pub fn expect(self, status: i32) -> Ran {
        assert_eq!(self.status, Some(status), "exit status\n{}\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// What the command printed for programs.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON ({e}): {}\n{}", self.stdout, self.stderr))
    }

    /// Asserts that the message names the thing and the cure.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Ran {
        for word in words {
            assert!(
                self.stderr.contains(word) || self.stdout.contains(word),
                "`{word}` is not said\n{}\n{}",
                self.stdout,
                self.stderr
            );
        }
        self
    }
}
