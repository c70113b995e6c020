-- Streams: what a client saw of one, so that a replay shows it the same bytes; and followers in other processes.

-- The chunks as delivered, each one JSON text, a line each; NULL where the job was answered whole. The usage chunk
-- stands apart: only clients that asked for it get it.
ALTER TABLE job_results ADD COLUMN stream bytea, ADD COLUMN stream_usage bytea;
ALTER TABLE job_results ALTER COLUMN stream SET STORAGE EXTERNAL;

-- Somebody in another process follows this job's running stream: its process writes the chunks down while this holds.
CREATE TABLE stream_followers (
    owner_id uuid NOT NULL,
    job_id   uuid NOT NULL,
    until    timestamptz NOT NULL,
    CONSTRAINT stream_followers_pkey PRIMARY KEY (owner_id, job_id),
    CONSTRAINT stream_followers_have_a_job FOREIGN KEY (owner_id, job_id) REFERENCES jobs (owner_id, id)
);

-- Chunks on their way to followers; the stored result is what lasts. Removed some time after they were written.
CREATE TABLE stream_chunks (
    owner_id   uuid NOT NULL,
    job_id     uuid NOT NULL,
    attempt_id uuid NOT NULL,
    seq        integer NOT NULL CONSTRAINT stream_chunks_count_from_zero CHECK (seq >= 0),
    data       bytea NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT stream_chunks_pkey PRIMARY KEY (owner_id, job_id, attempt_id, seq),
    CONSTRAINT stream_chunks_have_an_attempt
        FOREIGN KEY (owner_id, job_id, attempt_id) REFERENCES attempts (owner_id, job_id, id)
);
CREATE INDEX stream_chunks_by_age ON stream_chunks (written_at);
