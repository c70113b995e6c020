-- Payloads lie by day, so that a day is removed as a whole: nothing to vacuum, and the disk is free at once.
--
-- A job's id is a UUIDv7: its first 48 bits are the milliseconds since 1970 at which it was made. A range of ids is
-- therefore a span of time, and every look-up by job goes to one day. Processes make the days ahead (store/days.rs),
-- and remove those whose jobs are through (store/retention.rs). What falls into no day, because a clock is off, lies in
-- the default partition: no job is ever refused for its id. It is swept row by row, and so is what outlived its day.
--
-- No foreign keys here, unlike elsewhere. A payload is written by the one statement that inserts or completes its job,
-- from that statement's own row, and jobs and attempts are never deleted, so a key could only prove what cannot be
-- otherwise; it cost each job some 30 us of Postgres' time, and every removal of a day an exclusive lock on `jobs`,
-- behind which all requests would stand. The tests look for payloads without a job after each of them.
--
-- `jobs.erased_at` is neither written nor read any more (older binaries do): a job has its answer from the very commit
-- in which it succeeds, so one without has been erased. That costs no write to a million tombstones.

-- In the order in which requests lock them, so that none waits in a circle.
LOCK TABLE jobs, attempts, job_requests, job_results IN ACCESS EXCLUSIVE MODE;

-- What is there stays where it is and becomes the first partition: nothing is copied.
ALTER TABLE job_requests DROP CONSTRAINT job_requests_have_a_job;
ALTER TABLE job_results DROP CONSTRAINT job_results_have_an_attempt;
ALTER TABLE job_requests RENAME TO job_requests_before;
ALTER TABLE job_results RENAME TO job_results_before;
ALTER TABLE job_requests_before RENAME CONSTRAINT job_requests_pkey TO job_requests_before_pkey;
ALTER TABLE job_results_before RENAME CONSTRAINT job_results_pkey TO job_results_before_pkey;

CREATE TABLE job_requests (
    owner_id   uuid NOT NULL,
    job_id     uuid NOT NULL,
    body       bytea NOT NULL,
    metadata   bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT job_requests_pkey PRIMARY KEY (owner_id, job_id)
) PARTITION BY RANGE (job_id);
ALTER TABLE job_requests ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE job_results (
    owner_id     uuid NOT NULL,
    job_id       uuid NOT NULL,
    attempt_id   uuid NOT NULL,
    content_type text NOT NULL,
    body         bytea NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    stream       bytea,
    stream_usage bytea,
    CONSTRAINT job_results_pkey PRIMARY KEY (owner_id, job_id)
) PARTITION BY RANGE (job_id);
ALTER TABLE job_results ALTER COLUMN body SET STORAGE EXTERNAL, ALTER COLUMN stream SET STORAGE EXTERNAL;

CREATE TABLE job_requests_default PARTITION OF job_requests DEFAULT;
CREATE TABLE job_results_default PARTITION OF job_results DEFAULT;

DO $$
DECLARE
    payload text;
    -- The first id of the day after tomorrow: clocks that are a little ahead still write into what is there.
    until uuid := lpad(to_hex((floor(extract(epoch FROM now()) / 86400)::bigint + 2) * 86400000), 12, '0') || repeat('0', 20);
    kept boolean := EXISTS (SELECT FROM job_requests_before);
BEGIN
    FOREACH payload IN ARRAY ARRAY['job_requests', 'job_results'] LOOP
        IF kept THEN
            EXECUTE format('WITH ahead AS (DELETE FROM %1$I WHERE job_id >= %2$L RETURNING *) INSERT INTO %3$I SELECT * FROM ahead',
                           payload || '_before', until, payload || '_default');
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)',
                           payload, payload || '_before', until);
        ELSE
            EXECUTE format('DROP TABLE %I', payload || '_before');
        END IF;
    END LOOP;
END $$;
