//! The gateway in a process of its own, on a private Postgres.

use std::net::SocketAddr;

use super::ground::{Ground, Process, free_address};
use super::wire::Provider;

pub struct World {
    pub gateway: SocketAddr,
    _provider: Provider,
    process: Process,
    ground: Ground,
}

impl World {
    pub async fn start() -> World {
        let (ground, store, _) = Ground::start().await;
        store.close().await;
        let provider = Provider::start().await;
        let gateway = free_address();
        let settings = format!(
            "[server]\nlisten = \"{gateway}\"\noperator_listen = \"127.0.0.1:0\"\n[database]\nurl = \"{url}\"\n[providers.alpha]\nadapter = \"openai\"\nbase_url = \"http://{}/v1\"\n[routes.support]\ntargets = [\"alpha/m\"]\n",
            provider.address,
            url = ground.url
        );
        let file = ground.file("interlock.toml");
        let process = Process::gateway(env!("CARGO_BIN_EXE_interlock"), &file, &settings, gateway, &[]).await;
        World { gateway, _provider: provider, process, ground }
    }

    pub async fn stop(self) {
        drop(self.process);
        self.ground.stop().await;
    }

    /// A chat request as bytes.
    pub fn call(&self, idempotency_key: &str) -> String {
        let body =
            r#"{"model":"support","messages":[{"role":"user","content":"I was charged twice for order 4711."}]}"#;
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nidempotency-key: {idempotency_key}\r\ncontent-length: {}\r\n\r\n{body}",
            self.ground.key,
            body.len()
        )
    }
}
