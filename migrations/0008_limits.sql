-- Limits per owner, shared by all processes (see src/domain/limits.rs).

-- What was set aside for a job whose owner has limits: an unknown attempt keeps it, whatever process dies. NULL where
-- there was no limit.
ALTER TABLE jobs ADD COLUMN reserved_tokens bigint
    CONSTRAINT jobs_reserved_is_no_debt CHECK (reserved_tokens >= 0);

-- What each process claims of an owner's limits: one row, at least as large as what the process uses, written under a
-- lock on the owner's row. `spent` is {"slot": [requests, tokens]}, a slot being five seconds of absolute time.
-- `instance_id` names the process's books, not its lease: a lease may be lost and taken anew, the books stay.
CREATE TABLE limit_usage (
    owner_id      uuid NOT NULL CONSTRAINT limit_usage_has_an_owner REFERENCES owners (id),
    instance_id   uuid NOT NULL,
    spent         jsonb NOT NULL CONSTRAINT limit_usage_spent_is_by_slot CHECK (jsonb_typeof(spent) = 'object'),
    held_requests bigint NOT NULL,
    held_jobs     bigint NOT NULL,
    held_tokens   bigint NOT NULL,
    updated_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT limit_usage_pkey PRIMARY KEY (owner_id, instance_id),
    CONSTRAINT limit_usage_is_no_debt CHECK (held_requests >= 0 AND held_jobs >= 0 AND held_tokens >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- Which of an owner's jobs are unknown: few, and asked for each time that a claim is enlarged. Attempts that come and go
-- by the usual way never enter it.
CREATE INDEX attempts_unknown ON attempts (owner_id, job_id) WHERE state = 'unknown';
