-- Evidence ages: why a permit ended, who rechecks it, and what live answers say of it.

-- A permit ends once, whoever ends it, and for good. An older binary that revokes writes no cause: it was an operator.
ALTER TABLE permits
    ADD COLUMN ended_cause text CONSTRAINT permits_ended_cause_is_known
        CHECK (ended_cause IN ('operator', 'changed', 'recheck', 'drift', 'renewed')),
    ADD COLUMN renews uuid CONSTRAINT permits_renew_a_permit REFERENCES permits (id),
    ADD CONSTRAINT permits_cause_means_ended CHECK (ended_cause IS NULL OR revoked_at IS NOT NULL),
    ADD CONSTRAINT permits_renew_another CHECK (renews <> id);
CREATE INDEX permits_live ON permits (expires_at) WHERE revoked_at IS NULL;

-- One row per permit whose evidence has grown too old. The claim is what keeps a run from being made twice: it stands
-- as long as its instance's lease, and for two hours at most.
CREATE TABLE rechecks (
    permit_id  uuid NOT NULL CONSTRAINT rechecks_have_a_permit REFERENCES permits (id),
    tries      integer NOT NULL CONSTRAINT rechecks_tries_count_from_one CHECK (tries >= 1),
    claimed_by uuid CONSTRAINT rechecks_are_claimed_by_an_instance REFERENCES instances (id),
    claimed_at timestamptz,
    next_at    timestamptz DEFAULT now(),                -- NULL: it has been decided, one way or the other
    run_id     uuid CONSTRAINT rechecks_have_a_run REFERENCES contract_runs (id),
    last_error text,                                     -- why the run could not be made
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT rechecks_pkey PRIMARY KEY (permit_id),
    CONSTRAINT rechecks_claim_is_whole CHECK ((claimed_by IS NULL) = (claimed_at IS NULL))
);

-- How live answers were judged, in buckets of time. No text of any of them.
CREATE TABLE drift_counts (
    route        text NOT NULL,
    provider     text NOT NULL,
    model        text NOT NULL,
    suite_digest text NOT NULL,
    bucket       timestamptz NOT NULL,
    verdict      text NOT NULL CONSTRAINT drift_counts_have_a_verdict CHECK (verdict <> ''),   -- kept, or the check that it failed
    answers      bigint NOT NULL CONSTRAINT drift_counts_count_up CHECK (answers > 0),
    CONSTRAINT drift_counts_pkey PRIMARY KEY (route, provider, model, suite_digest, bucket, verdict)
) WITH (fillfactor = 70);
CREATE INDEX drift_counts_by_age ON drift_counts (bucket);

-- Targets whose live answers broke the contract. Open until a run of the suite that began later has passed, live:
-- that is read off contract_runs, so nothing can forget to close it and nothing else can.
CREATE TABLE contract_circuits (
    id           uuid NOT NULL,
    route        text NOT NULL,
    provider     text NOT NULL,
    model        text NOT NULL,
    suite        text NOT NULL,
    suite_digest text NOT NULL,
    opened_at    timestamptz NOT NULL DEFAULT now(),
    reason       text NOT NULL CONSTRAINT contract_circuits_say_why CHECK (reason <> ''),
    CONSTRAINT contract_circuits_pkey PRIMARY KEY (route, provider, model),
    CONSTRAINT contract_circuits_one_per_id UNIQUE (id)
);
