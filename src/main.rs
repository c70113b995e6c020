//! The `interlock` command. Wiring only: see `interlock::cli`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    interlock::telemetry::init_logs();
    interlock::cli::run().await
}
