-- What a column may hold is its type's rule. Postgres reads a table's CHECK constraints anew for each statement: of what
-- the two statements of a job cost, they were 40 %, and lists of words the dearest. A domain's rule is read once in a
-- session. Rules over several columns stay with their tables, a list of words as one array constant.
--
-- Each rule keeps its name. Takes an exclusive lock and rewrites both tables once.

CREATE DOMAIN idempotency_key AS text COLLATE "C" CONSTRAINT jobs_key_is_short CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN key_origin AS text CONSTRAINT jobs_key_origin_is_known CHECK (VALUE IN ('client', 'gateway'));
CREATE DOMAIN fingerprint AS bytea CONSTRAINT jobs_fingerprint_is_sha256 CHECK (octet_length(VALUE) = 32);
CREATE DOMAIN delivery AS text CONSTRAINT jobs_delivery_is_known CHECK (VALUE IN ('sync', 'async'));
CREATE DOMAIN job_state AS text CONSTRAINT jobs_state_is_known
    CHECK (VALUE IN ('queued', 'running', 'unknown', 'succeeded', 'failed', 'cancelled'));
CREATE DOMAIN reserved_tokens AS bigint CONSTRAINT jobs_reserved_is_no_debt CHECK (VALUE >= 0);

ALTER TABLE jobs
    DROP CONSTRAINT jobs_key_is_short,
    DROP CONSTRAINT jobs_key_origin_is_known,
    DROP CONSTRAINT jobs_fingerprint_is_sha256,
    DROP CONSTRAINT jobs_delivery_is_known,
    DROP CONSTRAINT jobs_state_is_known,
    DROP CONSTRAINT jobs_reserved_is_no_debt,
    DROP CONSTRAINT jobs_winner_means_succeeded,
    DROP CONSTRAINT jobs_closed_means_terminal,
    DROP CONSTRAINT jobs_failed_says_why,
    DROP CONSTRAINT jobs_resumable_is_queued,
    ALTER COLUMN idempotency_key TYPE idempotency_key,
    ALTER COLUMN key_origin TYPE key_origin,
    ALTER COLUMN fingerprint TYPE fingerprint,
    ALTER COLUMN delivery TYPE delivery,
    ALTER COLUMN state TYPE job_state,
    ALTER COLUMN reserved_tokens TYPE reserved_tokens;
ALTER TABLE jobs
    ADD CONSTRAINT jobs_winner_means_succeeded CHECK ((completed_by IS NOT NULL) = (state = 'succeeded')),
    ADD CONSTRAINT jobs_closed_means_terminal
        CHECK ((closed_at IS NOT NULL) = (state = ANY ('{succeeded, failed, cancelled}'::text[]))),
    ADD CONSTRAINT jobs_failed_says_why CHECK (state <> 'failed' OR error IS NOT NULL),
    ADD CONSTRAINT jobs_resumable_is_queued CHECK (resume_at IS NULL OR state = 'queued');

CREATE DOMAIN attempt_ordinal AS integer CONSTRAINT attempts_count_from_one CHECK (VALUE >= 1);
CREATE DOMAIN attempt_state AS text CONSTRAINT attempts_state_is_known
    CHECK (VALUE IN ('started', 'unknown', 'succeeded', 'failed', 'released', 'cancelled', 'superseded'));
CREATE DOMAIN attempt_rank AS text CONSTRAINT attempts_rank_is_known CHECK (VALUE IN ('primary', 'fallback'));
CREATE DOMAIN provider_reference AS text
    CONSTRAINT attempts_reference_is_short CHECK (octet_length(VALUE) BETWEEN 1 AND 512);
CREATE DOMAIN pico AS bigint CONSTRAINT attempts_cost_is_no_debt CHECK (VALUE >= 0);
CREATE DOMAIN dropped AS text CONSTRAINT attempts_dropped_names_something CHECK (VALUE <> '');

ALTER TABLE attempts
    DROP CONSTRAINT attempts_count_from_one,
    DROP CONSTRAINT attempts_state_is_known,
    DROP CONSTRAINT attempts_rank_is_known,
    DROP CONSTRAINT attempts_reference_is_short,
    DROP CONSTRAINT attempts_cost_is_no_debt,
    DROP CONSTRAINT attempts_dropped_names_something,
    DROP CONSTRAINT attempts_fallback_has_a_permit,
    DROP CONSTRAINT attempts_unknown_says_why,
    DROP CONSTRAINT attempts_cleared_by_somebody,
    DROP CONSTRAINT attempts_settled_have_ended,
    ALTER COLUMN ordinal TYPE attempt_ordinal,
    ALTER COLUMN state TYPE attempt_state,
    ALTER COLUMN rank TYPE attempt_rank,
    ALTER COLUMN reference TYPE provider_reference,
    ALTER COLUMN cost_pico TYPE pico,
    ALTER COLUMN dropped TYPE dropped;
ALTER TABLE attempts
    ADD CONSTRAINT attempts_fallback_has_a_permit CHECK ((rank = 'fallback') = (permit_id IS NOT NULL)),
    ADD CONSTRAINT attempts_unknown_says_why CHECK (reason IS NOT NULL OR state <> ALL ('{unknown, failed}'::text[])),
    ADD CONSTRAINT attempts_cleared_by_somebody
        CHECK (cleared_by IS NOT NULL OR state <> ALL ('{released, superseded, cancelled}'::text[])),
    ADD CONSTRAINT attempts_settled_have_ended
        CHECK (ended_at IS NOT NULL OR state = ANY ('{started, unknown, released}'::text[]));
