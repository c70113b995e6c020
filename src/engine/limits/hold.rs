//! Room that one job has within its owner's limits. It is given back when this is dropped, whatever happens to the job's
//! task.

use std::fmt;
use std::sync::Arc;

use super::books::Books;
use crate::domain::ids::OwnerId;

/// A job's place and its tokens.
pub struct Hold {
    books: Arc<Books>,
    owner: OwnerId,
    tokens: u64,
    /// What its attempts have used so far.
    used: u64,
    /// Its request is not spent yet.
    entering: bool,
    parked: bool,
}

impl Hold {
    pub(super) fn entering(books: &Arc<Books>, owner: OwnerId, tokens: u64) -> Hold {
        let mut hold = Hold::running(books, owner, tokens);
        hold.entering = true;
        hold
    }

    pub(super) fn running(books: &Arc<Books>, owner: OwnerId, tokens: u64) -> Hold {
        Hold { books: Arc::clone(books), owner, tokens, used: 0, entering: false, parked: false }
    }

    /// The job is new, or a new round of it begins: its request counts.
    pub fn admitted(&mut self) {
        if std::mem::take(&mut self.entering) {
            self.books.with(self.owner, |ledger, now| ledger.admitted(now));
        }
    }

    /// What is set aside.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    pub fn add_used(&mut self, tokens: u64) {
        self.used = self.used.saturating_add(tokens);
    }

    /// The job's outcome is unknown, as the database has it: its place and its tokens stay taken there, until its outcome
    /// is known.
    pub fn park(mut self) {
        self.parked = true;
        let (tokens, used) = (self.tokens, self.used);
        self.books.with(self.owner, |ledger, now| {
            ledger.park(tokens);
            ledger.spend_tokens(used, now);
        });
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.parked {
            return;
        }
        self.books.with(self.owner, |ledger, now| {
            if self.entering {
                ledger.not_admitted();
            }
            ledger.end(self.tokens, self.used, now);
        });
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hold({}, {} of {} tokens)", self.owner, self.used, self.tokens)
    }
}
