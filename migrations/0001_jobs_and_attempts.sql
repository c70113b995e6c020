-- Jobs, attempts and what keeps them honest. Every invariant is a named constraint: what the code promises, the
-- database says again.
--
--   job:      queued → running ⇄ unknown → succeeded | failed | cancelled
--   attempt:  started  → succeeded | failed | unknown | released | cancelled
--             unknown  → succeeded | failed | released | cancelled
--             released → succeeded | failed | superseded
--
-- A job is `unknown` while its open attempt is, `queued` while it has none and is not over. `version` rises whenever
-- who may complete the job changes (completed, cancelled), so a stale compare-and-swap cannot match.
--
-- `owner_id` stands first in every key, so that the tables can be distributed by owner. Times are the database's own.

CREATE TABLE owners (
    id         uuid PRIMARY KEY,
    name       text NOT NULL CONSTRAINT owners_one_per_name UNIQUE
               CONSTRAINT owners_name_is_short CHECK (octet_length(name) BETWEEN 1 AND 200),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- The secret itself is never stored: 256 random bits need no slow hash.
CREATE TABLE api_keys (
    id            uuid PRIMARY KEY,
    owner_id      uuid NOT NULL CONSTRAINT api_keys_have_an_owner REFERENCES owners (id),
    public_id     text NOT NULL COLLATE "C" CONSTRAINT api_keys_one_per_public_id UNIQUE,
    secret_sha256 bytea NOT NULL CONSTRAINT api_keys_hash_is_sha256 CHECK (octet_length(secret_sha256) = 32),
    idempotency   text CONSTRAINT api_keys_idempotency_is_known CHECK (idempotency IN ('required', 'generate')),
    created_at    timestamptz NOT NULL DEFAULT now(),
    revoked_at    timestamptz
);

-- One row per gateway process: a fresh id at each boot, so that a restarted process never hides a dead one's work.
CREATE TABLE instances (
    id          uuid PRIMARY KEY,
    host        text NOT NULL,
    pid         bigint NOT NULL,
    booted_at   timestamptz NOT NULL DEFAULT now(),
    lease_until timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE jobs (
    owner_id            uuid NOT NULL CONSTRAINT jobs_have_an_owner REFERENCES owners (id),
    id                  uuid NOT NULL,
    idempotency_key     text COLLATE "C" NOT NULL
                        CONSTRAINT jobs_key_is_short CHECK (octet_length(idempotency_key) BETWEEN 1 AND 255),
    key_origin          text NOT NULL CONSTRAINT jobs_key_origin_is_known CHECK (key_origin IN ('client', 'gateway')),
    fingerprint         bytea NOT NULL CONSTRAINT jobs_fingerprint_is_sha256 CHECK (octet_length(fingerprint) = 32),
    fingerprint_version smallint NOT NULL,
    url                 text NOT NULL,
    route               text NOT NULL,
    delivery            text NOT NULL CONSTRAINT jobs_delivery_is_known CHECK (delivery IN ('sync', 'async')),
    state               text NOT NULL CONSTRAINT jobs_state_is_known
                        CHECK (state IN ('queued', 'running', 'unknown', 'succeeded', 'failed', 'cancelled')),
    version             bigint NOT NULL DEFAULT 0,
    round               integer NOT NULL DEFAULT 1,      -- one walk over the targets; a client's retry opens the next
    completed_by        uuid,
    error               text,                            -- JSON of the last round's failure, control characters escaped
    resume_at           timestamptz,                     -- from then on any instance may carry the job on unattended
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    deadline_at         timestamptz NOT NULL,
    closed_at           timestamptz,
    erased_at           timestamptz,                     -- payloads removed by retention; the row still refuses its key
    CONSTRAINT jobs_pkey PRIMARY KEY (owner_id, id),
    CONSTRAINT jobs_one_per_key UNIQUE (owner_id, idempotency_key),
    CONSTRAINT jobs_winner_means_succeeded CHECK ((completed_by IS NOT NULL) = (state = 'succeeded')),
    CONSTRAINT jobs_closed_means_terminal CHECK ((closed_at IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled'))),
    CONSTRAINT jobs_failed_says_why CHECK (state <> 'failed' OR error IS NOT NULL),
    CONSTRAINT jobs_resumable_is_queued CHECK (resume_at IS NULL OR state = 'queued'),
    CONSTRAINT jobs_erased_is_closed CHECK (erased_at IS NULL OR closed_at IS NOT NULL)
) WITH (fillfactor = 50);

-- Its predicate names no column that admit and finish change, so their updates stay heap-only.
CREATE INDEX jobs_to_resume ON jobs (resume_at) WHERE resume_at IS NOT NULL;

-- Payloads are bytes in tables of their own, insert-only: model output may hold \u0000, which text and jsonb refuse,
-- and narrow job rows stay cheap to update.
CREATE TABLE job_requests (
    owner_id   uuid NOT NULL,
    job_id     uuid NOT NULL,
    body       bytea NOT NULL,
    metadata   bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT job_requests_pkey PRIMARY KEY (owner_id, job_id),
    CONSTRAINT job_requests_have_a_job FOREIGN KEY (owner_id, job_id) REFERENCES jobs (owner_id, id)
);
CREATE INDEX job_requests_by_age ON job_requests (created_at);
ALTER TABLE job_requests ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE contract_runs (
    id                 uuid PRIMARY KEY,
    suite              text NOT NULL,
    suite_digest       text NOT NULL,
    provider           text NOT NULL,
    model              text NOT NULL,
    adapter_version    text NOT NULL,
    settings_digest    text NOT NULL,
    mode               text NOT NULL CONSTRAINT contract_runs_mode_is_known CHECK (mode IN ('live', 'replay')),
    verdict            text NOT NULL CONSTRAINT contract_runs_verdict_is_known CHECK (verdict IN ('running', 'passed', 'failed')),
    schema_verdict     text NOT NULL DEFAULT 'missing'
                       CONSTRAINT contract_runs_schema_is_known CHECK (schema_verdict IN ('passed', 'failed', 'missing')),
    tokenizer_verdict  text NOT NULL DEFAULT 'missing'
                       CONSTRAINT contract_runs_tokenizer_is_known CHECK (tokenizer_verdict IN ('passed', 'failed', 'missing')),
    round_trip_verdict text NOT NULL DEFAULT 'missing'
                       CONSTRAINT contract_runs_round_trip_is_known CHECK (round_trip_verdict IN ('passed', 'failed', 'missing')),
    error              text,
    instance_id        uuid CONSTRAINT contract_runs_have_an_instance REFERENCES instances (id),
    started_at         timestamptz NOT NULL DEFAULT now(),
    ended_at           timestamptz,
    CONSTRAINT contract_runs_pass_needs_all_kinds CHECK (verdict <> 'passed' OR
        (schema_verdict = 'passed' AND tokenizer_verdict = 'passed' AND round_trip_verdict = 'passed')),
    CONSTRAINT contract_runs_end_with_a_verdict CHECK ((ended_at IS NULL) = (verdict = 'running')),
    -- What a permit refers to: not the run alone, but the run *with its verdict and what it was run against*.
    CONSTRAINT contract_runs_evidence UNIQUE (id, verdict, mode, suite, suite_digest, provider, model, adapter_version, settings_digest)
);

CREATE TABLE contract_checks (
    run_id    uuid NOT NULL CONSTRAINT contract_checks_have_a_run REFERENCES contract_runs (id),
    ordinal   integer NOT NULL,
    kind      text NOT NULL CONSTRAINT contract_checks_kind_is_known CHECK (kind IN ('schema', 'tokenizer', 'round_trip')),
    name      text NOT NULL,
    case_name text NOT NULL,
    verdict   text NOT NULL CONSTRAINT contract_checks_verdict_is_known CHECK (verdict IN ('passed', 'failed', 'skipped')),
    detail    text NOT NULL,
    CONSTRAINT contract_checks_pkey PRIMARY KEY (run_id, ordinal)
);

-- A permit can only be written over a run that passed: `run_verdict` is part of the foreign key and may only say so.
CREATE TABLE permits (
    id              uuid PRIMARY KEY,
    route           text NOT NULL,
    run_id          uuid NOT NULL,
    run_verdict     text NOT NULL CONSTRAINT permits_run_has_passed CHECK (run_verdict = 'passed'),
    mode            text NOT NULL,
    suite           text NOT NULL,
    suite_digest    text NOT NULL,
    provider        text NOT NULL,
    model           text NOT NULL,
    adapter_version text NOT NULL,
    settings_digest text NOT NULL,
    granted_by      text NOT NULL,
    reason          text NOT NULL CONSTRAINT permits_say_why CHECK (reason <> ''),
    granted_at      timestamptz NOT NULL DEFAULT now(),
    expires_at      timestamptz NOT NULL,
    revoked_at      timestamptz,
    revoked_by      text,
    revoke_reason   text,
    CONSTRAINT permits_rest_on_a_passed_run
        FOREIGN KEY (run_id, run_verdict, mode, suite, suite_digest, provider, model, adapter_version, settings_digest)
        REFERENCES contract_runs (id, verdict, mode, suite, suite_digest, provider, model, adapter_version, settings_digest),
    CONSTRAINT permits_expire_later CHECK (expires_at > granted_at),
    CONSTRAINT permits_revoked_by_somebody CHECK ((revoked_at IS NULL) = (revoked_by IS NULL) AND (revoked_at IS NULL) = (revoke_reason IS NULL)),
    CONSTRAINT permits_target UNIQUE (id, provider, model)
);
CREATE INDEX permits_by_route ON permits (route, provider, model);

CREATE TABLE attempts (
    owner_id            uuid NOT NULL,
    job_id              uuid NOT NULL,
    id                  uuid NOT NULL,
    ordinal             integer NOT NULL CONSTRAINT attempts_count_from_one CHECK (ordinal >= 1),
    round               integer NOT NULL,
    state               text NOT NULL CONSTRAINT attempts_state_is_known
                        CHECK (state IN ('started', 'unknown', 'succeeded', 'failed', 'released', 'cancelled', 'superseded')),
    rank                text NOT NULL CONSTRAINT attempts_rank_is_known CHECK (rank IN ('primary', 'fallback')),
    provider            text NOT NULL,
    model               text NOT NULL,
    adapter_version     text NOT NULL,
    permit_id           uuid,
    instance_id         uuid NOT NULL CONSTRAINT attempts_have_an_instance REFERENCES instances (id),
    job_version         bigint NOT NULL,                 -- the job's version that this attempt read
    reason              text,                            -- one word: timeout, rate_limited, instance_lost, …
    message             text,                            -- the provider's or the operator's words
    proof               text,                            -- what the failure proves
    status              integer,                         -- of the provider's answer, where its head arrived
    provider_code       text,                            -- the provider's own code, type and param
    provider_type       text,
    provider_param      text,
    retry_after_ms      bigint,
    cleared_by          text,                            -- operator:<name> | policy:<route> | winner:<attempt>
    input_tokens        bigint,
    output_tokens       bigint,
    cached_input_tokens bigint,
    started_at          timestamptz NOT NULL DEFAULT now(),
    deadline_at         timestamptz NOT NULL,
    settle_until        timestamptz NOT NULL,
    ended_at            timestamptz,
    CONSTRAINT attempts_pkey PRIMARY KEY (owner_id, job_id, id),
    CONSTRAINT attempts_one_per_ordinal UNIQUE (owner_id, job_id, ordinal),
    CONSTRAINT attempts_have_a_job FOREIGN KEY (owner_id, job_id) REFERENCES jobs (owner_id, id),
    CONSTRAINT attempts_fallback_has_a_permit CHECK ((rank = 'fallback') = (permit_id IS NOT NULL)),
    CONSTRAINT attempts_permit_is_for_this_target
        FOREIGN KEY (permit_id, provider, model) REFERENCES permits (id, provider, model),
    CONSTRAINT attempts_unknown_says_why CHECK (state NOT IN ('unknown', 'failed') OR reason IS NOT NULL),
    CONSTRAINT attempts_cleared_by_somebody CHECK (state NOT IN ('released', 'superseded', 'cancelled') OR cleared_by IS NOT NULL),
    CONSTRAINT attempts_settled_have_ended CHECK (state IN ('started', 'unknown', 'released') OR ended_at IS NOT NULL)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_limit = 1000);

-- R4: at most one attempt of a job is open at any instant. An index, since a NOT EXISTS was measured to let two in.
CREATE UNIQUE INDEX attempts_one_open ON attempts (owner_id, job_id) WHERE state IN ('started', 'unknown');
CREATE UNIQUE INDEX attempts_one_winner ON attempts (owner_id, job_id) WHERE state = 'succeeded';
-- For the sweep and the operator's list: what nobody has settled, oldest first.
CREATE INDEX attempts_unsettled ON attempts (started_at) WHERE state IN ('started', 'unknown', 'released');
-- For the operator, who holds only an attempt's id.
CREATE INDEX attempts_by_id ON attempts (id);

ALTER TABLE jobs ADD CONSTRAINT jobs_completed_by_own_attempt
    FOREIGN KEY (owner_id, id, completed_by) REFERENCES attempts (owner_id, job_id, id);

CREATE TABLE job_results (
    owner_id     uuid NOT NULL,
    job_id       uuid NOT NULL,
    attempt_id   uuid NOT NULL,
    content_type text NOT NULL,
    body         bytea NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT job_results_pkey PRIMARY KEY (owner_id, job_id),
    CONSTRAINT job_results_have_an_attempt FOREIGN KEY (owner_id, job_id, attempt_id) REFERENCES attempts (owner_id, job_id, id)
);
ALTER TABLE job_results ALTER COLUMN body SET STORAGE EXTERNAL;

-- A result that arrived and was thrown away. Only its hash and its cost are kept.
CREATE TABLE races (
    owner_id      uuid NOT NULL,
    job_id        uuid NOT NULL,
    attempt_id    uuid NOT NULL,
    winner        uuid,                                  -- none where the job or the attempt was cancelled
    version_seen  bigint NOT NULL,
    arrived_at    timestamptz NOT NULL DEFAULT now(),
    input_tokens  bigint,
    output_tokens bigint,
    body_sha256   bytea NOT NULL CONSTRAINT races_hash_is_sha256 CHECK (octet_length(body_sha256) = 32),
    CONSTRAINT races_pkey PRIMARY KEY (owner_id, job_id, attempt_id),
    CONSTRAINT races_have_an_attempt FOREIGN KEY (owner_id, job_id, attempt_id) REFERENCES attempts (owner_id, job_id, id),
    CONSTRAINT races_loser_is_not_the_winner CHECK (winner IS DISTINCT FROM attempt_id)
);
CREATE INDEX races_by_time ON races (arrived_at);

-- Who did what and why. Append-only: nothing in the code updates or deletes here.
CREATE TABLE operator_actions (
    id      uuid PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now(),
    actor   text NOT NULL CONSTRAINT operator_actions_have_an_actor CHECK (actor <> ''),
    action  text NOT NULL,
    subject uuid NOT NULL,
    reason  text NOT NULL CONSTRAINT operator_actions_say_why CHECK (reason <> '')
);
CREATE INDEX operator_actions_by_subject ON operator_actions (subject);
