-- Asking providers about attempts whose outcome nobody knows.

-- What each process was set up to ask when it started its attempts. An attempt may only be asked about where and how
-- it was sent: one sent before the way was switched on, or to another address, would pass for absent there.
CREATE TABLE lookup_places (
    instance_id uuid NOT NULL CONSTRAINT lookup_places_have_an_instance REFERENCES instances (id),
    provider    text NOT NULL,
    way         text NOT NULL,                           -- the setting `lookup`
    base_url    text NOT NULL,
    CONSTRAINT lookup_places_pkey PRIMARY KEY (instance_id, provider)
);

-- One row per attempt that is, or was, asked about. Asking has no side effects: the claim (tries, next_at) only saves
-- work, it protects nothing.
CREATE TABLE lookups (
    owner_id          uuid NOT NULL,
    job_id            uuid NOT NULL,
    attempt_id        uuid NOT NULL,
    tries             integer NOT NULL DEFAULT 0 CONSTRAINT lookups_tries_count_up CHECK (tries >= 0),
    next_at           timestamptz DEFAULT now(),         -- NULL: nobody asks any more
    quiet_since       timestamptz,                       -- its living process has said that its call has ended
    last_answer       text CONSTRAINT lookups_answer_is_known
                      CHECK (last_answer IN ('finished', 'failed', 'running', 'absent', 'unreadable', 'unreached', 'cannot_ask')),
    evidence          jsonb NOT NULL DEFAULT '[]'        -- what was asked, answered and decided, oldest first
                      CONSTRAINT lookups_evidence_is_a_list CHECK (jsonb_typeof(evidence) = 'array'),
    cancel_told_at    timestamptz,                       -- the provider was told to stop
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT lookups_pkey PRIMARY KEY (owner_id, job_id, attempt_id),
    CONSTRAINT lookups_have_an_attempt
        FOREIGN KEY (owner_id, job_id, attempt_id) REFERENCES attempts (owner_id, job_id, id)
);
CREATE INDEX lookups_due ON lookups (next_at) WHERE next_at IS NOT NULL;
