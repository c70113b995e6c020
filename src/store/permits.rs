//! Permits: granted over a passed run, revoked by somebody, never changed otherwise.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::rows::{millis, unknown_word};
use super::{Store, StoreError, retrying};
use crate::domain::ids::{PermitId, RunId};
use crate::domain::permit::{Permit, PermitFacts, Revoked};
use crate::domain::route::{Evidence, Target};

// The foreign key checks that the run exists and has passed; copying the run's own columns is what makes it match.
const GRANT: &str = "/* grant_permit */
WITH permit AS (
    INSERT INTO permits (id, route, run_id, run_verdict, mode, suite, suite_digest, provider, model, adapter_version,
                         settings_digest, granted_by, reason, expires_at)
    SELECT $1, $2, r.id, r.verdict, r.mode, r.suite, r.suite_digest, r.provider, r.model, r.adapter_version,
           r.settings_digest, $4, $5, now() + $6 * interval '1 millisecond'
    FROM contract_runs r WHERE r.id = $3 RETURNING id
)
INSERT INTO operator_actions (id, actor, action, subject, reason) SELECT $7, $4, 'permit.grant', id, $5 FROM permit";

const REVOKE: &str = "/* revoke_permit */
WITH permit AS (
    UPDATE permits SET revoked_at = now(), revoked_by = $2, revoke_reason = $3
    WHERE id = $1 AND revoked_at IS NULL RETURNING id
)
INSERT INTO operator_actions (id, actor, action, subject, reason) SELECT $4, $2, 'permit.revoke', id, $3 FROM permit";

const PERMITS: &str = "/* permits */
SELECT id, route, run_id, mode, suite, suite_digest, provider, model, adapter_version, settings_digest, granted_by,
       reason, granted_at, expires_at, revoked_at, revoked_by, revoke_reason
FROM permits WHERE $1::text IS NULL OR route = $1 ORDER BY granted_at DESC LIMIT 500";

impl Store {
    /// Grants a permit over a run. A run that has not passed is refused by the database
    /// ([`StoreError::Refused`] with `permits_run_has_passed`); no such run: `false`.
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
        let done =
            sqlx::query(REVOKE).bind(id).bind(actor).bind(reason).bind(Uuid::now_v7()).execute(&self.pool).await?;
        Ok(done.rows_affected() == 1)
    }

    /// Every permit of a route, or of all, newest first.
    pub async fn permits(&self, route: Option<&str>) -> Result<Vec<Permit>, StoreError> {
        let rows = retrying(|| sqlx::query(PERMITS).bind(route).fetch_all(&self.pool)).await?;
        Ok(rows.iter().map(permit).collect::<Result<_, _>>()?)
    }
}

fn permit(row: &PgRow) -> Result<Permit, sqlx::Error> {
    let revoked = match row.try_get("revoked_at")? {
        None => None,
        Some(at) => Some(Revoked { at, by: row.try_get("revoked_by")?, reason: row.try_get("revoke_reason")? }),
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
