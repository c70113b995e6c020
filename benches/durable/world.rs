//! The gateway in a process of its own on a private Postgres that flushes every commit, and what each of them costs.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use interlock::domain::api_key::FreshKey;
use interlock::domain::ids::{ApiKeyId, InstanceId, OwnerId};
use interlock::local::postgres::PrivatePostgres;
use interlock::store::Store;
use providers::adapter::Secret;
use sqlx::{Connection, PgConnection};
use tokio::net::TcpStream;

pub struct World {
    pub gateway: Gateway,
    pub mock: SocketAddr,
    pub key: String,
    pub url: String,
    pub owner: OwnerId,
    /// A process that outlives the runs, for the statements alone.
    pub instance: InstanceId,
    settings: String,
    mock_process: Process,
    postmaster: u32,
    postgres: PrivatePostgres,
    folder: tempfile::TempDir,
}

/// A gateway in a process of its own.
pub struct Gateway {
    pub address: SocketAddr,
    process: Process,
}

impl Gateway {
    async fn start(program: &str, file: &Path, settings: &str, environment: &[(&str, String)]) -> Gateway {
        let address = free_address();
        std::fs::write(file, settings.replace("GATEWAY", &address.to_string())).expect("settings");
        let process = Command::new(program)
            .args(["serve", "--config"])
            .arg(file)
            .env("INTERLOCK_LOG", "error")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .spawn();
        let process = Process(process.expect("the gateway"));
        answers(address).await;
        Gateway { address, process }
    }
}

async fn answers(address: SocketAddr) {
    let until = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(address).await.is_err() {
        assert!(Instant::now() < until, "{address} does not answer");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A child that does not outlive this program, however it ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// User and system time so far.
#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    pub gateway: Duration,
    pub postgres: Duration,
    pub mock: Duration,
}

impl World {
    /// `mock`: where the provider is to listen.
    pub async fn start(mock: Option<SocketAddr>) -> World {
        let folder = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir()
            .expect("a folder");
        let mock = mock.unwrap_or_else(free_address);
        let itself = std::env::current_exe().expect("this program");
        let mock_process = Command::new(itself).args(["--mock", &mock.to_string()]).spawn().expect("the mock");
        let mock_process = Process(mock_process);
        let postgres = PrivatePostgres::start(&folder.path().join("data")).await.expect("a Postgres");
        postgres.ensure_database("bench").await.expect("a database");
        let url = postgres.url("bench");
        let store = Store::connect(&Secret::new(url.clone()), 2).await.expect("a store");
        store.migrate().await.expect("a schema");
        let key = FreshKey::from_random([9; 38]);
        let owner = store.ensure_owner("bench").await.expect("an owner");
        store.create_key(ApiKeyId::fresh(), owner, &key.public_id, key.secret_sha256, None).await.expect("a key");
        let instance = InstanceId::fresh();
        store.register_instance(instance, "bench", 1).await.expect("an instance");
        store.close().await;
        let file = folder.path().join("interlock.toml");
        let settings = format!(
            "[server]\nlisten = \"GATEWAY\"\noperator_listen = \"127.0.0.1:0\"\nmax_connections = 4096\n[database]\nurl = \"{url}\"\n[providers.alpha]\nadapter = \"openai\"\nbase_url = \"http://{mock}/v1\"\n[routes.support]\ntargets = [\"alpha/m\"]\n"
        );
        let gateway = Gateway::start(env!("CARGO_BIN_EXE_interlock"), &file, &settings, &[]).await;
        let postmaster = prepare(&url).await;
        answers(mock).await;
        let key = key.reveal().to_owned();
        World { gateway, mock, key, url, owner, instance, settings, mock_process, postmaster, postgres, folder }
    }

    /// Another gateway beside the first, with these in its environment.
    pub async fn another(&self, program: &str, environment: &[(&str, String)]) -> Gateway {
        Gateway::start(program, &self.folder.path().join("another.toml"), &self.settings, environment).await
    }

    pub async fn stop(self) {
        drop((self.gateway, self.mock_process));
        self.postgres.stop().await.expect("Postgres stops");
        drop(self.folder);
    }

    pub fn gateway_pid(&self) -> u32 {
        self.gateway.process.0.id()
    }

    pub fn cpu(&self) -> Cpu {
        let own = |pid| stat(pid).map_or(Duration::ZERO, |stat| stat.own);
        Cpu {
            gateway: own(self.gateway_pid()),
            mock: own(self.mock_process.0.id()),
            postgres: cpu_of_all(self.postmaster),
        }
    }

    /// Dead rows are dealt with between the rounds, not in whichever of them comes next.
    pub async fn tidy_up(&self) {
        let mut connection = PgConnection::connect(&self.url).await.expect("the database");
        for sql in ["VACUUM ANALYZE", "CHECKPOINT"] {
            sqlx::query(sql).execute(&mut connection).await.expect(sql);
        }
    }
}

/// A lease that never ends for the statements alone; the server's process.
async fn prepare(url: &str) -> u32 {
    let mut connection = PgConnection::connect(url).await.expect("the database");
    sqlx::query("UPDATE instances SET lease_until = now() + interval '1 d' WHERE host = 'bench'")
        .execute(&mut connection)
        .await
        .expect("a lease");
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await.expect("its process");
    stat(pid.unsigned_abs()).expect("Linux").parent
}

struct Stat {
    parent: u32,
    own: Duration,
    /// Of children that have ended and been waited for.
    ended: Duration,
}

/// Of a process and its children, those that have ended included.
pub fn cpu_of_all(process: u32) -> Duration {
    let children = std::fs::read_dir("/proc").expect("Linux").filter_map(|entry| {
        let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
        stat(pid).filter(|stat| stat.parent == process).map(|stat| stat.own)
    });
    let itself = stat(process).expect("it runs");
    itself.own + itself.ended + children.sum::<Duration>()
}

/// A tick is 10 ms on Linux.
fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let time = |one: u64, other: u64| Duration::from_millis((one + other) * 10);
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: time(ticks(11)?, ticks(12)?),
        ended: time(ticks(13)?, ticks(14)?),
    })
}

/// A port that was free a moment ago.
pub fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address")
}
