//! What a route may let fall where a target has no place for it.

use providers::dropping::{DROPPABLE, can_be_listed};

use super::{Checker, raw};

impl Checker {
    /// Names of members that steer how an answer is made; never of what is asked.
    pub(super) fn drop_unsupported(&mut self, name: &str, raw: &raw::Route) -> Vec<String> {
        for member in &raw.drop_unsupported {
            if !can_be_listed(member) {
                let what = format!(
                    "`{member}` cannot be left out without changing what is asked; only these can: {}",
                    DROPPABLE.join(", ")
                );
                self.problem(format!("routes.{name}.drop_unsupported"), what);
            }
        }
        raw.drop_unsupported.clone()
    }
}
