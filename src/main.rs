//! The `interlock` command. Wiring only: see `interlock::cli`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    interlock::cli::run().await
}
