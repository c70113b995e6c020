//! The gateway in a process of its own, on a private Postgres.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use interlock::domain::api_key::FreshKey;
use interlock::domain::ids::ApiKeyId;
use interlock::local::postgres::PrivatePostgres;
use interlock::store::Store;
use providers::adapter::Secret;
use tokio::net::TcpStream;

use super::wire::Provider;

pub struct World {
    pub gateway: SocketAddr,
    _provider: Provider,
    postgres: PrivatePostgres,
    process: Child,
    key: String,
    folder: tempfile::TempDir,
}

impl World {
    pub async fn start() -> World {
        let folder = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir()
            .expect("a folder");
        let provider = Provider::start().await;
        let postgres = PrivatePostgres::start(&folder.path().join("data")).await.expect("a Postgres");
        postgres.ensure_database("bench").await.expect("a database");
        let url = postgres.url("bench");
        let store = Store::connect(&Secret::new(url.clone()), 2).await.expect("a store");
        store.migrate().await.expect("a schema");
        let key = FreshKey::from_random([9; 38]);
        let owner = store.ensure_owner("bench").await.expect("an owner");
        store.create_key(ApiKeyId::fresh(), owner, &key.public_id, key.secret_sha256, None).await.expect("a key");
        store.close().await;
        let gateway = free_address();
        let settings = format!(
            "[server]\nlisten = \"{gateway}\"\noperator_listen = \"127.0.0.1:0\"\n[database]\nurl = \"{url}\"\n[providers.alpha]\nadapter = \"openai\"\nbase_url = \"http://{}/v1\"\n[routes.support]\ntargets = [\"alpha/m\"]\n",
            provider.address
        );
        let file = folder.path().join("interlock.toml");
        std::fs::write(&file, settings).expect("settings");
        let process = Command::new(env!("CARGO_BIN_EXE_interlock"))
            .args(["serve", "--config"])
            .arg(&file)
            .env("INTERLOCK_LOG", "error")
            .stdout(Stdio::null())
            .spawn()
            .expect("the gateway");
        let world = World { gateway, _provider: provider, postgres, process, key: key.reveal().to_owned(), folder };
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(gateway).await.is_err() {
            assert!(Instant::now() < until, "the gateway did not start");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        world
    }

    pub async fn stop(mut self) {
        self.process.kill().expect("it can be stopped");
        self.process.wait().expect("its end");
        self.postgres.stop().await.expect("Postgres stops");
        drop(self.folder);
    }

    /// A chat request as bytes.
    pub fn call(&self, idempotency_key: &str) -> String {
        let body =
            r#"{"model":"support","messages":[{"role":"user","content":"I was charged twice for order 4711."}]}"#;
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nidempotency-key: {idempotency_key}\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        )
    }
}

/// A port that was free a moment ago.
fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address")
}
