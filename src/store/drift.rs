//! What live answers say of a target: counted for all instances together, and the circuits that this opens.

use super::rows::millis;
use super::{Store, StoreError, retrying};
use crate::domain::Timestamp;
use crate::domain::drift::DriftWindow;
use crate::domain::route::Target;

/// A target on a route, under the suite as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Watched {
    pub route: String,
    pub target: Target,
    pub suite: String,
    pub suite_digest: String,
}

/// A circuit that only a passed run closes.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldCircuit {
    pub route: String,
    pub target: Target,
    pub suite: String,
    pub opened_at: Timestamp,
    pub reason: String,
}

/// What opening a circuit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// False: it was open already.
    pub opened: bool,
    /// Permits that ended with it.
    pub permits: i64,
}

// One row per bucket and verdict: a batch adds to it, whichever instance it comes from.
const COUNT: &str = "/* count_drift */
INSERT INTO drift_counts (route, provider, model, suite_digest, bucket, verdict, answers)
SELECT $1, $2, $3, $4, date_bin($5 * interval '1 millisecond', now(), timestamptz 'epoch'), t.verdict, t.answers
FROM unnest($6::text[], $7::int8[]) AS t (verdict, answers)
ON CONFLICT ON CONSTRAINT drift_counts_pkey DO UPDATE SET answers = drift_counts.answers + EXCLUDED.answers";

// Answers count since the newest passed live run began: what it has judged anew is not held against the target again.
const TALLY: &str = "/* tally_drift */
WITH since AS (
    SELECT COALESCE(max(started_at), '-infinity') AS at FROM contract_runs
    WHERE suite = $4 AND provider = $2 AND model = $3 AND verdict = 'passed' AND mode = 'live'
), buckets AS (
    SELECT d.bucket, sum(d.answers) AS answers FROM drift_counts d, since
    WHERE d.route = $1 AND d.provider = $2 AND d.model = $3 AND d.suite_digest = $5 AND d.bucket >= since.at
      AND ($7::int8 IS NULL OR d.bucket > now() - $7 * interval '1 millisecond')
    GROUP BY d.bucket ORDER BY d.bucket DESC LIMIT $6
), chosen AS (
    SELECT bucket FROM (SELECT bucket, sum(answers) OVER (ORDER BY bucket DESC) - answers AS newer FROM buckets) b
    WHERE $6 IS NULL OR newer < $6
)
SELECT d.verdict, sum(d.answers)::int8 FROM drift_counts d JOIN chosen ON chosen.bucket = d.bucket
WHERE d.route = $1 AND d.provider = $2 AND d.model = $3 AND d.suite_digest = $5
GROUP BY d.verdict ORDER BY 2 DESC, 1";

// The row is the claim: of several instances that find the same, one opens the circuit and ends the permits.
const OPEN: &str = "/* open_contract_circuit */
WITH opened AS (
    INSERT INTO contract_circuits (id, route, provider, model, suite, suite_digest, reason)
    VALUES (gen_random_uuid(), $1, $2, $3, $4, $5, $6)
    ON CONFLICT ON CONSTRAINT contract_circuits_pkey DO UPDATE
    SET id = EXCLUDED.id, suite = EXCLUDED.suite, suite_digest = EXCLUDED.suite_digest, reason = EXCLUDED.reason,
        opened_at = now()
    WHERE contract_circuits.suite <> EXCLUDED.suite OR EXISTS (
                  SELECT 1 FROM contract_runs r WHERE r.suite = contract_circuits.suite AND r.provider = contract_circuits.provider
                    AND r.model = contract_circuits.model AND r.verdict = 'passed' AND r.mode = 'live'
                    AND r.started_at > contract_circuits.opened_at)
    RETURNING id, route, provider, model
), ended AS (
    UPDATE permits p SET revoked_at = now(), revoked_by = 'drift', revoke_reason = $6, ended_cause = 'drift'
    FROM opened o WHERE p.route = o.route AND p.provider = o.provider AND p.model = o.model AND p.revoked_at IS NULL
    RETURNING p.id
), acted AS (
    INSERT INTO operator_actions (id, actor, action, subject, reason)
    SELECT gen_random_uuid(), 'drift', 'permit.revoke', id, $6 FROM ended
    UNION ALL SELECT gen_random_uuid(), 'drift', 'circuit.open', id, $6 FROM opened
)
SELECT (SELECT count(*) FROM opened) = 1, (SELECT count(*) FROM ended)";

const HELD: &str = "/* held_circuits */
SELECT c.route, c.provider, c.model, c.suite, c.opened_at, c.reason FROM contract_circuits c
WHERE NOT EXISTS (SELECT 1 FROM contract_runs r
                  WHERE r.suite = c.suite AND r.provider = c.provider AND r.model = c.model AND r.verdict = 'passed'
                    AND r.mode = 'live' AND r.started_at > c.opened_at)";

// The longest window is a day.
const CLEAN: &str = "/* clean_drift */ DELETE FROM drift_counts WHERE bucket < now() - interval '7 days'";

impl Store {
    /// Adds judged answers, by verdict.
    pub async fn count_drift(
        &self,
        watched: &Watched,
        window: DriftWindow,
        verdicts: &[(&str, i64)],
    ) -> Result<(), StoreError> {
        let words: Vec<&str> = verdicts.iter().map(|(word, _)| *word).collect();
        let counts: Vec<i64> = verdicts.iter().map(|(_, n)| *n).collect();
        // Not repeated after a fault: a batch counted twice would weigh double, one lost weighs nothing.
        sqlx::query(COUNT)
            .bind(&watched.route)
            .bind(&watched.target.provider)
            .bind(&watched.target.model)
            .bind(&watched.suite_digest)
            .bind(millis(window.bucket()))
            .bind(&words)
            .bind(&counts)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// The answers that count now, by verdict.
    pub async fn tally_drift(&self, watched: &Watched, window: DriftWindow) -> Result<Vec<(String, i64)>, StoreError> {
        let (answers, span) = match window {
            DriftWindow::Answers(n) => (Some(i64::from(n)), None),
            DriftWindow::Time(span) => (None, Some(millis(span))),
        };
        retrying(|| {
            sqlx::query_as(TALLY)
                .bind(&watched.route)
                .bind(&watched.target.provider)
                .bind(&watched.target.model)
                .bind(&watched.suite)
                .bind(&watched.suite_digest)
                .bind(answers)
                .bind(span)
                .fetch_all(&self.pool)
        })
        .await
    }

    /// Opens the target's circuit on its route and ends its permits there, in one commit.
    pub async fn open_contract_circuit(&self, watched: &Watched, reason: &str) -> Result<Opened, StoreError> {
        let (opened, permits) = retrying(|| {
            sqlx::query_as(OPEN)
                .bind(&watched.route)
                .bind(&watched.target.provider)
                .bind(&watched.target.model)
                .bind(&watched.suite)
                .bind(&watched.suite_digest)
                .bind(reason)
                .fetch_one(&self.pool)
        })
        .await?;
        Ok(Opened { opened, permits })
    }

    /// The circuits that no passed run has closed.
    pub async fn held_circuits(&self) -> Result<Vec<HeldCircuit>, StoreError> {
        let rows: Vec<(String, String, String, String, Timestamp, String)> =
            retrying(|| sqlx::query_as(HELD).fetch_all(&self.pool)).await?;
        let held = |(route, provider, model, suite, opened_at, reason)| HeldCircuit {
            route,
            target: Target { provider, model },
            suite,
            opened_at,
            reason,
        };
        Ok(rows.into_iter().map(held).collect())
    }

    /// Removes counts that no window reaches.
    pub async fn clean_drift(&self) -> Result<(), StoreError> {
        retrying(|| sqlx::query(CLEAN).execute(&self.pool)).await?;
        Ok(())
    }
}
