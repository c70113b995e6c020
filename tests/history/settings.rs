//! The gateways' settings: short clocks, two routes (`hold` keeps unknown attempts, `over` fails over under a permit).

use std::net::SocketAddr;
use std::path::Path;

pub const OPERATOR_TOKEN: &str = "the-operators-own-token";
pub const ATTEMPT_TIMEOUT_MS: u64 = 1_500;

/// A port below those that the system gives to outgoing connections, so that a restarted gateway finds its own free.
pub fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + (std::process::id() % 1_000) as u16 * 12;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 12_000;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Where one gateway listens: for applications, and for operators.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    pub application: SocketAddr,
    pub operator: SocketAddr,
}

impl Addresses {
    pub fn free() -> Addresses {
        let at = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        Addresses { application: at(), operator: at() }
    }
}

/// The file of one gateway. `token` is where the operator's token is kept.
pub fn to_toml(at: Addresses, token: &Path, database: &str, alpha: SocketAddr, beta: SocketAddr) -> String {
    let clocks = format!(
        "attempt_timeout = \"{ATTEMPT_TIMEOUT_MS}ms\"\nfirst_byte_timeout = \"1200ms\"\nidle_timeout = \"900ms\"\nsettle_timeout = \"60s\"\nretries = 1\nmax_attempts = 8"
    );
    format!(
        r#"[server]
listen = "{}"
operator_listen = "{}"
operator_token = "file:{}"
drain = "1s"
[database]
url = "{database}"
max_connections = 8
[providers.alpha]
adapter = "openai"
base_url = "http://{alpha}/v1"
connect_timeout = "1s"
[providers.beta]
adapter = "openai"
base_url = "http://{beta}/v1"
connect_timeout = "1s"
[routes.hold]
contract = "support-triage"
targets = ["alpha/m1"]
{clocks}
[routes.over]
contract = "support-triage"
targets = ["alpha/m1", "beta/m2"]
on_unknown = "fail_over"
stream = "settled"
{clocks}
"#,
        at.application,
        at.operator,
        token.display()
    )
}
