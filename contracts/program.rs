//! The consumer's own program: fed the output on stdin, exit 0 = understood.
//!
//! Time-limited and killed when the time is over; it inherits no environment (no keys) but a plain PATH, and of what it
//! writes only a bounded piece is kept. It never blocks the run for longer than its limit.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use crate::check::excerpt_of_end;

const KEPT_BYTES: u64 = 16 * 1024;

/// Runs `argv` with `input` on stdin. `Err` says in words what went wrong.
pub(crate) async fn understands(
    argv: &[String],
    folder: Option<&Path>,
    input: &str,
    limit: Duration,
) -> Result<(), String> {
    let Some((name, arguments)) = argv.split_first() else {
        return Err("program = [] names no program".to_owned());
    };
    let mut command = Command::new(resolve(name, folder));
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let mut child = command.spawn().map_err(|e| format!("program {name} could not be started: {e}"))?;
    match tokio::time::timeout(limit, feed(&mut child, input)).await {
        Ok(Ok((status, _))) if status.success() => Ok(()),
        Ok(Ok((status, stderr))) => {
            Err(format!("program {name} did not understand it ({status}): {}", last_words(&stderr)))
        }
        Ok(Err(e)) => Err(format!("program {name}: {e}")),
        Err(_) => {
            kill(&mut child).await;
            Err(format!("program {name} was killed after {} s without an answer", limit.as_secs_f32()))
        }
    }
}

/// What it wrote to standard error, or the end of it: that is where most programs say why.
fn last_words(stderr: &str) -> String {
    match stderr.trim() {
        "" => "it said nothing on standard error".to_owned(),
        said => excerpt_of_end(said),
    }
}

/// Kills the program and whatever it started: it leads a process group of its own.
async fn kill(child: &mut Child) {
    if let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.kill().await;
}

/// A name with a slash, or a file of the suite's folder, is taken from that folder; else PATH is searched.
fn resolve(name: &str, folder: Option<&Path>) -> std::path::PathBuf {
    match folder.map(|f| f.join(name)) {
        Some(path) if path.is_file() => path,
        _ => name.into(),
    }
}

async fn feed(child: &mut Child, input: &str) -> std::io::Result<(std::process::ExitStatus, String)> {
    let stdin = child.stdin.take();
    let stderr = child.stderr.take();
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program that decides without reading everything closes the pipe: its exit code is the answer.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let read = async {
        let mut kept = Vec::new();
        if let Some(stderr) = stderr {
            let mut limited = stderr.take(KEPT_BYTES);
            let _ = limited.read_to_end(&mut kept).await;
            let _ = tokio::io::copy(&mut limited.into_inner(), &mut tokio::io::sink()).await;
        }
        kept
    };
    let ((), kept, status) = tokio::join!(write, read, child.wait());
    Ok((status?, String::from_utf8_lossy(&kept).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    fn argv(script: &str) -> Vec<String> {
        vec!["sh".into(), "-c".into(), script.into()]
    }

    async fn run(script: &str) -> Result<(), String> {
        understands(&argv(script), None, "{\"a\":1}", Duration::from_millis(1_500)).await
    }

    #[tokio::test]
    async fn a_program_that_exits_zero_has_understood() {
        run("grep -q a").await.unwrap();
    }

    #[tokio::test]
    async fn a_program_that_exits_otherwise_is_quoted() {
        let error = run("echo no such category >&2; exit 3").await.unwrap_err();
        assert!(error.contains("exit status: 3") && error.contains("no such category"), "{error}");
    }

    #[tokio::test]
    async fn of_a_long_complaint_the_end_is_kept_and_silence_is_told() {
        let script = "i=0; while [ $i -lt 50 ]; do echo \"  File line $i\" >&2; i=$((i+1)); done; echo KeyError: total >&2; exit 1";
        let error = run(script).await.unwrap_err();
        assert!(error.ends_with("KeyError: total”") && error.chars().count() < check::DETAIL_LIMIT - 60, "{error}");
        let silent = run("exit 1").await.unwrap_err();
        assert!(silent.ends_with("it said nothing on standard error"), "{silent}");
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_killed() {
        let error = run("exec sleep 60").await.unwrap_err();
        assert!(error.contains("killed after 1.5 s"), "{error}");
    }

    #[tokio::test]
    async fn what_a_hanging_program_started_is_killed_too() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let error = run(&format!("sleep 60 & echo $! > {}; wait", pid.display())).await.unwrap_err();
        assert!(error.contains("killed after"), "{error}");
        let stat = format!("/proc/{}/stat", std::fs::read_to_string(pid).unwrap().trim());
        let alive = || std::fs::read_to_string(&stat).is_ok_and(|s| !s.contains(") Z"));
        for _ in 0..100 {
            if !alive() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the child of a killed program lives on");
    }

    #[tokio::test]
    async fn a_program_that_does_not_read_is_not_an_error() {
        let input = "x".repeat(1 << 20);
        understands(&argv("exit 0"), None, &input, Duration::from_secs(5)).await.unwrap();
    }

    #[tokio::test]
    async fn a_program_sees_no_environment() {
        run("test -z \"$HOME$CARGO_MANIFEST_DIR\"").await.unwrap();
    }
}
