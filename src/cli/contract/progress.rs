//! How far a run is: one line on standard error that is written over, for somebody who watches a terminal. Logs and
//! programs get nothing.

use std::io::{IsTerminal, Write};

use contracts::runner::Progress;

const WIDTH: usize = 24;

#[derive(Debug)]
pub struct Bar {
    shown: bool,
}

impl Bar {
    /// Shows nothing unless it is wanted and standard error is a terminal.
    pub fn on_stderr(wanted: bool) -> Bar {
        Bar { shown: wanted && std::io::stderr().is_terminal() }
    }

    pub fn show(&self, progress: &Progress<'_>) {
        if self.shown {
            write_over(&line(progress.done, progress.planned, &progress.call.to_string()));
        }
    }

    /// Takes the line away: the report comes next.
    pub fn clear(&self) {
        if self.shown {
            write_over("");
        }
    }
}

fn write_over(line: &str) {
    let mut stderr = std::io::stderr().lock();
    // A terminal that is gone is no reason to end a run.
    let _ = write!(stderr, "\r\u{1b}[K{line}");
    let _ = stderr.flush();
}

fn line(done: usize, planned: usize, call: &str) -> String {
    let full = (done * WIDTH).checked_div(planned).unwrap_or(0).min(WIDTH);
    let call: String = call.chars().take(40).collect();
    format!("[{}{}] {done}/{planned} {call}", "#".repeat(full), ".".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_full_as_the_run_is_far() {
        assert_eq!(line(0, 0, "x"), format!("[{}] 0/0 x", ".".repeat(24)));
        assert_eq!(line(5, 10, "one.output.1"), format!("[{}{}] 5/10 one.output.1", "#".repeat(12), ".".repeat(12)));
        assert!(line(12, 10, &"y".repeat(300)).len() < 90);
    }
}
