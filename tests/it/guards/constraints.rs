//! Every named constraint refuses what it must, and none is left without a row that it refuses.

use std::collections::BTreeSet;

use sqlx::AssertSqlSafe;

use super::ground::Ground;

/// `u(n)` is the UUID that ends in n. Owner 1 has job 1 (running, attempt 11 of the primary), job 2 (succeeded by
/// attempt 21) and job 3 (queued after attempt 31 failed); run 5 has passed, run 6 has failed, run 7 still runs; permit
/// 8 rests on run 5.
const ROWS: &str = "
CREATE FUNCTION u(n int) RETURNS uuid IMMUTABLE LANGUAGE sql AS $$ SELECT lpad(n::text, 32, '0')::uuid $$;
INSERT INTO owners (id, name) VALUES (u(1), 'one'), (u(2), 'two');
INSERT INTO api_keys (id, owner_id, public_id, secret_sha256) VALUES (u(1), u(1), 'p1', sha256('1')), (u(2), u(1), 'p2', sha256('2'));
INSERT INTO instances (id, host, pid, lease_until) VALUES (u(1), 'here', 1, now() + interval '1 h');
INSERT INTO jobs (owner_id, id, idempotency_key, key_origin, fingerprint, fingerprint_version, url, route, delivery, state, deadline_at)
SELECT u(1), u(n), 'k' || n, 'client', sha256('x'), 1, '/', 'r', 'sync', CASE n WHEN 3 THEN 'queued' ELSE 'running' END, now() + interval '1 d'
FROM generate_series(1, 3) n;
INSERT INTO job_requests (owner_id, job_id, body) SELECT u(1), u(n), '' FROM generate_series(1, 3) n;
INSERT INTO attempts (owner_id, job_id, id, ordinal, round, state, rank, provider, model, adapter_version, instance_id,
                      job_version, reason, ended_at, deadline_at, settle_until)
SELECT u(1), u(n), u(n * 10 + 1), 1, 1, (ARRAY['started', 'succeeded', 'failed'])[n], 'primary', 'alpha', 'm', 'a/1', u(1), 0,
       CASE n WHEN 3 THEN 'x' END, CASE WHEN n > 1 THEN now() END, now() + interval '1 h', now() + interval '1 h'
FROM generate_series(1, 3) n;
UPDATE jobs SET state = 'succeeded', completed_by = u(21), closed_at = now(), version = 1 WHERE id = u(2);
INSERT INTO job_results (owner_id, job_id, attempt_id, content_type, body) VALUES (u(1), u(2), u(21), 't', '');
INSERT INTO races (owner_id, job_id, attempt_id, winner, version_seen, body_sha256) VALUES (u(1), u(3), u(31), NULL, 0, sha256('r'));
INSERT INTO contract_runs (id, suite, suite_digest, provider, model, adapter_version, settings_digest, mode, verdict,
                           schema_verdict, tokenizer_verdict, round_trip_verdict, ended_at)
VALUES (u(5), 's', 'd', 'beta', 'm', 'b/1', 'c', 'live', 'passed', 'passed', 'passed', 'passed', now()),
       (u(6), 's', 'd', 'beta', 'm', 'b/1', 'c', 'live', 'failed', 'passed', 'failed', 'passed', now()),
       (u(7), 's', 'd', 'beta', 'm', 'b/1', 'c', 'live', 'running', 'missing', 'missing', 'missing', NULL);
INSERT INTO contract_checks (run_id, ordinal, kind, name, case_name, verdict, detail) VALUES (u(5), 1, 'schema', 'n', 'c', 'passed', '');
INSERT INTO permits (id, route, run_id, run_verdict, mode, suite, suite_digest, provider, model, adapter_version, settings_digest, granted_by, reason, expires_at)
VALUES (u(8), 'r', u(5), 'passed', 'live', 's', 'd', 'beta', 'm', 'b/1', 'c', 'ann', 'why', now() + interval '1 d');
INSERT INTO operator_actions (id, actor, action, subject, reason) VALUES (u(1), 'ann', 'x', u(8), 'why');
INSERT INTO stream_followers (owner_id, job_id, until) VALUES (u(1), u(1), now());
INSERT INTO stream_chunks (owner_id, job_id, attempt_id, seq, data) VALUES (u(1), u(1), u(11), 0, '{}');
INSERT INTO callbacks (owner_id, job_id, url) VALUES (u(1), u(1), 'https://x/');
INSERT INTO lookup_places (instance_id, provider, way, base_url) VALUES (u(1), 'alpha', 'stored', 'http://a');
INSERT INTO lookups (owner_id, job_id, attempt_id) VALUES (u(1), u(1), u(11));
INSERT INTO rechecks (permit_id, tries) VALUES (u(8), 1);
INSERT INTO drift_counts (route, provider, model, suite_digest, bucket, verdict, answers) VALUES ('r', 'beta', 'm', 'd', now(), 'kept', 1);
INSERT INTO contract_circuits (id, route, provider, model, suite, suite_digest, reason)
SELECT u(n), 'r' || n, 'beta', 'm', 's', 'd', 'why' FROM generate_series(1, 2) n;
INSERT INTO limit_usage (owner_id, instance_id, spent, held_requests, held_jobs, held_tokens) VALUES (u(1), u(1), '{}', 0, 0, 0);
CREATE FUNCTION try_job(owner int, id int, key text) RETURNS void LANGUAGE sql AS $$
INSERT INTO jobs (owner_id, id, idempotency_key, key_origin, fingerprint, fingerprint_version, url, route, delivery, state, deadline_at)
VALUES (u(owner), u(id), key, 'client', sha256('x'), 1, '/', 'r', 'sync', 'queued', now() + interval '1 d') $$;
CREATE FUNCTION try_attempt(job int, id int, ordinal int, state text, rank text, provider text, permit uuid) RETURNS void LANGUAGE sql AS $$
INSERT INTO attempts (owner_id, job_id, id, ordinal, round, state, rank, provider, model, adapter_version, permit_id, instance_id,
                      job_version, ended_at, deadline_at, settle_until)
VALUES (u(1), u(job), u(id), ordinal, 1, state, rank, provider, 'm', 'b/1', permit, u(1), 0,
        CASE state WHEN 'succeeded' THEN now() END, now() + interval '1 h', now() + interval '1 h') $$;
CREATE FUNCTION try_permit(run int, verdict text, provider text, digest text) RETURNS void LANGUAGE sql AS $$
INSERT INTO permits (id, route, run_id, run_verdict, mode, suite, suite_digest, provider, model, adapter_version, settings_digest, granted_by, reason, expires_at)
VALUES (u(9), 'r', u(run), verdict, 'live', 's', digest, provider, 'm', 'b/1', 'c', 'ann', 'why', now() + interval '1 d') $$;
";

/// What must never stand in the database, and the constraint that says so.
#[rustfmt::skip]
const REFUSED: [(&str, &str); 82] = [
    // R1: one job per owner and key, whatever was looked up before.
    ("jobs_one_per_key", "SELECT try_job(1, 4, 'k1')"),
    ("jobs_pkey", "SELECT try_job(1, 3, 'k4')"),
    ("jobs_have_an_owner", "SELECT try_job(99, 4, 'k4')"),
    ("jobs_key_is_short", "UPDATE jobs SET idempotency_key = '' WHERE id = u(3)"),
    ("jobs_key_is_short", "UPDATE jobs SET idempotency_key = repeat('x', 256) WHERE id = u(3)"),
    ("jobs_key_origin_is_known", "UPDATE jobs SET key_origin = 'x'"),
    ("jobs_fingerprint_is_sha256", "UPDATE jobs SET fingerprint = 'short'"),
    ("jobs_delivery_is_known", "UPDATE jobs SET delivery = 'x'"),
    ("jobs_state_is_known", "UPDATE jobs SET state = 'done' WHERE id = u(3)"),
    ("jobs_winner_means_succeeded", "UPDATE jobs SET completed_by = u(11) WHERE id = u(1)"),
    ("jobs_winner_means_succeeded", "UPDATE jobs SET state = 'succeeded', closed_at = now() WHERE id = u(1)"),
    ("jobs_closed_means_terminal", "UPDATE jobs SET closed_at = now() WHERE id = u(1)"),
    ("jobs_closed_means_terminal", "UPDATE jobs SET state = 'cancelled' WHERE id = u(3)"),
    ("jobs_failed_says_why", "UPDATE jobs SET state = 'failed', closed_at = now() WHERE id = u(3)"),
    ("jobs_resumable_is_queued", "UPDATE jobs SET resume_at = now() WHERE id = u(1)"),
    ("jobs_erased_is_closed", "UPDATE jobs SET erased_at = now() WHERE id = u(1)"),
    // A winner is an attempt of its own job.
    ("jobs_completed_by_own_attempt", "UPDATE jobs SET state = 'succeeded', closed_at = now(), completed_by = u(21) WHERE id = u(3)"),
    ("job_requests_pkey", "INSERT INTO job_requests (owner_id, job_id, body) VALUES (u(1), u(1), '')"),
    ("job_results_pkey", "INSERT INTO job_results (owner_id, job_id, attempt_id, content_type, body) VALUES (u(1), u(2), u(21), 't', 'other')"),
    // R4: at most one open attempt, whoever inserts blindly.
    ("attempts_one_open", "SELECT try_attempt(1, 12, 2, 'started', 'primary', 'alpha', NULL)"),
    ("attempts_one_open", "UPDATE attempts SET state = 'unknown', reason = 'x' WHERE id = u(11); SELECT try_attempt(1, 12, 2, 'started', 'primary', 'alpha', NULL)"),
    ("attempts_one_winner", "SELECT try_attempt(2, 22, 2, 'succeeded', 'primary', 'alpha', NULL)"),
    ("attempts_one_per_ordinal", "SELECT try_attempt(3, 32, 1, 'started', 'primary', 'alpha', NULL)"),
    ("attempts_pkey", "SELECT try_attempt(3, 31, 2, 'started', 'primary', 'alpha', NULL)"),
    ("attempts_have_a_job", "SELECT try_attempt(4, 41, 1, 'started', 'primary', 'alpha', NULL)"),
    ("attempts_have_an_instance", "UPDATE attempts SET instance_id = u(99) WHERE id = u(11)"),
    ("attempts_count_from_one", "UPDATE attempts SET ordinal = 0 WHERE id = u(11)"),
    ("attempts_state_is_known", "UPDATE attempts SET state = 'lost', ended_at = now() WHERE id = u(11)"),
    ("attempts_rank_is_known", "UPDATE attempts SET rank = 'x' WHERE id = u(11)"),
    // R8: a fallback has a permit, and it is for this very target.
    ("attempts_fallback_has_a_permit", "SELECT try_attempt(3, 32, 2, 'started', 'fallback', 'beta', NULL)"),
    ("attempts_fallback_has_a_permit", "SELECT try_attempt(3, 32, 2, 'started', 'primary', 'beta', u(8))"),
    ("attempts_permit_is_for_this_target", "SELECT try_attempt(3, 32, 2, 'started', 'fallback', 'alpha', u(8))"),
    ("attempts_permit_is_for_this_target", "SELECT try_attempt(3, 32, 2, 'started', 'fallback', 'beta', u(99))"),
    ("attempts_unknown_says_why", "UPDATE attempts SET state = 'unknown' WHERE id = u(11)"),
    ("attempts_unknown_says_why", "UPDATE attempts SET state = 'failed', ended_at = now() WHERE id = u(11)"),
    ("attempts_cleared_by_somebody", "UPDATE attempts SET state = 'released' WHERE id = u(11)"),
    ("attempts_cleared_by_somebody", "UPDATE attempts SET state = 'cancelled', ended_at = now() WHERE id = u(11)"),
    ("attempts_settled_have_ended", "UPDATE attempts SET state = 'failed', reason = 'x' WHERE id = u(11)"),
    // Money is never owed, and names the price that it was computed by.
    ("attempts_cost_is_no_debt", "UPDATE attempts SET cost_pico = -1, cost_currency = 'USD', price = 'settings' WHERE id = u(11)"),
    ("attempts_cost_names_its_price", "UPDATE attempts SET cost_pico = 1, cost_currency = 'USD' WHERE id = u(11)"),
    ("attempts_cost_names_its_price", "UPDATE attempts SET price = 'settings' WHERE id = u(11)"),
    ("attempts_cost_names_its_price", "UPDATE attempts SET cost_pico = 1, price = 'settings' WHERE id = u(11)"),
    ("attempts_dropped_names_something", "UPDATE attempts SET dropped = '' WHERE id = u(11)"),
    ("races_cost_has_a_currency", "UPDATE races SET cost_pico = 1"),
    ("races_pkey", "INSERT INTO races (owner_id, job_id, attempt_id, version_seen, body_sha256) VALUES (u(1), u(3), u(31), 0, sha256('s'))"),
    ("races_have_an_attempt", "INSERT INTO races (owner_id, job_id, attempt_id, version_seen, body_sha256) VALUES (u(1), u(3), u(11), 0, sha256('s'))"),
    ("races_hash_is_sha256", "UPDATE races SET body_sha256 = 'short'"),
    ("races_loser_is_not_the_winner", "UPDATE races SET winner = attempt_id"),
    // A permit rests on a run that has passed all three kinds, for what it was run against.
    ("contract_runs_pkey", "UPDATE contract_runs SET id = u(6) WHERE id = u(7)"),
    ("contract_runs_mode_is_known", "UPDATE contract_runs SET mode = 'x' WHERE id = u(7)"),
    ("contract_runs_verdict_is_known", "UPDATE contract_runs SET verdict = 'x', ended_at = now() WHERE id = u(7)"),
    ("contract_runs_schema_is_known", "UPDATE contract_runs SET schema_verdict = 'x' WHERE id = u(7)"),
    ("contract_runs_tokenizer_is_known", "UPDATE contract_runs SET tokenizer_verdict = 'x' WHERE id = u(7)"),
    ("contract_runs_round_trip_is_known", "UPDATE contract_runs SET round_trip_verdict = 'x' WHERE id = u(7)"),
    ("contract_runs_have_an_instance", "UPDATE contract_runs SET instance_id = u(99) WHERE id = u(7)"),
    ("contract_runs_end_with_a_verdict", "UPDATE contract_runs SET ended_at = now() WHERE id = u(7)"),
    ("contract_runs_pass_needs_all_kinds", "UPDATE contract_runs SET verdict = 'passed', ended_at = now() WHERE id = u(7)"),
    ("contract_runs_pass_needs_all_kinds", "UPDATE contract_runs SET verdict = 'passed' WHERE id = u(6)"),
    ("contract_checks_pkey", "INSERT INTO contract_checks SELECT * FROM contract_checks"),
    ("contract_checks_have_a_run", "UPDATE contract_checks SET run_id = u(99)"),
    ("contract_checks_kind_is_known", "UPDATE contract_checks SET kind = 'x'"),
    ("contract_checks_verdict_is_known", "UPDATE contract_checks SET verdict = 'x'"),
    ("permits_run_has_passed", "SELECT try_permit(6, 'failed', 'beta', 'd')"),
    ("permits_rest_on_a_passed_run", "SELECT try_permit(6, 'passed', 'beta', 'd')"),
    ("permits_rest_on_a_passed_run", "SELECT try_permit(7, 'passed', 'beta', 'd')"),
    ("permits_rest_on_a_passed_run", "SELECT try_permit(5, 'passed', 'gamma', 'd')"),
    ("permits_rest_on_a_passed_run", "SELECT try_permit(5, 'passed', 'beta', 'another digest')"),
    ("permits_rest_on_a_passed_run", "UPDATE contract_runs SET verdict = 'failed' WHERE id = u(5)"),
    ("permits_pkey", "INSERT INTO permits SELECT * FROM permits"),
    ("permits_say_why", "UPDATE permits SET reason = ''"),
    ("permits_expire_later", "UPDATE permits SET expires_at = granted_at"),
    ("permits_revoked_by_somebody", "UPDATE permits SET revoked_at = now()"),
    ("callbacks_pkey", "INSERT INTO callbacks SELECT * FROM callbacks"),
    ("callbacks_have_a_job", "UPDATE callbacks SET job_id = u(99)"),
    ("callbacks_url_is_short", "UPDATE callbacks SET url = ''"),
    ("callbacks_state_is_known", "UPDATE callbacks SET state = 'x', attempts = 1, ended_at = now()"),
    ("callbacks_count_from_zero", "UPDATE callbacks SET attempts = -1"),
    ("callbacks_settled_have_ended", "UPDATE callbacks SET state = 'delivered', attempts = 1"),
    ("callbacks_settled_were_tried", "UPDATE callbacks SET state = 'delivered', ended_at = now()"),
    ("callbacks_given_up_says_why", "UPDATE callbacks SET state = 'given_up', attempts = 1, ended_at = now()"),
    ("operator_actions_have_an_actor", "UPDATE operator_actions SET actor = ''"),
    ("operator_actions_say_why", "UPDATE operator_actions SET reason = ''"),
];

/// Constraints of owners, keys and ids, and those that stand only to be referred to.
#[rustfmt::skip]
const REFUSED_ELSEWHERE: [(&str, &str); 15] = [
    ("owners_pkey", "INSERT INTO owners (id, name) VALUES (u(1), 'three')"),
    ("owners_one_per_name", "UPDATE owners SET name = 'one'"),
    ("owners_name_is_short", "UPDATE owners SET name = '' WHERE id = u(1)"),
    ("api_keys_pkey", "UPDATE api_keys SET id = u(1)"),
    ("api_keys_one_per_public_id", "UPDATE api_keys SET public_id = 'p1'"),
    ("api_keys_have_an_owner", "UPDATE api_keys SET owner_id = u(99)"),
    ("api_keys_hash_is_sha256", "UPDATE api_keys SET secret_sha256 = 'short'"),
    ("api_keys_idempotency_is_known", "UPDATE api_keys SET idempotency = 'x'"),
    ("instances_pkey", "INSERT INTO instances (id, host, pid, lease_until) VALUES (u(1), 'x', 1, now())"),
    ("stream_followers_pkey", "INSERT INTO stream_followers SELECT * FROM stream_followers"),
    ("stream_followers_have_a_job", "UPDATE stream_followers SET job_id = u(99)"),
    ("stream_chunks_pkey", "INSERT INTO stream_chunks SELECT * FROM stream_chunks"),
    ("stream_chunks_count_from_zero", "UPDATE stream_chunks SET seq = -1"),
    ("stream_chunks_have_an_attempt", "UPDATE stream_chunks SET attempt_id = u(99)"),
    ("operator_actions_pkey", "INSERT INTO operator_actions SELECT * FROM operator_actions"),
];

#[rustfmt::skip]
const REFUSED_OF_LOOKUPS: [(&str, &str); 9] = [
    ("lookup_places_pkey", "INSERT INTO lookup_places SELECT * FROM lookup_places"),
    ("lookup_places_have_an_instance", "UPDATE lookup_places SET instance_id = u(99)"),
    ("lookups_pkey", "INSERT INTO lookups SELECT * FROM lookups"),
    ("lookups_have_an_attempt", "UPDATE lookups SET attempt_id = u(99)"),
    ("lookups_tries_count_up", "UPDATE lookups SET tries = -1"),
    ("lookups_answer_is_known", "UPDATE lookups SET last_answer = 'x'"),
    ("lookups_evidence_is_a_list", "UPDATE lookups SET evidence = '{}'"),
    ("attempts_reference_is_short", "UPDATE attempts SET reference = ''"),
    ("attempts_reference_is_short", "UPDATE attempts SET reference = repeat('x', 513)"),
];

#[rustfmt::skip]
const REFUSED_OF_EVIDENCE: [(&str, &str); 16] = [
    ("permits_ended_cause_is_known", "UPDATE permits SET revoked_at = now(), revoked_by = 'x', revoke_reason = 'x', ended_cause = 'x'"),
    ("permits_cause_means_ended", "UPDATE permits SET ended_cause = 'drift'"),
    ("permits_renew_a_permit", "UPDATE permits SET renews = u(99)"),
    ("permits_renew_another", "UPDATE permits SET renews = id"),
    ("rechecks_pkey", "INSERT INTO rechecks SELECT * FROM rechecks"),
    ("rechecks_have_a_permit", "UPDATE rechecks SET permit_id = u(99)"),
    ("rechecks_tries_count_from_one", "UPDATE rechecks SET tries = 0"),
    ("rechecks_are_claimed_by_an_instance", "UPDATE rechecks SET claimed_by = u(99), claimed_at = now()"),
    ("rechecks_have_a_run", "UPDATE rechecks SET run_id = u(99)"),
    ("rechecks_claim_is_whole", "UPDATE rechecks SET claimed_by = u(1)"),
    ("drift_counts_pkey", "INSERT INTO drift_counts SELECT * FROM drift_counts"),
    ("drift_counts_have_a_verdict", "UPDATE drift_counts SET verdict = ''"),
    ("drift_counts_count_up", "UPDATE drift_counts SET answers = 0"),
    ("contract_circuits_pkey", "UPDATE contract_circuits SET route = 'r1'"),
    ("contract_circuits_one_per_id", "UPDATE contract_circuits SET id = u(1)"),
    ("contract_circuits_say_why", "UPDATE contract_circuits SET reason = ''"),
];

#[rustfmt::skip]
const REFUSED_OF_LIMITS: [(&str, &str); 5] = [
    ("jobs_reserved_is_no_debt", "UPDATE jobs SET reserved_tokens = -1"),
    ("limit_usage_pkey", "INSERT INTO limit_usage SELECT * FROM limit_usage"),
    ("limit_usage_has_an_owner", "UPDATE limit_usage SET owner_id = u(99)"),
    ("limit_usage_spent_is_by_slot", "UPDATE limit_usage SET spent = '[]'"),
    ("limit_usage_is_no_debt", "UPDATE limit_usage SET held_tokens = -1"),
];

/// Their first column is a primary key already: they are only the other end of a foreign key.
const REFERRED_TO: [&str; 2] = ["contract_runs_evidence", "permits_target"];

#[tokio::test]
async fn every_named_constraint_refuses_what_it_must() {
    let ground = Ground::new().await;
    ground.sql(ROWS).await;
    let mut proved: BTreeSet<String> = REFERRED_TO.iter().map(|name| (*name).to_owned()).collect();
    let more = REFUSED_OF_LOOKUPS.into_iter().chain(REFUSED_OF_EVIDENCE).chain(REFUSED_OF_LIMITS);
    for (constraint, sql) in REFUSED.into_iter().chain(REFUSED_ELSEWHERE).chain(more) {
        let mut tx = ground.pool.begin().await.expect("a transaction");
        let error = match sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await {
            Ok(_) => panic!("{constraint} let this pass: {sql}"),
            Err(error) => error,
        };
        let refused_by =
            error.as_database_error().and_then(|e| e.constraint()).unwrap_or_else(|| panic!("{sql}: {error}"));
        // A payload's is that of the partition that it would have come to lie in: these ids fall into no day.
        assert_eq!(refused_by.replace("_default_pkey", "_pkey"), constraint, "{sql}");
        proved.insert(constraint.to_owned());
    }
    let there: Vec<String> = sqlx::query_scalar(
        "SELECT conname::text FROM pg_constraint c LEFT JOIN pg_class t ON t.oid = c.conrelid
         WHERE c.connamespace = 'public'::regnamespace AND c.contype IN ('c', 'u', 'f', 'p') AND t.relname IS DISTINCT FROM '_sqlx_migrations' AND t.relispartition IS NOT TRUE
         UNION SELECT indexrelid::regclass::text FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid
         WHERE t.relnamespace = 'public'::regnamespace AND i.indisunique AND t.relname <> '_sqlx_migrations' AND NOT t.relispartition",
    )
    .fetch_all(&ground.pool)
    .await
    .expect("the catalogue");
    let unproved: Vec<_> = there.iter().filter(|name| !proved.contains(*name)).collect();
    assert!(unproved.is_empty(), "no row here is refused by {unproved:?}");
}
