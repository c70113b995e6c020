#!/bin/sh
# Proof that the history test can fail: each mutant takes one guard, or a pair of redundant ones, out of a copy of the
# repository, builds there, runs a short history and expects a named invariant to catch it. The repository itself is
# never touched. `mutants.sh` runs all, `mutants.sh NAME...` some, `mutants.sh --check` only tells whether each still
# matches exactly once. MUTANT_DIR (default /tmp/history-mutants) keeps the copy and its target folder for the next time.
exec python3 - "$(cd "$(dirname "$0")/../.." && pwd)" "$@" <<'PY'
import os, re, shutil, subprocess, sys, time

top, asked = sys.argv[1], sys.argv[2:]
A, I, J, S = 'src/store/attempts.rs', 'src/store/instances.rs', 'src/store/jobs.rs', 'src/engine/settle.rs'
C = 'src/store/writer_completions.rs'
SWEPT = "message = 'no outcome was recorded for this attempt'\n    FROM job WHERE a.owner_id = job.owner_id AND a.job_id = job.id AND a.id = job.attempt_id AND a.state = 'started'"
WINS = "      AND a.state || '' IN ('started', 'unknown', 'released')\n      AND a.job_version = job.version AND job.completed_by IS NULL AND job.state IN ('queued', 'running', 'unknown')\n"
# name: (replacements of file, old, new), guards of the database that go too
MUTANTS = {
    'timeout_fails': ([(S, 'self.write_unknown(key, target, reason, &message).await;',
        'let failure = Failure::new(Proof::EndedWithoutResult, "server_error", format!("{reason}: {message}"));\n                self.settle_failure(key, target, failure).await;')], ''),
    'sweep_without_state': ([(I, SWEPT, SWEPT.replace(" AND a.state = 'started'", ''))], ''),
    'sweep_fails': ([(I, "SET state = 'unknown', reason = job.reason, message = 'no outcome", "SET state = 'failed', ended_at = now(), proof = 'ended_without_result', reason = job.reason, message = 'no outcome"),
        (I, "), unknown AS (\n    UPDATE jobs SET state = 'unknown', updated_at = now() FROM attempt\n    WHERE jobs.owner_id = attempt.owner_id AND jobs.id = attempt.job_id AND jobs.state = 'running'\n)\nSELECT count(*) FROM attempt\";\n\nconst SWEEP_OWN",
         "), unknown AS (\n    UPDATE jobs SET state = 'queued', updated_at = now() FROM attempt\n    WHERE jobs.owner_id = attempt.owner_id AND jobs.id = attempt.job_id AND jobs.state = 'running'\n)\nSELECT count(*) FROM attempt\";\n\nconst SWEEP_OWN")], ''),
    'complete_without_guards': ([(C, WINS, '')], ''),
    'complete_without_completed_by': ([(C, WINS, "      AND a.state || '' IN ('started', 'unknown', 'released')\n")], ''),
    'complete_twice': ([(C, WINS, "      AND a.state || '' IN ('started', 'unknown', 'released')\n"),
        (C, " AND jobs.id = attempt.job_id AND jobs.completed_by IS NULL\n", " AND jobs.id = attempt.job_id\n")], 'job_checks'),
    'start_without_queued': ([(A, "AND state = 'queued' AND completed_by IS NULL AND round IN", 'AND completed_by IS NULL AND round IN')], ''),
    'start_without_queued_or_index': ([(A, "AND state = 'queued' AND completed_by IS NULL AND round IN", 'AND completed_by IS NULL AND round IN')], 'one_open'),
    'call_before_commit': ([('src/engine/run_job/start.rs', '''        match self.engine.store().start_attempt(&new).await {
            Ok(()) => {
                self.instance = new.instance;
                self.attempts = snapshot.attempts.len() + 1;
                self.begin(id, &new.candidate, written);
            }''', '''        self.begin(id, &new.candidate, written);
        match self.engine.store().start_attempt(&new).await {
            Ok(()) => {
                self.instance = new.instance;
                self.attempts = snapshot.attempts.len() + 1;
            }''')], ''),
    'look_up_then_insert': ([(J, '''            match self.admissions.write(Arc::clone(&new)).await? {''', '''            match self.job_by_key(new.owner, &new.idempotency_key).await? {
                Some(there) if there.job.id != new.id => return Ok(Admitted::Existing(Box::new(there), None)),
                _ => {}
            }
            match self.admissions.write(Arc::clone(&new)).await? {''')], 'one_per_key'),
    'unknown_without_state': ([(A, "a.id = $3 AND a.state = 'started'\n    RETURNING a.owner_id, a.job_id\n)\nUPDATE jobs SET state = 'unknown'", "a.id = $3\n    RETURNING a.owner_id, a.job_id\n)\nUPDATE jobs SET state = 'unknown'")], ''),
    'fail_without_state': ([(A, "      AND a.state IN ('started', 'unknown', 'released')\n    RETURNING a.owner_id, a.job_id, before.state AS was", '    RETURNING a.owner_id, a.job_id, before.state AS was')], ''),
    'race_not_logged': ([(A, "WHERE a.owner_id = $1 AND a.job_id = $2 AND a.id = $3\nON CONFLICT", "WHERE a.owner_id = $1 AND a.job_id = $2 AND a.id = $3 AND false\nON CONFLICT")], ''),
    'stream_without_end': ([('providers/openai/stream.rs', "self.complete || self.assembly.finished().is_some_and(|choices| choices as u64 >= wanted)", "self.complete || wanted > 0")], ''),
    'reset_is_not_sent': ([('providers/transport/classify.rs', None, None)], ''),
    'owner_not_asked': ([(J, 'snapshot_sql!("job", "WHERE j.owner_id = $1 AND j.id = $2")', 'snapshot_sql!("job", "WHERE j.id = $2 AND $1 IS NOT NULL")')], ''),
    'key_without_payload': ([('src/engine/submit.rs', 'if snapshot.job.fingerprint != asked {', 'if snapshot.job.fingerprint != asked && snapshot.attempts.is_empty() {')], ''),
    'database: async_commit': ([], 'async_commit'),
    'database: one_per_key': ([], 'one_per_key'),
    'database: one_open': ([], 'one_open'),
    'database: one_winner': ([], 'one_winner'),
    'database: one_per_ordinal': ([], 'one_per_ordinal'),
}
MUTANTS.pop('reset_is_not_sent')
folder = os.environ.get('MUTANT_DIR', '/tmp/history-mutants')
copy, target = folder + '/repository', folder + '/target'
os.makedirs(folder, exist_ok=True)

def refresh():
    subprocess.run(['rsync', '-a', '--delete', '--exclude', '/target', '--exclude', '/.git', top + '/', copy], check=True) if shutil.which('rsync') \
        else (shutil.rmtree(copy, ignore_errors=True), shutil.copytree(top, copy, ignore=shutil.ignore_patterns('target', '.git'), copy_function=shutil.copy2))

def apply(replacements):
    for file, old, new in replacements:
        text = open(f'{copy}/{file}').read()
        assert text.count(old) == 1, f'{file}: {text.count(old)} matches instead of one: {old}'
        open(f'{copy}/{file}', 'w').write(text.replace(old, new))

refresh()
chosen = [n for n in MUTANTS if not asked or asked == ['--check'] or n in asked]
for name in chosen:
    replacements, guards = MUTANTS[name]
    before = {file: open(f'{copy}/{file}').read() for file, _, _ in replacements}
    apply(replacements)
    if asked != ['--check']:
        environment = dict(os.environ, CARGO_TARGET_DIR=target)
        began = time.time()
        built = subprocess.run(['cargo', 'test', '--offline', '--test', 'history', '--no-run'], cwd=copy, env=environment, capture_output=True, text=True)
        if built.returncode:
            print(f'| {name} | does not build | | |\n{built.stderr[-2000:]}', flush=True)
        else:
            build_time, caught, seed, took = time.time() - began, set(), 0, 0.0
            for seed in (1, 2, 3):
                began = time.time()
                command = ['cargo', 'test', '--offline', '--test', 'history', '--', '--seed', str(seed), '--seconds', '10']
                if guards:
                    command += ['--mutant', guards]
                said = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True).stdout
                took = time.time() - began
                caught = {f'{m[0]} ×{m[1] or 1}' for m in re.findall(r'^ +(INV-\d+)(?: \(1 of (\d+)\))?:', said, re.M)}
                if caught:
                    break
            print(f'| {name} | {", ".join(sorted(caught)) or "**survived**"} | {seed} | {took:.0f} |   <!-- built in {build_time:.0f} s -->', flush=True)
    for file, text in before.items():
        open(f'{copy}/{file}', 'w').write(text)
print(f'{len(chosen)} mutants', flush=True)
PY
