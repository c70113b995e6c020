//! Who is at work on which job in this process, and how those who wait find them.
//!
//! One lock covers coming and going: nobody joins a task that has just left, and no task leaves with a command unread.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};

use super::progress::Progress;
use crate::domain::ids::JobId;

/// The jobs that have a task in this process.
#[derive(Debug, Default)]
pub struct Registry {
    jobs: Mutex<HashMap<JobId, Seat>>,
}

#[derive(Debug)]
struct Seat {
    progress: watch::Sender<Progress>,
    commands: mpsc::UnboundedSender<Command>,
}

/// What a task is told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Somebody asked for the job again after its round was over.
    FreshCall,
    /// Something about the job has changed in the database.
    Look,
}

/// The task's own end of its seat.
#[derive(Debug)]
pub struct Entry {
    pub progress: watch::Sender<Progress>,
    pub commands: mpsc::UnboundedReceiver<Command>,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Seat>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Jobs that have a task here.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Whether the job has a task here that has not come to the end of a round.
    pub fn is_at_work(&self, id: JobId) -> bool {
        self.lock().get(&id).is_some_and(|seat| !matches!(*seat.progress.borrow(), Progress::RoundOver(_)))
    }

    /// A seat for a job that has none.
    pub fn enter(&self, id: JobId) -> (Entry, watch::Receiver<Progress>) {
        seat(&mut self.lock(), id)
    }

    /// Joins the job's task, or makes a seat for one. A fresh call wakes a task whose round is over.
    pub fn join(
        &self,
        id: JobId,
        fresh_call: bool,
    ) -> Result<watch::Receiver<Progress>, (Entry, watch::Receiver<Progress>)> {
        let mut jobs = self.lock();
        let Some(there) = jobs.get(&id) else { return Err(seat(&mut jobs, id)) };
        let receiver = there.progress.subscribe();
        let paused = matches!(*there.progress.borrow(), Progress::RoundOver(_) | Progress::Unknown { .. });
        if fresh_call && paused {
            if matches!(*there.progress.borrow(), Progress::RoundOver(_)) {
                there.progress.send_replace(Progress::Running);
            }
            if there.commands.send(Command::FreshCall).is_err() {
                return Err(seat(&mut jobs, id));
            }
        }
        Ok(receiver)
    }

    /// Tells the job's task, if there is one, to look at the database.
    pub fn nudge(&self, id: JobId) -> bool {
        self.lock().get(&id).is_some_and(|seat| seat.commands.send(Command::Look).is_ok())
    }

    pub fn forget(&self, id: JobId) {
        self.lock().remove(&id);
    }

    /// The task leaves, unless a command has come in meanwhile, or somebody waits for more than its last word.
    pub fn retire(&self, id: JobId, entry: &mut Entry) -> Result<(), Option<Command>> {
        let mut jobs = self.lock();
        if let Ok(command) = entry.commands.try_recv() {
            return Err(Some(command));
        }
        let last_word = matches!(*entry.progress.borrow(), Progress::RoundOver(_));
        if !last_word && entry.progress.receiver_count() > 0 {
            return Err(None);
        }
        jobs.remove(&id);
        Ok(())
    }
}

fn seat(jobs: &mut HashMap<JobId, Seat>, id: JobId) -> (Entry, watch::Receiver<Progress>) {
    let progress = watch::Sender::new(Progress::Running);
    let receiver = progress.subscribe();
    let (commands, commands_in) = mpsc::unbounded_channel();
    jobs.insert(id, Seat { progress: progress.clone(), commands });
    (Entry { progress, commands: commands_in }, receiver)
}
