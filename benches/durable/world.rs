//! The gateway in a process of its own on a private Postgres that flushes every commit, and what each of them costs.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use interlock::domain::ids::{InstanceId, OwnerId};
use sqlx::{Connection, PgConnection};

use super::ground::{Ground, Process, answers, free_address};

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
    ground: Ground,
}

/// A gateway in a process of its own.
pub struct Gateway {
    pub address: SocketAddr,
    process: Process,
}

impl Gateway {
    async fn start(program: &str, file: &Path, settings: &str, environment: &[(&str, String)]) -> Gateway {
        let address = free_address();
        let settings = settings.replace("GATEWAY", &address.to_string());
        let process = Process::gateway(program, file, &settings, address, environment).await;
        Gateway { address, process }
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
        let (ground, store, owner) = Ground::start().await;
        let mock = mock.unwrap_or_else(free_address);
        let itself = std::env::current_exe().expect("this program");
        let mock_process = Process::spawn(Command::new(itself).args(["--mock", &mock.to_string()]));
        let instance = InstanceId::fresh();
        store.register_instance(instance, "bench", 1).await.expect("an instance");
        store.close().await;
        let (file, url) = (ground.file("interlock.toml"), ground.url.clone());
        let settings = format!(
            "[server]\nlisten = \"GATEWAY\"\noperator_listen = \"127.0.0.1:0\"\nmax_connections = 4096\n[database]\nurl = \"{url}\"\n[providers.alpha]\nadapter = \"openai\"\nbase_url = \"http://{mock}/v1\"\n[routes.support]\ntargets = [\"alpha/m\"]\n"
        );
        let gateway = Gateway::start(env!("CARGO_BIN_EXE_interlock"), &file, &settings, &[]).await;
        let postmaster = prepare(&url).await;
        answers(mock).await;
        let key = ground.key.clone();
        World { gateway, mock, key, url, owner, instance, settings, mock_process, postmaster, ground }
    }

    /// Another gateway beside the first, with these in its environment.
    pub async fn another(&self, program: &str, environment: &[(&str, String)]) -> Gateway {
        Gateway::start(program, &self.ground.file("another.toml"), &self.settings, environment).await
    }

    pub async fn stop(self) {
        drop((self.gateway, self.mock_process));
        self.ground.stop().await;
    }

    pub fn gateway_pid(&self) -> u32 {
        self.gateway.process.0.id()
    }

    /// kB.
    pub fn gateway_rss(&self) -> u64 {
        self.gateway.process.rss()
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
