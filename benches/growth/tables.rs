//! The tables of a gateway that has been at work for a month, and what they weigh.

use std::fmt;

use interlock::domain::ids::OwnerId;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Days that the jobs are spread over. The oldest holds half of all: a day like few others.
pub const DAYS: i64 = 30;

/// Jobs as they are when they have succeeded, with a request and an answer of about 1 kB each: a day of them. Foreign
/// keys are not asked, which is the only thing that is not as the gateway does it.
const DAY: &str = "
SET session_replication_role = replica;
CREATE TEMP TABLE made AS SELECT (lpad(to_hex(ms), 12, '0') || '7' || lpad(to_hex(n % 4096), 3, '0') || '8' || substr(md5(n::text), 1, 15))::uuid AS id,
    to_timestamp(ms / 1000.0) AS at, n
FROM (SELECT n, START + n * 86400000 / JOBS AS ms FROM generate_series(0::int8, JOBS - 1) n) i;
INSERT INTO jobs (owner_id, id, idempotency_key, key_origin, fingerprint, fingerprint_version, url, route, delivery, state,
                  version, completed_by, created_at, updated_at, deadline_at, closed_at)
SELECT 'OWNER', id, 'order-' || id, 'client', sha256(id::text::bytea), 1, '/v1/chat/completions', 'support', 'sync', 'succeeded',
       1, id, at, at, at + interval '1 d', at FROM made;
INSERT INTO attempts (owner_id, job_id, id, ordinal, round, state, rank, provider, model, adapter_version, instance_id,
                      job_version, input_tokens, output_tokens, cached_input_tokens, started_at, deadline_at, settle_until, ended_at)
SELECT 'OWNER', id, id, 1, 1, 'succeeded', 'primary', 'alpha', 'm', 'openai/1', 'INSTANCE', 0, 200, 180, 0, at, at, at, at FROM made;
INSERT INTO job_requests (owner_id, job_id, body, created_at)
SELECT 'OWNER', id, convert_to(repeat(md5(n::text), 32), 'UTF8'), at FROM made;
INSERT INTO job_results (owner_id, job_id, attempt_id, content_type, body, created_at)
SELECT 'OWNER', id, id, 'application/json', convert_to(repeat(md5(n::text), 32), 'UTF8'), at FROM made;
DROP TABLE made;
SET session_replication_role = DEFAULT;";

const PARTITION: &str = "CREATE TABLE PAYLOAD_NAME PARTITION OF PAYLOAD FOR VALUES
FROM ('FROM_ID') TO ('TO_ID')";

/// Fills the tables with `jobs` that have ended in the days before today.
pub async fn fill(url: &str, owner: OwnerId, instance: &str, jobs: i64) {
    let mut connection = PgConnection::connect(url).await.expect("the database");
    let today = "SELECT floor(extract(epoch FROM now()) / 86400)::int8 * 86400000";
    let today: i64 = sqlx::query_scalar(today).fetch_one(&mut connection).await.expect("today");
    for ago in (1..=DAYS).rev() {
        let start = today - ago * 86_400_000;
        let first_id = |ms: i64| format!("{:08x}-{:04x}-0000-0000-000000000000", ms >> 16, ms & 0xffff);
        let name = "SELECT to_char(to_timestamp($1::float8 / 1000) AT TIME ZONE 'UTC', 'YYYYMMDD')";
        let name: String =
            sqlx::query_scalar(name).bind(start as f64).fetch_one(&mut connection).await.expect("a name");
        for payload in ["job_requests", "job_results"] {
            let make = PARTITION.replace("PAYLOAD", payload).replace("NAME", &name);
            let make = make.replace("FROM_ID", &first_id(start)).replace("TO_ID", &first_id(start + 86_400_000));
            run(&mut connection, make).await;
        }
        let share = if ago == DAYS { jobs / 2 } else { (jobs / 2 / (DAYS - 1)).max(1) };
        let day = DAY.replace("START", &start.to_string()).replace("JOBS", &share.to_string());
        run(&mut connection, day.replace("OWNER", &owner.to_string()).replace("INSTANCE", instance)).await;
    }
    run(&mut connection, "VACUUM ANALYZE".to_owned()).await;
    run(&mut connection, "CHECKPOINT".to_owned()).await;
}

async fn run(connection: &mut PgConnection, sql: String) {
    sqlx::raw_sql(AssertSqlSafe(sql.clone()))
        .execute(connection)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// What the tables weigh, in bytes, and their rows.
#[derive(Debug, Clone, Copy)]
pub struct Weight {
    pub jobs: i64,
    /// `jobs` and `attempts`: what stays of a job for ever.
    pub records: i64,
    pub record_indexes: i64,
    /// `job_requests` and `job_results`, with indexes.
    pub payloads: i64,
    pub dead: i64,
}

impl Weight {
    /// As the server counts now. `jobs` is counted, not estimated.
    pub async fn of(url: &str) -> Weight {
        let mut connection = PgConnection::connect(url).await.expect("the database");
        let sql = "SELECT (SELECT count(*) FROM jobs), pg_table_size('jobs') + pg_table_size('attempts'),
            pg_indexes_size('jobs') + pg_indexes_size('attempts'),
            (SELECT sum(pg_total_relation_size(inhrelid))::int8 FROM pg_inherits
             WHERE inhparent IN ('job_requests'::regclass, 'job_results'::regclass)),
            (SELECT sum(n_dead_tup)::int8 FROM pg_stat_user_tables)";
        // Backends tell what they did at most once a second.
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        let (jobs, records, record_indexes, payloads, dead) =
            sqlx::query_as(sql).fetch_one(&mut connection).await.expect("the sizes");
        Weight { jobs, records, record_indexes, payloads, dead }
    }

    /// Bytes of record for each job.
    pub fn record(&self) -> i64 {
        (self.records + self.record_indexes) / self.jobs.max(1)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: i64| bytes as f64 / 1e6;
        let (rows, indexes, payloads) = (mb(self.records), mb(self.record_indexes), mb(self.payloads));
        write!(
            f,
            "{} jobs: records {rows:.0} MB, their indexes {indexes:.0} MB, payloads {payloads:.0} MB; ",
            self.jobs
        )?;
        write!(f, "{} bytes of record a job; {} dead rows", self.record(), self.dead)
    }
}
