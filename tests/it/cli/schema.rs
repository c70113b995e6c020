//! `migrate`, alone and by many at once, on somebody's Postgres and on the private one.

use std::process::Child;

use super::on;
use crate::command::{Ran, Workplace};
use crate::support::cluster::Database;

const EMPTY: &str = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";

#[tokio::test(flavor = "multi_thread")]
async fn migrating_twice_is_the_same_as_once() {
    let database = Database::fresh().await;
    database.execute(EMPTY).await;
    let cli = on(&database, "");
    for _ in 0..2 {
        assert_eq!(cli.run(&["migrate", "--json"]).expect(0).json(), serde_json::json!({"migrated": true}));
    }
    assert_eq!(database.count("SELECT count(*) FROM owners").await, 0);
}

/// B141, B142: the bookkeeping table itself is made under the lock.
#[tokio::test(flavor = "multi_thread")]
async fn eight_processes_migrate_an_empty_database_at_once_and_all_succeed() {
    let database = Database::fresh().await;
    for _ in 0..3 {
        database.execute(EMPTY).await;
        let cli = on(&database, "");
        let started: Vec<Child> = (0..8)
            .map(|_| {
                let mut command = cli.command(&["migrate"]);
                command
                    .stdout(std::process::Stdio::piped())
                    .stderr(std::process::Stdio::piped())
                    .spawn()
                    .expect("it starts")
            })
            .collect();
        for child in started {
            Ran::from(child.wait_with_output().expect("it ends")).expect(0);
        }
        let applied = database.count("SELECT count(*) FROM _sqlx_migrations WHERE success").await;
        assert_eq!(applied, database.count("SELECT count(DISTINCT version) FROM _sqlx_migrations").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_is_newer_than_the_binary_is_refused() {
    let database = Database::fresh().await;
    database
        .execute("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (99999, 'from the future', true, '', 0)")
        .await;
    on(&database, "").run(&["migrate"]).expect(2).says(&["migrations", "99999"]);
}

#[test]
fn without_a_database_url_a_private_postgres_is_started_and_stopped_with_the_command() {
    let cli = Workplace::new("[database]\ndata_dir = \"data\"\n");
    cli.run(&["migrate"]).expect(0);
    assert!(!cli.path().join("data/postgres/data/postmaster.pid").exists(), "it was stopped");
    cli.run(&["key", "create", "--owner", "acme", "--json"]).expect(0);
    assert_eq!(cli.run(&["key", "list", "--json"]).expect(0).json()[0]["owner"], "acme", "and its data was kept");
}

#[test]
fn a_data_folder_that_the_server_s_user_cannot_reach_is_named_with_the_cure() {
    use std::os::unix::fs::PermissionsExt;
    if !nix::unistd::geteuid().is_root() {
        // Only root has to leave the folder to another user.
        return;
    }
    let cli = Workplace::new("[database]\ndata_dir = \"closed/data\"\n");
    let closed = cli.path().join("closed");
    std::fs::create_dir(&closed).expect("a folder");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).expect("closed");
    cli.run(&["migrate"]).expect(2).says(&[&closed.display().to_string(), "data_dir"]);
}
