//! What each process claims of the owners' limits. A claim is enlarged only under a lock on the owner's row, after the
//! others' were read: so all processes together never claim more than there is. Judging is the caller's business.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::rows::millis;
use super::{Store, StoreError};
use crate::domain::ids::{InstanceId, OwnerId};
use crate::domain::limits::{Claim, Held, Spent, Window};

/// What a silent process holds counts this long: longer than until its attempts are unknown, and count as such (its
/// lease, a sweep and [`REPEAT`]). Every process says at least every [`REPEAT`] what it holds. What it has spent counts by
/// its slot.
const BELIEVED: Duration = Duration::from_secs(25);
pub const REPEAT: Duration = Duration::from_secs(5);
/// How long an exchange may take before the database counts as away.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long rows of processes that say nothing more are kept: longer than any slot counts.
const KEPT: Duration = Duration::from_secs(120);

// Not the lock that an insert of a job takes on its owner: the two do not wait for each other.
const LOCK_OWNERS: &str = "/* lock_owners */
SELECT id FROM owners WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE";

const READ_CLAIMS: &str = "/* read_claims */
SELECT owner_id, false AS unknown, spent::text AS spent,
       CASE WHEN updated_at > now() - $3 * interval '1 millisecond' THEN held_requests ELSE 0 END AS requests,
       CASE WHEN updated_at > now() - $3 * interval '1 millisecond' THEN held_jobs ELSE 0 END AS jobs,
       CASE WHEN updated_at > now() - $3 * interval '1 millisecond' THEN held_tokens ELSE 0 END AS tokens
FROM limit_usage WHERE owner_id = ANY($1) AND instance_id <> $2
UNION ALL
SELECT a.owner_id, true, '{}', 0, count(*), sum(j.reserved_tokens)::int8
FROM attempts a JOIN jobs j ON j.owner_id = a.owner_id AND j.id = a.job_id
WHERE a.owner_id = ANY($1) AND a.state = 'unknown' AND j.reserved_tokens IS NOT NULL
GROUP BY a.owner_id";

const WRITE_CLAIMS: &str = "/* write_claims */
INSERT INTO limit_usage (owner_id, instance_id, spent, held_requests, held_jobs, held_tokens)
SELECT owner_id, $2, spent::jsonb, requests, jobs, tokens
FROM unnest($1::uuid[], $3::text[], $4::int8[], $5::int8[], $6::int8[]) AS mine (owner_id, spent, requests, jobs, tokens)
ON CONFLICT ON CONSTRAINT limit_usage_pkey DO UPDATE SET spent = EXCLUDED.spent, held_requests = EXCLUDED.held_requests,
    held_jobs = EXCLUDED.held_jobs, held_tokens = EXCLUDED.held_tokens, updated_at = now()";

const FORGET_CLAIMS: &str = "/* forget_claims */
DELETE FROM limit_usage WHERE updated_at < now() - $1 * interval '1 millisecond'";

/// What the database knows of one owner, beside this process's own claim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Others {
    pub claims: Vec<Claim>,
    /// Jobs under limits whose outcome is unknown, whoever ran them.
    pub unknown: Held,
}

impl Store {
    /// Locks these owners, hands what the others claim to `decide`, and writes what it claims. While it decides nobody
    /// else can enlarge a claim; nothing counts before the commit.
    pub async fn exchange_claims<F>(&self, books: InstanceId, owners: &[OwnerId], decide: F) -> Result<(), StoreError>
    where
        F: FnOnce(&BTreeMap<OwnerId, Others>) -> Vec<(OwnerId, Claim)> + Send,
    {
        let exchange = async {
            let mut tx = self.pool.begin().await?;
            sqlx::query(LOCK_OWNERS).bind(owners).execute(&mut *tx).await?;
            // A second statement: it sees what was committed while the first waited.
            let read = sqlx::query(READ_CLAIMS).bind(owners).bind(books).bind(millis(BELIEVED));
            let others = read_others(&read.fetch_all(&mut *tx).await?)?;
            let mine = decide(&others);
            write_claims(&mut tx, books, &mine).await?;
            Ok(tx.commit().await?)
        };
        let late = || StoreError::Unavailable(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()));
        tokio::time::timeout(PATIENCE, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    /// Removes claims of processes that are gone and have spent nothing that still counts.
    pub async fn forget_claims(&self) -> Result<(), StoreError> {
        sqlx::query(FORGET_CLAIMS).bind(millis(KEPT)).execute(&self.pool).await?;
        Ok(())
    }
}

async fn write_claims(
    connection: &mut PgConnection,
    books: InstanceId,
    mine: &[(OwnerId, Claim)],
) -> Result<(), StoreError> {
    let owners: Vec<OwnerId> = mine.iter().map(|(owner, _)| *owner).collect();
    let spent: Vec<String> = mine.iter().map(|(_, claim)| spent_text(&claim.spent)).collect();
    let column = |of: fn(&Held) -> u64| mine.iter().map(|(_, claim)| signed(of(&claim.held))).collect::<Vec<i64>>();
    sqlx::query(WRITE_CLAIMS)
        .bind(owners)
        .bind(books)
        .bind(spent)
        .bind(column(|held| held.requests))
        .bind(column(|held| held.jobs))
        .bind(column(|held| held.tokens))
        .execute(connection)
        .await?;
    Ok(())
}

fn read_others(rows: &[PgRow]) -> Result<BTreeMap<OwnerId, Others>, sqlx::Error> {
    let mut others: BTreeMap<OwnerId, Others> = BTreeMap::new();
    for row in rows {
        let others = others.entry(row.try_get::<Uuid, _>("owner_id")?.into()).or_default();
        let count = |name: &str| Ok::<u64, sqlx::Error>(unsigned(row.try_get(name)?));
        let held = Held { requests: count("requests")?, jobs: count("jobs")?, tokens: count("tokens")? };
        if row.try_get("unknown")? {
            others.unknown = held;
        } else {
            others.claims.push(Claim { spent: read_spent(row.try_get("spent")?)?, held });
        }
    }
    Ok(others)
}

fn spent_text(window: &Window) -> String {
    let slots: BTreeMap<String, [u64; 2]> =
        window.slots().map(|(slot, spent)| (slot.to_string(), [spent.requests, spent.tokens])).collect();
    // Numbers by text: nothing that could not be written.
    serde_json::to_string(&slots).unwrap_or_else(|_| "{}".to_owned())
}

fn read_spent(text: &str) -> Result<Window, sqlx::Error> {
    let slots: BTreeMap<i64, [u64; 2]> = serde_json::from_str(text).map_err(|e| sqlx::Error::Decode(Box::new(e)))?;
    let mut window = Window::default();
    for (slot, [requests, tokens]) in slots {
        window.spend(slot, Spent { requests, tokens });
    }
    Ok(window)
}

/// Postgres has no unsigned numbers; nobody spends 2^63 tokens.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn unsigned(n: i64) -> u64 {
    u64::try_from(n).unwrap_or_default()
}
