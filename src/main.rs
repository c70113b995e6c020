//! The `interlock` command. Wiring only: see `interlock::cli`.

use std::process::ExitCode;

/// A request makes hundreds of small allocations on several threads; the system's allocator took a fifth of its CPU.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    interlock::cli::run().await
}
