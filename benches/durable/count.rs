//! The gateway within this program, under an allocator that counts: allocations and bytes of one request.

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Where the counts are told; set for the gateway's process only.
pub const TOLD_AT: &str = "INTERLOCK_BENCH_COUNTS";

/// Allocations (with those that grow), and bytes asked for.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    pub allocations: f64,
    pub bytes: f64,
}

/// `interlock` with the arguments of this process.
pub fn gateway(told_at: &str) -> ExitCode {
    let listener = TcpListener::bind(told_at).expect("the address");
    std::thread::spawn(move || {
        for mut asked in listener.incoming().flatten() {
            let stats = COUNTING.stats();
            let _ = write!(asked, "{} {}", stats.allocations + stats.reallocations, stats.bytes_allocated);
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(interlock::cli::run())
}

/// What the gateway has asked for so far.
pub fn ask(address: SocketAddr) -> Counts {
    let mut text = String::new();
    TcpStream::connect(address).expect("the counts").read_to_string(&mut text).expect("a text");
    let (allocations, bytes) = text.split_once(' ').expect("two numbers");
    Counts { allocations: allocations.parse().expect("a number"), bytes: bytes.parse().expect("a number") }
}
