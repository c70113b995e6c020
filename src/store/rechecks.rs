//! Rechecks: which instance runs a permitted fallback's suite again, and what came of it.

use std::time::Duration;

use super::rows::millis;
use super::{Store, StoreError, retrying};
use crate::domain::ids::{InstanceId, PermitId, RunId};

/// A recheck that this instance has taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub permit: PermitId,
    pub instance: InstanceId,
    /// This one included.
    pub tries: i32,
}

// The first to write the row has it. A claim stands as long as its instance's lease; two hours is longer than any run.
const CLAIM: &str = "/* claim_recheck */
INSERT INTO rechecks (permit_id, tries, claimed_by, claimed_at)
SELECT p.id, 1, $2, now() FROM permits p JOIN contract_runs r ON r.id = p.run_id
WHERE p.id = $1 AND p.revoked_at IS NULL AND p.expires_at > now()
  AND r.started_at <= now() - $3 * interval '1 millisecond'
ON CONFLICT ON CONSTRAINT rechecks_pkey DO UPDATE
SET tries = rechecks.tries + 1, claimed_by = $2, claimed_at = now(), updated_at = now()
WHERE rechecks.next_at <= now() AND (rechecks.claimed_at IS NULL OR rechecks.claimed_at < now() - interval '2 h'
      OR NOT EXISTS (SELECT 1 FROM instances i WHERE i.id = rechecks.claimed_by AND i.lease_until > now()))
RETURNING tries";

const MISS: &str = "/* miss_recheck */
UPDATE rechecks SET claimed_by = NULL, claimed_at = NULL, last_error = $4, run_id = $5, updated_at = now(),
       next_at = now() + $6 * interval '1 millisecond'
WHERE permit_id = $1 AND claimed_by = $2 AND tries = $3";

// One commit: the new permit, on the new run, and the end of those before it. Whatever has ended the old one meanwhile
// (somebody by name, a change, its time) outranks the run, and then nothing is renewed.
const RENEW: &str = "/* renew_permit */
WITH claim AS (
    UPDATE rechecks SET claimed_by = NULL, claimed_at = NULL, next_at = NULL, run_id = $4, last_error = NULL,
           updated_at = now()
    WHERE permit_id = $1 AND claimed_by = $2 AND tries = $3 RETURNING permit_id
), old AS (
    SELECT p.id, p.route, p.provider, p.model, p.suite, p.suite_digest FROM permits p
    JOIN claim ON claim.permit_id = p.id WHERE p.revoked_at IS NULL AND p.expires_at > now() FOR UPDATE OF p
), new AS (
    INSERT INTO permits (id, route, run_id, run_verdict, mode, suite, suite_digest, provider, model, adapter_version,
                         settings_digest, granted_by, reason, expires_at, renews)
    SELECT $5, old.route, r.id, r.verdict, r.mode, r.suite, r.suite_digest, r.provider, r.model, r.adapter_version,
           r.settings_digest, 'recheck', $6, now() + $7 * interval '1 millisecond', old.id
    FROM old JOIN contract_runs r ON r.id = $4 AND r.verdict = 'passed' AND r.provider = old.provider
     AND r.model = old.model AND r.suite = old.suite AND r.suite_digest = old.suite_digest
    WHERE NOT EXISTS (SELECT 1 FROM contract_circuits c WHERE c.route = old.route AND c.provider = old.provider
                         AND c.model = old.model AND c.suite = old.suite AND c.opened_at >= r.started_at)
    RETURNING id, route, provider, model
), ended AS (
    UPDATE permits p SET revoked_at = now(), revoked_by = 'recheck', ended_cause = 'renewed',
           revoke_reason = 'renewed as permit ' || new.id || ' on run ' || $4
    FROM new WHERE p.route = new.route AND p.provider = new.provider AND p.model = new.model AND p.revoked_at IS NULL
)
INSERT INTO operator_actions (id, actor, action, subject, reason)
SELECT gen_random_uuid(), 'recheck', 'permit.renew', id, $6 FROM new";

// A failed run speaks against every permit of this target on this route, not only against the one that was rechecked.
const FAIL: &str = "/* fail_recheck */
WITH claim AS (
    UPDATE rechecks SET claimed_by = NULL, claimed_at = NULL, next_at = NULL, run_id = $2, last_error = NULL,
           updated_at = now()
    WHERE permit_id = $1
), ended AS (
    UPDATE permits p SET revoked_at = now(), revoked_by = 'recheck', revoke_reason = $3, ended_cause = 'recheck'
    FROM permits it WHERE it.id = $1 AND p.route = it.route AND p.provider = it.provider AND p.model = it.model
      AND p.revoked_at IS NULL
    RETURNING p.id
), acted AS (
    INSERT INTO operator_actions (id, actor, action, subject, reason)
    SELECT gen_random_uuid(), 'recheck', 'permit.revoke', id, $3 FROM ended
)
SELECT count(*) FROM ended";

impl Store {
    /// Takes the recheck of a permit whose run began longer ago than `age`. `None`: it is not due, or somebody has it.
    pub async fn claim_recheck(
        &self,
        permit: PermitId,
        instance: InstanceId,
        age: Duration,
    ) -> Result<Option<Claim>, StoreError> {
        let claim = sqlx::query_scalar(CLAIM).bind(permit).bind(instance).bind(millis(age));
        let tries: Option<i32> = claim.fetch_optional(&self.pool).await?;
        Ok(tries.map(|tries| Claim { permit, instance, tries }))
    }

    /// The run could not be made: again after `again_in`. The permit goes on.
    pub async fn miss_recheck(
        &self,
        claim: Claim,
        run: Option<RunId>,
        error: &str,
        again_in: Duration,
    ) -> Result<(), StoreError> {
        let error = error.replace('\0', "\\u0000");
        retrying(|| {
            let miss = sqlx::query(MISS).bind(claim.permit).bind(claim.instance).bind(claim.tries);
            miss.bind(&error).bind(run).bind(millis(again_in)).execute(&self.pool)
        })
        .await?;
        Ok(())
    }

    /// The run has passed: `new` stands in the place of the permit. False: that one had ended meanwhile, or somebody
    /// else has the recheck now; nothing is renewed.
    pub async fn renew_permit(
        &self,
        claim: Claim,
        run: RunId,
        new: PermitId,
        reason: &str,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let renew = sqlx::query(RENEW).bind(claim.permit).bind(claim.instance).bind(claim.tries).bind(run);
        let done = renew.bind(new).bind(reason).bind(millis(ttl)).execute(&self.pool).await?;
        Ok(done.rows_affected() == 1)
    }

    /// The run has failed: every permit of the target on the route ends. Returns how many.
    pub async fn fail_recheck(&self, permit: PermitId, run: RunId, reason: &str) -> Result<i64, StoreError> {
        let reason = reason.replace('\0', "\\u0000");
        retrying(|| sqlx::query_scalar(FAIL).bind(permit).bind(run).bind(&reason).fetch_one(&self.pool)).await
    }
}
