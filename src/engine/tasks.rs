//! The one place that spawns: every task is counted and named, and a call's end is always told.

use std::future::Future;

use tokio::sync::watch;

/// Counts what runs, so that a shutdown knows what it waits for.
#[derive(Debug)]
pub struct Tasks {
    calls: watch::Sender<usize>,
}

impl Default for Tasks {
    fn default() -> Self {
        Tasks { calls: watch::Sender::new(0) }
    }
}

/// One call under way; it ends when this is dropped, whatever happens to its task.
#[derive(Debug)]
pub struct CallGuard {
    calls: watch::Sender<usize>,
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.calls.send_modify(|n| *n = n.saturating_sub(1));
    }
}

impl Tasks {
    pub fn begin_call(&self) -> CallGuard {
        self.calls.send_modify(|n| *n += 1);
        CallGuard { calls: self.calls.clone() }
    }

    /// Calls that somebody still waits for.
    pub fn calls(&self) -> usize {
        *self.calls.borrow()
    }

    pub async fn calls_ended(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.calls.subscribe().wait_for(|n| *n == 0).await;
    }
}

/// Spawns a task of its own: a client that hangs up cancels nothing.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub fn spawn<F>(task: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(task);
}
