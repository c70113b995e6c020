//! API keys from memory: a key in use costs no round trip, and a revoked one is refused within [`OLDEST`] everywhere.
//!
//! What was read of a key counts from the moment *before* it was asked for. After a while the next to present it has it
//! read again, and waits for nothing; older than [`OLDEST`], nobody relies on it. Unknown keys are never remembered.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{Engine, EngineError, tasks};
use crate::domain::overload::Write;
use crate::store::StoreError;
use crate::store::keys::ApiKeyRow;

/// After this a key in use is read again.
const REFRESH: Duration = Duration::from_secs(2);
/// Before it is asked for once more, where the database has not answered.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// A revoked key is refused within this time on every instance.
pub const OLDEST: Duration = Duration::from_secs(4);
/// Keys in memory.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub struct Keys {
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    row: ApiKeyRow,
    read_at: Instant,
    asked_at: Instant,
}

/// What is remembered of a key.
#[derive(Debug)]
enum Memory {
    Fresh(ApiKeyRow),
    /// Good enough for now, and to be read again by whoever was told so.
    Ageing(ApiKeyRow),
    Nothing,
}

impl Keys {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        // Plain data: a panic elsewhere cannot have left it half changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recall(&self, public_id: &str, now: Instant) -> Memory {
        let mut known = self.lock();
        let Some(key) = known.get_mut(public_id) else { return Memory::Nothing };
        let age = now.duration_since(key.read_at);
        if age >= OLDEST {
            return Memory::Nothing;
        }
        if age < REFRESH || now.duration_since(key.asked_at) < ASK_AGAIN {
            return Memory::Fresh(key.row.clone());
        }
        key.asked_at = now;
        Memory::Ageing(key.row.clone())
    }

    /// `asked_at`: before the database was asked.
    fn learn(&self, public_id: &str, row: Option<&ApiKeyRow>, asked_at: Instant) {
        let mut known = self.lock();
        let Some(row) = row.filter(|row| !row.revoked) else {
            known.remove(public_id);
            return;
        };
        if known.get(public_id).is_some_and(|there| there.read_at > asked_at) {
            return;
        }
        if known.len() >= MOST && !known.contains_key(public_id) {
            known.retain(|_, key| asked_at.saturating_duration_since(key.read_at) < OLDEST);
            if known.len() >= MOST {
                known.clear();
            }
        }
        known.insert(public_id.to_owned(), Known { row: row.clone(), read_at: asked_at, asked_at });
    }
}

impl Engine {
    /// The key with this public part, as it stood at most [`OLDEST`] ago. One that is not in memory takes a place at the
    /// door while it is read.
    pub async fn find_key(&self, public_id: &str) -> Result<Option<ApiKeyRow>, EngineError> {
        match self.inner.keys.recall(public_id, Instant::now()) {
            Memory::Fresh(row) => Ok(Some(row)),
            Memory::Ageing(row) => {
                let (engine, public_id) = (self.clone(), public_id.to_owned());
                tasks::spawn(async move {
                    if let Err(error) = engine.read_key(&public_id).await {
                        tracing::debug!(%error, "a key in use could not be read again");
                    }
                });
                Ok(Some(row))
            }
            Memory::Nothing => {
                let _entering = self.inner.gate.enter()?;
                Ok(self.read_key(public_id).await?)
            }
        }
    }

    async fn read_key(&self, public_id: &str) -> Result<Option<ApiKeyRow>, StoreError> {
        let asked_at = Instant::now();
        let row = self.inner.gate.timed(Write::LookUp, self.store().find_key(public_id)).await?;
        self.inner.keys.learn(public_id, row.as_ref(), asked_at);
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{ApiKeyId, OwnerId};

    fn row(revoked: bool) -> ApiKeyRow {
        let (id, owner) = (ApiKeyId::fresh(), OwnerId::fresh());
        let owner_name = "acme".to_owned();
        ApiKeyRow { id, owner, owner_name, secret_sha256: [7; 32], idempotency: None, revoked }
    }

    #[test]
    fn a_key_is_relied_on_for_a_while_and_read_again_by_one_in_the_meantime() {
        let (keys, start) = (Keys::default(), Instant::now());
        let recall = |after| keys.recall("a", start + after);
        assert!(matches!(recall(Duration::ZERO), Memory::Nothing));
        keys.learn("a", Some(&row(false)), start);
        assert!(matches!(recall(Duration::ZERO), Memory::Fresh(_)));
        assert!(matches!(recall(REFRESH), Memory::Ageing(_)));
        assert!(matches!(recall(REFRESH), Memory::Fresh(_)), "one asks, the others go on");
        assert!(matches!(recall(REFRESH + ASK_AGAIN), Memory::Ageing(_)), "the first was not answered");
        assert!(matches!(recall(OLDEST), Memory::Nothing));
        keys.learn("a", Some(&row(false)), start + REFRESH);
        keys.learn("a", Some(&row(false)), start);
        assert!(matches!(recall(OLDEST), Memory::Ageing(_)), "an answer overtaken by a newer one changes nothing");
    }

    #[test]
    fn a_revoked_or_unknown_key_is_not_remembered_and_what_is_remembered_is_bounded() {
        let (keys, start) = (Keys::default(), Instant::now());
        for gone in [Some(row(true)), None] {
            keys.learn("a", Some(&row(false)), start);
            keys.learn("a", gone.as_ref(), start);
            assert!(matches!(keys.recall("a", start), Memory::Nothing));
        }
        for n in 0..=MOST {
            keys.learn(&n.to_string(), Some(&row(false)), start);
        }
        assert!(keys.lock().len() <= MOST);
    }
}
