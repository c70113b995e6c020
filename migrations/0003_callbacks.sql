-- Callbacks: who wants to be told that a job is over, and how far the telling has come.

-- One row per job with a callback, committed with the job. It is due once its job is over; that is read off the job by
-- whoever looks, so that finishing a job writes nothing here. The address is erased some time after the end.
CREATE TABLE callbacks (
    owner_id    uuid NOT NULL,
    job_id      uuid NOT NULL,
    url         text NOT NULL CONSTRAINT callbacks_url_is_short CHECK (octet_length(url) BETWEEN 1 AND 2048),
    state       text NOT NULL DEFAULT 'pending'
                CONSTRAINT callbacks_state_is_known CHECK (state IN ('pending', 'delivered', 'given_up')),
    attempts    integer NOT NULL DEFAULT 0 CONSTRAINT callbacks_count_from_zero CHECK (attempts >= 0),
    next_at     timestamptz NOT NULL DEFAULT now(),      -- not before; while one is under way: the end of its lease
    last_status integer,                                 -- of the receiver's last answer, where one arrived
    last_error  text,                                    -- our own words, never the receiver's
    created_at  timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz,                             -- delivered or given up
    CONSTRAINT callbacks_pkey PRIMARY KEY (owner_id, job_id),
    CONSTRAINT callbacks_have_a_job FOREIGN KEY (owner_id, job_id) REFERENCES jobs (owner_id, id),
    CONSTRAINT callbacks_settled_have_ended CHECK ((ended_at IS NOT NULL) = (state <> 'pending')),
    CONSTRAINT callbacks_settled_were_tried CHECK (state = 'pending' OR attempts >= 1),
    CONSTRAINT callbacks_given_up_says_why CHECK (state <> 'given_up' OR last_error IS NOT NULL)
) WITH (fillfactor = 80);

CREATE INDEX callbacks_due ON callbacks (next_at) WHERE state = 'pending';
CREATE INDEX callbacks_by_end ON callbacks (ended_at) WHERE ended_at IS NOT NULL;
