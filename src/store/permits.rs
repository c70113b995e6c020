//! Permits: granted over a passed run, ended once by somebody or something, never changed otherwise.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::rows::{millis, unknown_word};
use super::{Store, StoreError, retrying};
use crate::domain::Timestamp;
use crate::domain::ids::{PermitId, RunId};
use crate::domain::permit::{EndCause, Permit, PermitFacts, RecheckState, Revoked};
use crate::domain::route::{Evidence, Target};

/// A permit as listed: with what its scheduled re-run has come to.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedPermit {
    pub permit: Permit,
    pub recheck: RecheckState,
    /// The permit that this one stands in the place of.
    pub renews: Option<PermitId>,
    pub read_at: Timestamp,
}

// The foreign key checks that the run exists and has passed; copying the run's own columns is what makes it match. A
// target that has drifted since the run began needs a newer one.
const GRANT: &str = "/* grant_permit */
WITH permit AS (
    INSERT INTO permits (id, route, run_id, run_verdict, mode, suite, suite_digest, provider, model, adapter_version,
                         settings_digest, granted_by, reason, expires_at)
    SELECT $1, $2, r.id, r.verdict, r.mode, r.suite, r.suite_digest, r.provider, r.model, r.adapter_version,
           r.settings_digest, $4, $5, now() + $6 * interval '1 millisecond'
    FROM contract_runs r WHERE r.id = $3 AND NOT EXISTS (
        SELECT 1 FROM contract_circuits c WHERE c.route = $2 AND c.provider = r.provider AND c.model = r.model
           AND c.suite = r.suite AND c.opened_at >= r.started_at) RETURNING id
)
INSERT INTO operator_actions (id, actor, action, subject, reason) SELECT $7, $4, 'permit.grant', id, $5 FROM permit";

const END: &str = "/* end_permit */
WITH permit AS (
    UPDATE permits SET revoked_at = now(), revoked_by = $2, revoke_reason = $3, ended_cause = $5
    WHERE id = $1 AND revoked_at IS NULL RETURNING id
)
INSERT INTO operator_actions (id, actor, action, subject, reason)
SELECT $4, $2, CASE $5 WHEN 'operator' THEN 'permit.revoke' ELSE 'permit.end' END, id, $3 FROM permit";

const PERMITS: &str = "/* permits */
SELECT id, route, run_id, mode, suite, suite_digest, provider, model, adapter_version, settings_digest, granted_by,
       reason, granted_at, expires_at, revoked_at, revoked_by, revoke_reason, ended_cause
FROM permits WHERE $1::text IS NULL OR route = $1 ORDER BY granted_at DESC LIMIT 500";

const LISTED: &str = "/* listed_permits */
SELECT p.id, p.route, p.run_id, p.mode, p.suite, p.suite_digest, p.provider, p.model, p.adapter_version,
       p.settings_digest, p.granted_by, p.reason, p.granted_at, p.expires_at, p.revoked_at, p.revoked_by,
       p.revoke_reason, p.ended_cause, p.renews, r.started_at AS evidence_at, c.tries, c.last_error, c.next_at,
       CASE WHEN i.lease_until > now() THEN c.claimed_at END AS running_since, now() AS read_at
FROM permits p JOIN contract_runs r ON r.id = p.run_id
LEFT JOIN rechecks c ON c.permit_id = p.id LEFT JOIN instances i ON i.id = c.claimed_by
WHERE ($1::text IS NULL OR p.route = $1) AND ($2::uuid IS NULL OR p.id = $2)
  AND (NOT $3 OR p.revoked_at IS NULL AND p.expires_at > now())
ORDER BY p.granted_at DESC LIMIT 500";

const NOW: &str = "/* database_time */ SELECT now()";

impl Store {
    /// Grants a permit over a run. A run that has not passed is refused by the database
    /// ([`StoreError::Refused`] with `permits_run_has_passed`); no such run, or one from before the target's live
    /// answers broke the contract: `false`.
    pub async fn grant_permit(
        &self,
        id: PermitId,
        route: &str,
        run: RunId,
        actor: &str,
        reason: &str,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query(GRANT)
            .bind(id)
            .bind(route)
            .bind(run)
            .bind(actor)
            .bind(reason)
            .bind(millis(ttl))
            .bind(Uuid::now_v7())
            .execute(&self.pool)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    /// False: there is no such live permit.
    pub async fn revoke_permit(&self, id: PermitId, actor: &str, reason: &str) -> Result<bool, StoreError> {
        self.end_permit(id, EndCause::Operator, actor, reason).await
    }

    /// Ends a permit for good, with the reason that people will read. False: there is no such live permit.
    pub async fn end_permit(
        &self,
        id: PermitId,
        cause: EndCause,
        actor: &str,
        reason: &str,
    ) -> Result<bool, StoreError> {
        let end = sqlx::query(END).bind(id).bind(actor).bind(reason).bind(Uuid::now_v7()).bind(cause.as_str());
        Ok(end.execute(&self.pool).await?.rows_affected() == 1)
    }

    /// Every permit of a route, or of all, newest first.
    pub async fn permits(&self, route: Option<&str>) -> Result<Vec<Permit>, StoreError> {
        let rows = retrying(|| sqlx::query(PERMITS).bind(route).fetch_all(&self.pool)).await?;
        Ok(rows.iter().map(permit).collect::<Result<_, _>>()?)
    }

    /// Like [`Store::permits`], with what people want to know besides.
    pub async fn listed_permits(&self, route: Option<&str>) -> Result<Vec<ListedPermit>, StoreError> {
        self.list(route, None, false).await
    }

    pub async fn listed_permit(&self, id: PermitId) -> Result<Option<ListedPermit>, StoreError> {
        Ok(self.list(None, Some(id), false).await?.pop())
    }

    /// The permits that nobody has ended and whose time is not over.
    pub async fn live_permits(&self) -> Result<Vec<ListedPermit>, StoreError> {
        self.list(None, None, true).await
    }

    async fn list(
        &self,
        route: Option<&str>,
        id: Option<PermitId>,
        live: bool,
    ) -> Result<Vec<ListedPermit>, StoreError> {
        let list = || sqlx::query(LISTED).bind(route).bind(id).bind(live).fetch_all(&self.pool);
        Ok(retrying(list).await?.iter().map(listed).collect::<Result<_, _>>()?)
    }

    /// The database's time, by which permits and runs are dated.
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        retrying(|| sqlx::query_scalar(NOW).fetch_one(&self.pool)).await
    }
}

fn listed(row: &PgRow) -> Result<ListedPermit, sqlx::Error> {
    Ok(ListedPermit {
        permit: permit(row)?,
        recheck: RecheckState {
            evidence_at: row.try_get("evidence_at")?,
            tries: row.try_get::<Option<i32>, _>("tries")?.unwrap_or_default(),
            running_since: row.try_get("running_since")?,
            last_error: row.try_get("last_error")?,
            next_at: row.try_get("next_at")?,
        },
        renews: row.try_get("renews")?,
        read_at: row.try_get("read_at")?,
    })
}

fn permit(row: &PgRow) -> Result<Permit, sqlx::Error> {
    let revoked = match row.try_get("revoked_at")? {
        None => None,
        Some(at) => Some(Revoked {
            at,
            by: row.try_get("revoked_by")?,
            reason: row.try_get("revoke_reason")?,
            cause: match row.try_get::<Option<&str>, _>("ended_cause")? {
                // A binary from before there were causes: only people revoked then.
                None => EndCause::Operator,
                Some(word) => EndCause::from_word(word).ok_or_else(|| unknown_word("permits.ended_cause", word))?,
            },
        }),
    };
    let facts = PermitFacts {
        route: row.try_get("route")?,
        run: row.try_get::<RunId, _>("run_id")?,
        mode: match row.try_get("mode")? {
            "live" => Evidence::Live,
            "replay" => Evidence::Replay,
            other => return Err(unknown_word("permits.mode", other)),
        },
        suite: row.try_get("suite")?,
        suite_digest: row.try_get("suite_digest")?,
        target: Target { provider: row.try_get("provider")?, model: row.try_get("model")? },
        adapter_version: row.try_get("adapter_version")?,
        settings_digest: row.try_get("settings_digest")?,
        granted_by: row.try_get("granted_by")?,
        reason: row.try_get("reason")?,
        granted_at: row.try_get("granted_at")?,
        expires_at: row.try_get("expires_at")?,
        revoked,
    };
    Ok(Permit::from_row(row.try_get("id")?, facts))
}
