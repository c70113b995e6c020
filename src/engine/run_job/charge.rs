//! What an attempt used is charged to its owner's limits.

use super::Runner;
use crate::engine::call::News;

impl Runner {
    /// What an attempt used counts, whether it wins or not; a whole answer that does not say, as was set aside.
    pub(super) fn charge(&mut self, news: &News) {
        let Some(reserved) = self.reserved_tokens else { return };
        let used = match news {
            News::Ended(Ok(outcome)) => outcome.answer.reply.usage.map_or(reserved, |usage| usage.total()),
            News::Ended(Err(failure)) => failure.usage.map_or(0, |usage| usage.total()),
            News::Silent { .. } | News::Content(_) | News::GaveUp | News::CalledOff { .. } => 0,
        };
        match &mut self.hold {
            Some(hold) => hold.add_used(used),
            None if used > 0 => self.engine.inner.limits.spend(self.owner, used),
            None => {}
        }
    }
}
