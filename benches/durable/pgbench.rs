//! What the database alone does with the same rows, one job at a time: pgbench with the two statements of a job, as
//! they are without a writer that lets jobs share them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::world::World;

/// pgbench needs a connection each, and more than this many make it slower.
pub const MOST_CLIENTS: usize = 64;

/// `:n` counts the jobs of one client; ids rise with it, so that index leaves fill in order, as with UUIDv7.
const SCRIPT: &str = r"\set n :n + 1
WITH ids AS (
    SELECT (lpad(to_hex(:round::int8), 8, '0') || lpad(to_hex(:client_id::int8), 8, '0') || lpad(to_hex(:n::int8), 16, '0'))::uuid AS id
), job AS (
    INSERT INTO jobs (owner_id, id, idempotency_key, key_origin, fingerprint, fingerprint_version, url, route, delivery,
                      state, deadline_at)
    SELECT 'OWNER', id, 'pgbench-' || id, 'client', '\x0707070707070707070707070707070707070707070707070707070707070707', 1,
           '/v1/chat/completions', 'support', 'sync', 'running', now() + interval '1 d' FROM ids
    WHERE EXISTS (SELECT 1 FROM instances WHERE id = 'INSTANCE' AND lease_until > now())
    ON CONFLICT ON CONSTRAINT jobs_one_per_key DO NOTHING
    RETURNING owner_id, id, version
), request AS (
    INSERT INTO job_requests (owner_id, job_id, body) SELECT owner_id, id, 'REQUEST' FROM job
)
INSERT INTO attempts (owner_id, job_id, id, ordinal, round, state, rank, provider, model, adapter_version, instance_id,
                      job_version, deadline_at, settle_until)
SELECT owner_id, id, id, 1, 1, 'started', 'primary', 'alpha', 'm', 'openai/1', 'INSTANCE', version,
       now() + interval '30 s', now() + interval '10 min' FROM job;
WITH ids AS (
    SELECT (lpad(to_hex(:round::int8), 8, '0') || lpad(to_hex(:client_id::int8), 8, '0') || lpad(to_hex(:n::int8), 16, '0'))::uuid AS id
), job AS (
    SELECT owner_id, id, version, completed_by, state FROM jobs
    WHERE owner_id = 'OWNER' AND id = (SELECT id FROM ids) FOR UPDATE
), attempt AS (
    UPDATE attempts a SET state = 'succeeded', cleared_by = NULL, input_tokens = 200, output_tokens = 180,
           cached_input_tokens = 0, ended_at = now()
    FROM job WHERE a.owner_id = job.owner_id AND a.job_id = job.id AND a.id = job.id
      AND a.state IN ('started', 'unknown', 'released')
      AND a.job_version = job.version AND job.completed_by IS NULL AND job.state IN ('queued', 'running', 'unknown')
    RETURNING a.owner_id, a.job_id, a.id
), won AS (
    UPDATE jobs SET state = 'succeeded', version = jobs.version + 1, completed_by = attempt.id, error = NULL,
           resume_at = NULL, updated_at = now(), closed_at = now()
    FROM attempt WHERE jobs.owner_id = attempt.owner_id AND jobs.id = attempt.job_id AND jobs.completed_by IS NULL
    RETURNING jobs.owner_id, jobs.id
), result AS (
    INSERT INTO job_results (owner_id, job_id, attempt_id, content_type, body)
    SELECT owner_id, id, id, 'application/json', 'RESULT' FROM won
), losers AS (
    UPDATE attempts a SET state = 'released', cleared_by = 'winner:' || won.id FROM won
    WHERE a.owner_id = won.owner_id AND a.job_id = won.id AND a.id <> won.id AND a.state IN ('started', 'unknown')
)
SELECT EXISTS (SELECT 1 FROM won) AS won FROM job;
";

/// Jobs a second.
pub fn run(world: &World, clients: usize, seconds: u64, round: usize, request: &str) -> f64 {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("job.sql");
    let script = SCRIPT
        .replace("OWNER", &world.owner.to_string())
        .replace("INSTANCE", &world.instance.to_string())
        .replace("REQUEST", &format!(r"\x{}", hex(request.as_bytes())))
        .replace("RESULT", &format!(r"\x{}", hex("r".repeat(1060).as_bytes())));
    std::fs::write(&file, script).expect("the script");
    let said = Command::new(program())
        .args(["-n", "-M", "prepared", "-j", "1", "-D", "n=0"])
        .args(["-c", &clients.min(MOST_CLIENTS).to_string(), "-T", &seconds.to_string()])
        .args(["-D", &format!("round={round}"), "-f"])
        .arg(&file)
        .arg(&world.url)
        .stderr(Stdio::piped())
        .output()
        .expect("pgbench runs");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    let why = String::from_utf8_lossy(&said.stderr);
    rate.unwrap_or_else(|| panic!("pgbench: {}", why.lines().take(3).collect::<String>()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// From the path, or from Debian's folders.
fn program() -> PathBuf {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = debian.map(|entry| entry.path().join("bin/pgbench")).filter(|path| path.exists()).max();
    newest.unwrap_or_else(|| Path::new("pgbench").to_owned())
}
