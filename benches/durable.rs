//! `cargo bench --bench durable`: what a durable job costs through the whole gateway, side by side in one run with the
//! database alone (pgbench, the same two statements one job at a time) and with the provider asked directly.
//!
//! Everything shares this machine, so absolute figures mean little: read the ratios, and the CPU per request. Medians
//! of interleaved rounds. `-- --seconds N`, `--rounds N`, `--clients 64` (one row alone) change the length.
//! `-- --soak MINUTES` shows the gateway's memory under load instead, minute by minute.
//! `--serve` only starts it all and says where: for a profiler, or for other load.

#[path = "durable/count.rs"]
mod count;
#[path = "ground.rs"]
mod ground;
#[path = "durable/peers.rs"]
mod peers;
#[path = "durable/pgbench.rs"]
mod pgbench;
#[path = "durable/wire.rs"]
mod wire;
#[path = "durable/world.rs"]
mod world;

use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use count::Counts;
use peers::Peer;
use wire::{Run, SLOW, load};
use world::{Cpu, World};

const CLIENTS: [usize; 4] = [1, 16, 64, 256];

#[expect(clippy::disallowed_methods, reason = "how this program tells itself, started again, that it is the gateway")]
fn main() -> ExitCode {
    if let Ok(told_at) = std::env::var(count::TOLD_AT) {
        return count::gateway(&told_at);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run());
    ExitCode::SUCCESS
}

async fn run() {
    let arguments: Vec<String> = std::env::args().collect();
    let named = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
    if let Some(address) = named("--mock") {
        return wire::mock(address.parse().expect("an address")).await;
    }
    let number = |name: &str| named(name).and_then(|text| text.parse::<u64>().ok());
    let (seconds, rounds) = (number("--seconds").unwrap_or(3), number("--rounds").unwrap_or(3));
    let clients = number("--clients").map_or(CLIENTS.to_vec(), |one| vec![one as usize]);
    let world = Rc::new(World::start(named("--mock-at").map(|at| at.parse().expect("an address"))).await);
    if arguments.iter().any(|argument| argument == "--serve") {
        println!("gateway {} key {} mock {}", world.gateway.address, world.key, world.mock);
        return std::future::pending().await;
    }
    if let Some(minutes) = number("--soak") {
        soak(&world, minutes).await;
        return Rc::into_inner(world).expect("nobody else holds it").stop().await;
    }
    let peers = arguments.iter().zip(arguments.iter().skip(1)).filter(|(name, _)| *name == "--peer");
    let peers: Vec<Peer> = peers.map(|(_, peer)| Peer::read(peer)).collect();
    if !peers.is_empty() {
        for at in clients {
            peers::compare(&world, &peers, at, rounds as usize, Duration::from_secs(seconds)).await;
        }
        return Rc::into_inner(world).expect("nobody else holds it").stop().await;
    }
    let bench = Bench { time: Duration::from_secs(seconds), rounds: rounds as usize, world: Rc::clone(&world) };
    println!("gateway: process {}; medians of {rounds} interleaved rounds of {seconds} s", world.gateway_pid());
    for at in clients {
        bench.durable(at).await;
        bench.replays(at).await;
    }
    bench.fan_out(500).await;
    bench.allocations().await;
    drop(bench);
    Rc::into_inner(world).expect("nobody else holds it").stop().await;
}

/// New jobs and replays from 16 clients for a tenth of each minute: what grows, grows with the jobs, not with the hours.
async fn soak(world: &World, minutes: u64) {
    let mut jobs = 0;
    for minute in 0..=minutes {
        let key = world.key.clone();
        // Every eighth asks again for what the client has just been told.
        let call = move |client: usize, n: usize| {
            request(&key, &format!("soak-{minute}-{client}-{}", n - usize::from(n % 8 == 7)))
        };
        jobs += load(world.gateway.address, 16, Duration::from_secs(6), call).await.requests;
        println!("minute {minute}: {jobs} requests, {} kB resident", world.gateway_rss());
        tokio::time::sleep(Duration::from_secs(if minute < minutes { 54 } else { 0 })).await;
    }
}

struct Bench {
    time: Duration,
    rounds: usize,
    world: Rc<World>,
}

/// A run and the CPU that it took per request, in µs.
struct Spent {
    run: Run,
    gateway: f64,
    postgres: f64,
    mock: f64,
}

impl Bench {
    async fn measured(&self, run: impl Future<Output = Run>) -> Spent {
        let before = self.world.cpu();
        let run = run.await;
        let after = self.world.cpu();
        let each = |of: fn(&Cpu) -> Duration| (of(&after) - of(&before)).as_secs_f64() / run.requests as f64 * 1e6;
        let (gateway, postgres, mock) = (each(|cpu| cpu.gateway), each(|cpu| cpu.postgres), each(|cpu| cpu.mock));
        Spent { run, gateway, postgres, mock }
    }

    /// New jobs against pgbench, and against the provider alone.
    async fn durable(&self, clients: usize) {
        let (mut direct, mut through, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=self.rounds {
            let world = &self.world;
            let key = world.key.clone();
            let call = move |client: usize, n: usize| request(&key, &format!("{clients}-{round}-{client}-{n}"));
            let other = call.clone();
            // The first round only warms up.
            let time = if round == 0 { Duration::from_secs(1) } else { self.time };
            let asked = load(world.mock, clients, time / 2, other).await;
            let spent = self.measured(load(world.gateway.address, clients, time, call)).await;
            let seconds = time.as_secs().max(1);
            let rate = pgbench::run(world, clients, seconds, clients * 100 + round, &body());
            world.tidy_up().await;
            if round > 0 {
                direct.push(asked);
                through.push(spent);
                alone.push(rate);
            }
        }
        let (gateway, provider) = (median(through.iter().map(|s| s.run.rate())), median(direct.iter().map(Run::rate)));
        let ratios = median(through.iter().zip(&alone).map(|(s, rate)| s.run.rate() / rate));
        let pgbench = median(alone.iter().copied());
        println!(
            "{clients:>4} clients: {gateway:.0} durable jobs/s, pgbench {pgbench:.0}, ratio {ratios:.2}; provider alone {provider:.0}, ratio {:.2}",
            gateway / provider
        );
        println!(
            "              CPU a job: gateway {:.0} µs, Postgres {:.0}, mock {:.0}; p50 {:.2} ms, p99 {:.2} ms",
            median(through.iter().map(|s| s.gateway)),
            median(through.iter().map(|s| s.postgres)),
            median(through.iter().map(|s| s.mock)),
            median(through.iter().map(|s| s.run.p50.as_secs_f64() * 1e3)),
            median(through.iter().map(|s| s.run.p99.as_secs_f64() * 1e3)),
        );
        if clients == 1 {
            let added =
                |(s, d): (&Spent, &Run)| (s.run.took / s.run.requests as u32).saturating_sub(d.p50).as_secs_f64() * 1e3;
            let added: Vec<f64> = through.iter().zip(&direct).map(added).collect();
            let times = median(added.iter().zip(&alone).map(|(added, rate)| added / (1e3 / rate)));
            println!(
                "              added latency {:.2} ms, the two commits alone {:.2} ms, ratio {times:.2}",
                median(added.iter().copied()),
                1e3 / pgbench
            );
        }
    }

    /// The same finished jobs asked for again.
    async fn replays(&self, clients: usize) {
        let mut spent = Vec::new();
        for _ in 0..self.rounds {
            let key = self.world.key.clone();
            let call = move |client: usize, _: usize| request(&key, &format!("{clients}-1-{client}-0"));
            spent.push(self.measured(load(self.world.gateway.address, clients, self.time / 2, call)).await);
        }
        println!(
            "              {:.0} replays/s; CPU each: gateway {:.0} µs, Postgres {:.0}; p50 {:.2} ms",
            median(spent.iter().map(|s| s.run.rate())),
            median(spent.iter().map(|s| s.gateway)),
            median(spent.iter().map(|s| s.postgres)),
            median(spent.iter().map(|s| s.run.p50.as_secs_f64() * 1e3)),
        );
    }

    /// One job that takes a second, and many who wait for it.
    async fn fan_out(&self, waiters: usize) {
        let mut spent = Vec::new();
        for round in 0..self.rounds {
            let key = self.world.key.clone();
            let body = body_of(SLOW);
            let call = move |_: usize, _: usize| with_body(&key, &format!("fan-out-{round}"), &body);
            spent.push(self.measured(load(self.world.gateway.address, waiters, Duration::ZERO, call)).await);
        }
        println!(
            "one job, {waiters} waiters: first answer after {:.2} s, last {:.0} ms later; CPU each: gateway {:.0} µs, Postgres {:.0}",
            median(spent.iter().map(|s| s.run.extremes.0.as_secs_f64())),
            median(spent.iter().map(|s| (s.run.extremes.1 - s.run.extremes.0).as_secs_f64() * 1e3)),
            median(spent.iter().map(|s| s.gateway)),
            median(spent.iter().map(|s| s.postgres)),
        );
    }

    /// What the gateway asks its allocator for, in a process that counts.
    async fn allocations(&self) {
        let told_at = ground::free_address();
        let itself = std::env::current_exe().expect("this program");
        let environment = [(count::TOLD_AT, told_at.to_string())];
        let gateway = self.world.another(itself.to_str().expect("a path"), &environment).await;
        for (what, name, many) in [
            ("", "warm-up", 64),
            ("a durable job", "durable", 64),
            ("a replay", "durable", 64),
            ("a durable job, alone", "alone", 1),
        ] {
            let key = self.world.key.clone();
            let repeats = what == "a replay";
            let call = move |client: usize, n: usize| {
                request(&key, &format!("count-{name}-{client}-{}", if repeats { 0 } else { n }))
            };
            let before = count::ask(told_at);
            let run = load(gateway.address, many, self.time / 2, call).await;
            let after = count::ask(told_at);
            let each = |of: fn(&Counts) -> f64| (of(&after) - of(&before)) / run.requests as f64;
            if !what.is_empty() {
                println!("{what}: {:.0} allocations, {:.0} bytes", each(|c| c.allocations), each(|c| c.bytes));
            }
        }
    }
}

/// About 1 kB, as in a small chat.
fn body() -> String {
    body_of(&"The customer says that he was charged twice for one order. ".repeat(14))
}

fn body_of(words: &str) -> String {
    format!(
        r#"{{"model":"support","messages":[{{"role":"system","content":"Be short."}},{{"role":"user","content":"{words}"}}],"max_tokens":200,"temperature":0.2}}"#
    )
}

fn request(key: &str, idempotency_key: &str) -> Vec<u8> {
    with_body(key, idempotency_key, &body())
}

fn with_body(key: &str, idempotency_key: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nidempotency-key: {idempotency_key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
