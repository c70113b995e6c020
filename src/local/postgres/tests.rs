//! A private server started, reused, crashed and refused, for real.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;

use super::*;

/// A folder that the server's user can pass, also when the tests run as root.
fn folder() -> TempDir {
    tempfile::Builder::new().prefix("pg").permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap()
}

async fn ask(server: &PrivatePostgres, database: &str, question: &'static str) -> String {
    let options = PgConnectOptions::from_str(&server.url(database)).unwrap();
    let mut connection = PgConnection::connect_with(&options).await.unwrap();
    let answer: String = sqlx::query_scalar(question).fetch_one(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    answer
}

async fn answers(server_folder: &Path) -> bool {
    running::probe(server_folder).await.is_ok()
}

#[tokio::test]
async fn a_server_starts_answers_and_stops() {
    let home = folder();
    let server = PrivatePostgres::start(&home.path().join("new/data")).await.unwrap();
    assert!(!server.reused());
    server.ensure_database("gate \"way\"").await.unwrap();
    server.ensure_database("gate \"way\"").await.unwrap();
    assert_eq!(ask(&server, "gate \"way\"", "SELECT current_database()::text").await, "gate \"way\"");
    for (setting, value) in [
        ("SELECT current_setting('fsync')", "on"),
        ("SELECT current_setting('synchronous_commit')", "on"),
        ("SELECT current_setting('TimeZone')", "UTC"),
        ("SELECT current_setting('server_encoding')", "UTF8"),
        ("SELECT current_setting('max_connections')", "100"),
        ("SELECT current_setting('listen_addresses')", ""),
    ] {
        assert_eq!(ask(&server, "postgres", setting).await, value, "{setting}");
    }
    let socket = server.socket_folder.clone();
    assert_eq!(std::fs::metadata(&server.place.home).unwrap().mode() & 0o777, 0o700);
    assert_eq!(std::fs::metadata(&socket).unwrap().mode() & 0o777, 0o700);
    let pid = server.pid;
    if let Ok(environment) = std::fs::read_to_string(format!("/proc/{pid}/environ")) {
        assert!(!environment.contains("CARGO"), "this program's environment holds secrets: {environment}");
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert_eq!(
            stat.split(' ').nth(4).unwrap(),
            pid.to_string(),
            "its own process group: no Ctrl-C from the terminal"
        );
    }
    server.stop().await.unwrap();
    assert!(!answers(&socket).await);
    assert!(!running::is_alive(pid));
}

#[tokio::test]
async fn what_was_committed_is_there_at_the_next_start() {
    let home = folder();
    let first = PrivatePostgres::start(home.path()).await.unwrap();
    first.ensure_database("kept").await.unwrap();
    drop(first);
    let second = PrivatePostgres::start(home.path()).await.unwrap();
    assert!(!second.reused(), "dropping a handle stops the server");
    assert_eq!(ask(&second, "kept", "SELECT 'here'").await, "here");
    second.stop().await.unwrap();
}

#[tokio::test]
async fn two_starts_at_once_share_one_server_and_the_first_stop_leaves_it_to_the_other() {
    let home = folder();
    let start = || PrivatePostgres::start_throwaway(home.path());
    let (left, right) = tokio::join!(start(), start());
    let (left, right) = (left.unwrap(), right.unwrap());
    assert_ne!(left.reused(), right.reused(), "one starts, the other reuses");
    let (starter, guest) = if left.reused() { (right, left) } else { (left, right) };
    let socket = guest.socket_folder.clone();
    starter.stop().await.unwrap();
    assert_eq!(ask(&guest, "postgres", "SELECT 'still here'").await, "still here");
    guest.stop().await.unwrap();
    assert!(!answers(&socket).await, "the last one out stops it");
}

#[tokio::test]
async fn the_server_of_a_killed_process_is_found_reused_and_stopped_in_the_end() {
    let home = folder();
    let ready = home.path().join("ready");
    let mut owner = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            &format!("{}::an_owner_that_will_be_killed", module_path!().split_once("::").unwrap().1),
        ])
        .env("INTERLOCK_TEST_OWNER", home.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + READY_LIMIT;
    while !ready.exists() {
        assert!(Instant::now() < until && owner.try_wait().unwrap().is_none(), "the owner did not come up");
        tokio::time::sleep(POLL).await;
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    let heir = PrivatePostgres::start_throwaway(home.path()).await.unwrap();
    assert!(heir.reused());
    assert_eq!(ask(&heir, "postgres", "SELECT 'alive'").await, "alive");
    let (socket, pid, cluster) = (heir.socket_folder.clone(), heir.pid, heir.place.cluster());
    heir.stop().await.unwrap();
    assert!(!answers(&socket).await);
    assert!(running::is_gone(pid, &cluster));
}

/// Not a test: the process that the test above kills.
#[tokio::test]
#[ignore = "run by the_server_of_a_killed_process_is_found_reused_and_stopped_in_the_end"]
async fn an_owner_that_will_be_killed() {
    let Some(home) = std::env::var_os("INTERLOCK_TEST_OWNER") else { return };
    let _server = PrivatePostgres::start_throwaway(Path::new(&home)).await.unwrap();
    std::fs::write(Path::new(&home).join("ready"), "").unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_stale_pid_file_does_not_keep_the_server_from_starting() {
    let home = folder();
    let server = PrivatePostgres::start_throwaway(home.path()).await.unwrap();
    let (cluster, account) = (server.place.cluster(), server.place.account.clone());
    let file = cluster.join("postmaster.pid");
    let text = std::fs::read_to_string(&file).unwrap();
    server.stop().await.unwrap();
    let mut other = cluster::command(Path::new("/bin/sleep"), &account, Path::new("/"));
    let mut other = other.arg("600").kill_on_drop(true).spawn().unwrap();
    let reused_pid = other.id().unwrap();
    for pid in [reused_pid, 4_000_000, std::process::id()] {
        let (_, rest) = text.split_once('\n').unwrap();
        std::fs::write(&file, format!("{pid}\n{rest}")).unwrap();
        std::os::unix::fs::chown(&file, Some(account.uid), Some(account.gid)).unwrap();
        let server = PrivatePostgres::start_throwaway(home.path()).await.unwrap();
        assert!(!server.reused(), "pid {pid}");
        server.stop().await.unwrap();
    }
    assert!(other.try_wait().unwrap().is_none(), "the other program was left alone");
    other.kill().await.unwrap();
}

#[tokio::test]
async fn a_server_that_crashed_is_started_again_and_the_new_one_is_stopped() {
    let home = folder();
    let first = PrivatePostgres::start_throwaway(home.path()).await.unwrap();
    running::ask_to_end(first.pid, Signal::SIGKILL);
    let second = PrivatePostgres::start_throwaway(home.path()).await.unwrap();
    assert!(!second.reused());
    second.stop().await.unwrap();
    let socket = first.socket_folder.clone();
    assert!(answers(&socket).await, "the first still uses what runs there");
    first.stop().await.unwrap();
    assert!(!answers(&socket).await);
}

#[tokio::test]
async fn a_path_with_spaces_commas_and_quotes_works() {
    let home = folder();
    let server = PrivatePostgres::start_throwaway(&home.path().join("a b, \"c\" é")).await.unwrap();
    assert!(server.socket_folder.starts_with(home.path()));
    assert_eq!(ask(&server, "postgres", "SELECT 'ok'").await, "ok");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_gets_a_short_private_folder() {
    let home = folder();
    let long = home.path().join("d".repeat(120));
    let server = PrivatePostgres::start_throwaway(&long).await.unwrap();
    let guest = PrivatePostgres::start_throwaway(&long).await.unwrap();
    let socket = server.socket_folder.clone();
    assert!(socket.starts_with("/tmp") && guest.socket_folder == socket);
    assert_eq!(std::fs::metadata(&socket).unwrap().mode() & 0o777, 0o700);
    assert_eq!(ask(&server, "postgres", "SELECT 'ok'").await, "ok");
    drop(guest);
    server.stop().await.unwrap();
    assert!(!socket.exists(), "nothing is left in /tmp");
}

#[tokio::test]
async fn a_parent_that_blocks_the_servers_user_is_named_and_nothing_is_created() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let home = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o700)).tempdir().unwrap();
    let wanted = home.path().join("deep/data");
    let error = PrivatePostgres::start(&wanted).await.unwrap_err();
    let PostgresError::Blocked { folder, mode, .. } = &error else { panic!("{error}") };
    assert_eq!((folder.as_path(), *mode), (home.path(), 0o700));
    assert!(error.to_string().contains("/var/lib/interlock"), "{error}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn without_binaries_the_message_names_the_package() {
    let home = folder();
    let error = PrivatePostgres::start_with(home.path(), Durability::Kept, &["/nowhere".into()]).await.unwrap_err();
    assert!(matches!(error, PostgresError::NoBinaries { .. }));
    assert!(error.to_string().contains("apt-get install postgresql"), "{error}");
    assert!(error.to_string().contains("/nowhere"), "{error}");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_start_that_fails_shows_the_end_of_the_log() {
    let home = folder();
    let server = PrivatePostgres::start_throwaway(home.path()).await.unwrap();
    let cluster = server.place.cluster();
    server.stop().await.unwrap();
    std::fs::remove_file(cluster.join("global/pg_control")).unwrap();
    let error = PrivatePostgres::start_throwaway(home.path()).await.unwrap_err();
    let PostgresError::EndedAtStart { said, .. } = &error else { panic!("{error}") };
    assert!(said.contains("could not find the database system"), "{said}");
}

#[tokio::test]
async fn a_durable_start_refuses_a_throw_away_server() {
    let home = folder();
    let server = PrivatePostgres::start_throwaway(home.path()).await.unwrap();
    let error = PrivatePostgres::start(home.path()).await.unwrap_err();
    assert!(matches!(error, PostgresError::ThrowAway { .. }), "{error}");
    server.stop().await.unwrap();
}

#[test]
fn versions_are_ordered_by_number() {
    let home = tempfile::tempdir().unwrap();
    for version in ["9", "16", "15", "not-a-version"] {
        std::fs::create_dir(home.path().join(version)).unwrap();
    }
    let found = binaries::versioned(home.path(), "");
    assert_eq!(found, ["16", "15", "9"].map(|version| home.path().join(version).join("bin")));
}
