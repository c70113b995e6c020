//! The database as the checker sees it: a log of every transition that triggers of the test's own write, the guards
//! that a mutant takes out, and the tables at the end.

use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// Every change of a job's or an attempt's state, in the order of their commits: all of them lock the job's row.
const AUDIT: &str = r#"
CREATE TABLE history_audit (
    seq bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
    tx bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    job uuid NOT NULL, attempt uuid, was text, became text NOT NULL, version bigint, completed_by uuid,
    reason text, proof text, cleared_by text, ordinal integer
);
CREATE FUNCTION history_of_jobs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO history_audit (job, was, became, version, completed_by)
    VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.state END, NEW.state, NEW.version, NEW.completed_by);
    RETURN NULL;
END $$;
CREATE FUNCTION history_of_attempts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO history_audit (job, attempt, was, became, reason, proof, cleared_by, ordinal)
    VALUES (NEW.job_id, NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.state END, NEW.state, NEW.reason, NEW.proof,
            NEW.cleared_by, NEW.ordinal);
    RETURN NULL;
END $$;
CREATE TRIGGER history_jobs_new AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION history_of_jobs();
CREATE TRIGGER history_jobs AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.version IS DISTINCT FROM NEW.version
          OR OLD.completed_by IS DISTINCT FROM NEW.completed_by) EXECUTE FUNCTION history_of_jobs();
CREATE TRIGGER history_attempts_new AFTER INSERT ON attempts FOR EACH ROW EXECUTE FUNCTION history_of_attempts();
CREATE TRIGGER history_attempts AFTER UPDATE ON attempts FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION history_of_attempts();
"#;

/// Guards of the database that a mutant takes out. A constraint that statements name keeps its name and loses its bite.
const MUTANTS: [(&str, &str); 6] = [
    ("async_commit", "ALTER DATABASE history SET synchronous_commit = off"),
    (
        "one_per_key",
        "ALTER TABLE jobs DROP CONSTRAINT jobs_one_per_key;
         ALTER TABLE jobs ADD CONSTRAINT jobs_one_per_key UNIQUE (owner_id, idempotency_key, id)",
    ),
    ("one_open", "DROP INDEX attempts_one_open"),
    ("one_winner", "DROP INDEX attempts_one_winner"),
    ("one_per_ordinal", "ALTER TABLE attempts DROP CONSTRAINT attempts_one_per_ordinal"),
    (
        "job_checks",
        "ALTER TABLE jobs DROP CONSTRAINT jobs_winner_means_succeeded;
         ALTER TABLE jobs DROP CONSTRAINT jobs_closed_means_terminal;
         ALTER TABLE job_results DROP CONSTRAINT job_results_pkey;
         DROP INDEX attempts_one_winner",
    ),
];

pub async fn prepare(url: &str, mutant: Option<&str>) {
    let mut connection = PgConnection::connect(url).await.expect("the database answers");
    sqlx::raw_sql(AUDIT).execute(&mut connection).await.expect("the triggers");
    for name in mutant.into_iter().flat_map(|names| names.split(',')) {
        let found = MUTANTS.iter().find(|(known, _)| *known == name);
        let (_, ddl) = found.unwrap_or_else(|| panic!("no mutant `{name}`; known are {:?}", MUTANTS.map(|(n, _)| n)));
        sqlx::raw_sql(*ddl).execute(&mut connection).await.expect("the mutant");
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub owner: String,
    pub id: String,
    pub key: String,
    pub state: String,
    pub version: i64,
    pub delivery: String,
    pub completed_by: Option<String>,
    pub has_error: bool,
    pub request: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attempt {
    pub job: String,
    pub id: String,
    pub ordinal: i64,
    pub state: String,
    pub provider: String,
    pub reason: Option<String>,
    pub proof: Option<String>,
    pub cleared_by: Option<String>,
    pub pid: i64,
    pub host: String,
    pub started: i64,
    pub ended: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stored {
    pub job: String,
    pub attempt: String,
    pub body: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Race {
    pub job: String,
    pub attempt: String,
    pub winner: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Action {
    pub action: String,
    pub subject: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Step {
    pub at: i64,
    pub tx: i64,
    pub job: String,
    pub attempt: Option<String>,
    pub was: Option<String>,
    pub became: String,
    pub version: Option<i64>,
    pub completed_by: Option<String>,
    pub reason: Option<String>,
    pub proof: Option<String>,
    pub cleared_by: Option<String>,
    pub ordinal: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Dump {
    pub jobs: Vec<Job>,
    pub attempts: Vec<Attempt>,
    pub results: Vec<Stored>,
    pub races: Vec<Race>,
    pub actions: Vec<Action>,
    pub audit: Vec<Step>,
}

const DUMP: &str = "SELECT jsonb_build_object(
 'jobs', (SELECT coalesce(jsonb_agg(jsonb_build_object('owner', w.name, 'id', j.id, 'key', j.idempotency_key, 'state', j.state,
    'version', j.version, 'delivery', j.delivery, 'completed_by', j.completed_by, 'has_error', j.error IS NOT NULL,
    'request', convert_from(r.body, 'UTF8'))), '[]') FROM jobs j JOIN owners w ON w.id = j.owner_id
    LEFT JOIN job_requests r ON r.owner_id = j.owner_id AND r.job_id = j.id),
 'attempts', (SELECT coalesce(jsonb_agg(jsonb_build_object('job', a.job_id, 'id', a.id, 'ordinal', a.ordinal, 'state', a.state,
    'provider', a.provider, 'reason', a.reason, 'proof', a.proof, 'cleared_by', a.cleared_by, 'pid', i.pid, 'host', i.host,
    'started', (extract(epoch FROM a.started_at) * 1000000)::bigint,
    'ended', (extract(epoch FROM a.ended_at) * 1000000)::bigint)), '[]') FROM attempts a JOIN instances i ON i.id = a.instance_id),
 'results', (SELECT coalesce(jsonb_agg(jsonb_build_object('job', job_id, 'attempt', attempt_id, 'body', convert_from(body, 'UTF8'))), '[]') FROM job_results),
 'races', (SELECT coalesce(jsonb_agg(jsonb_build_object('job', job_id, 'attempt', attempt_id, 'winner', winner)), '[]') FROM races),
 'actions', (SELECT coalesce(jsonb_agg(jsonb_build_object('action', action, 'subject', subject)), '[]') FROM operator_actions),
 'audit', (SELECT coalesce(jsonb_agg(jsonb_build_object('at', (extract(epoch FROM at) * 1000000)::bigint, 'tx', tx, 'job', job, 'attempt', attempt, 'was', was,
    'became', became, 'version', version, 'completed_by', completed_by, 'reason', reason, 'proof', proof,
    'cleared_by', cleared_by, 'ordinal', ordinal) ORDER BY seq), '[]') FROM history_audit))::text";

/// Everything, in one snapshot.
pub async fn take(url: &str) -> Dump {
    let mut connection = PgConnection::connect(url).await.expect("the database answers");
    let text: String = sqlx::query_scalar(DUMP).fetch_one(&mut connection).await.expect("the tables can be read");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("the dump cannot be read: {error}"))
}

/// The one number that a query gives; `None` while the database is away.
pub async fn number(url: &str, sql: &str) -> Option<i64> {
    let mut connection = PgConnection::connect(url).await.ok()?;
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.ok()
}
