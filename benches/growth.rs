//! `cargo bench --bench growth`: whether a job costs the same when a million lie in the tables, and whether anybody
//! notices when old days are removed.
//!
//! Two gateways, each on a Postgres of its own: one with 10^4 jobs in its tables, one with 10^6 (`-- --jobs N`), over
//! thirty days. Both get the same load, in turn; medians of rounds, and ratios. Then the larger one is churned
//! (`--churn SECONDS`, 10; an hour is 3600), and its old days are removed under load, the largest first, with half of all jobs.
//! `--seconds N`, `--rounds N` and `--clients N` change the length.

#[path = "ground.rs"]
mod ground;
#[path = "growth/tables.rs"]
mod tables;
#[path = "durable/wire.rs"]
mod wire;
#[expect(dead_code, reason = "made for `durable`, which also starts others beside it")]
#[path = "durable/world.rs"]
mod world;

use std::cell::Cell;
use std::time::{Duration, Instant};

use interlock::domain::step::overdue;
use interlock::store::Store;
use interlock::store::retention::Removed;
use providers::adapter::Secret;

use tables::{DAYS, Weight, fill};
use wire::{Run, load};
use world::{Cpu, World};

const SMALL: i64 = 10_000;
/// What of the days is removed: the first, which is the largest; then half of the rest, and the rest.
const REMOVED_TO: [i64; 3] = [DAYS, DAYS / 2, 2];

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run());
}

async fn run() {
    let arguments: Vec<String> = std::env::args().collect();
    let named = |name: &str| arguments.iter().position(|a| a == name).and_then(|at| arguments.get(at + 1));
    if let Some(address) = named("--mock") {
        return wire::mock(address.parse().expect("an address")).await;
    }
    let number = |name: &str, otherwise: u64| named(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let jobs = number("--jobs", 1_000_000).cast_signed();
    let time = Duration::from_secs(number("--seconds", 5));
    let (rounds, clients) = (number("--rounds", 3), number("--clients", 64) as usize);
    let churn = Duration::from_secs(number("--churn", 10));
    let mut benches = Vec::new();
    for jobs in [SMALL, jobs] {
        let world = World::start(None).await;
        fill(&world.url, world.owner, &world.instance.to_string(), jobs).await;
        benches.push(Bench { world, clients, calls: Cell::new(0) });
    }
    grow(&benches, time, rounds).await;
    benches[1].churn(churn).await;
    benches[1].remove(time).await;
    for bench in benches {
        bench.world.stop().await;
    }
}

struct Bench {
    world: World,
    clients: usize,
    /// So that every load has keys of its own.
    calls: Cell<usize>,
}

/// A run and the CPU that it took per job, in µs.
struct Spent {
    run: Run,
    gateway: f64,
    postgres: f64,
}

impl Bench {
    async fn load(&self, time: Duration) -> Spent {
        let round = self.calls.replace(self.calls.get() + 1);
        let key = self.world.key.clone();
        let before = self.world.cpu();
        let call = move |client: usize, n: usize| request(&key, &format!("growth-{round}-{client}-{n}"));
        let run = load(self.world.gateway.address, self.clients, time, call).await;
        let after = self.world.cpu();
        let each = |of: fn(&Cpu) -> Duration| (of(&after) - of(&before)).as_secs_f64() / run.requests as f64 * 1e6;
        let (gateway, postgres) = (each(|cpu| cpu.gateway), each(|cpu| cpu.postgres));
        Spent { run, gateway, postgres }
    }

    async fn churn(&self, time: Duration) {
        println!("before {} s of churn: {}", time.as_secs(), Weight::of(&self.world.url).await);
        let spent = self.load(time).await;
        println!("after it, at {:.0} jobs/s: {}", spent.run.rate(), Weight::of(&self.world.url).await);
    }

    /// The same load without and with a removal under way.
    async fn remove(&self, time: Duration) {
        let store = Store::connect(&Secret::new(self.world.url.clone()), 2).await.expect("a store");
        for days in REMOVED_TO {
            // As long as a removal takes, and some more.
            let long = time * 3;
            let without = self.load(long).await;
            let before = Weight::of(&self.world.url).await;
            let removal = async {
                // Under way when the load is.
                tokio::time::sleep(time / 5).await;
                let (began, mut removed) = (Instant::now(), Removed::default());
                let retention = Duration::from_secs(86_400) * (days - 1) as u32;
                while removed.days == 0 && began.elapsed() < time * 6 {
                    removed = store.remove_payloads(retention, &overdue()).await.expect("a removal");
                }
                (began.elapsed(), removed)
            };
            let (with, (took, removed)) = tokio::join!(self.load(long), removal);
            let freed = before.payloads - Weight::of(&self.world.url).await.payloads;
            println!(
                "{} days removed in {:.1} s under load, {:.0} MB freed net of it",
                removed.days / 2,
                took.as_secs_f64(),
                freed as f64 / 1e6
            );
            for (what, spent) in [("without", &without), ("with it", &with)] {
                let (rate, ms) = (spent.run.rate(), |time: Duration| time.as_secs_f64() * 1e3);
                let (p50, p99, longest) = (ms(spent.run.p50), ms(spent.run.p99), ms(spent.run.extremes.1));
                println!("    {what}: {rate:.0} jobs/s; p50 {p50:.1} ms, p99 {p99:.1} ms, longest {longest:.0} ms");
            }
        }
        self.world.tidy_up().await;
        println!("at the end: {}", Weight::of(&self.world.url).await);
        store.close().await;
    }
}

/// The same load on each, in turn.
async fn grow(benches: &[Bench], time: Duration, rounds: u64) {
    let mut seen: Vec<Vec<Spent>> = benches.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        for (bench, seen) in benches.iter().zip(&mut seen) {
            // The first round only warms up.
            let spent = bench.load(if round == 0 { time / 2 } else { time }).await;
            bench.world.tidy_up().await;
            if round > 0 {
                seen.push(spent);
            }
        }
    }
    let middle = |seen: &[Spent]| {
        let of = |of: fn(&Spent) -> f64| median(seen.iter().map(of));
        [
            of(|s| s.run.rate()),
            of(|s| s.gateway),
            of(|s| s.postgres),
            of(|s| s.run.p50.as_secs_f64() * 1e3),
            of(|s| s.run.p99.as_secs_f64() * 1e3),
        ]
    };
    let figures: Vec<[f64; 5]> = seen.iter().map(|seen| middle(seen)).collect();
    for (bench, [rate, gateway, postgres, p50, p99]) in benches.iter().zip(&figures) {
        println!("{}", Weight::of(&bench.world.url).await);
        println!(
            "    {rate:.0} jobs/s; CPU a job: gateway {gateway:.0} µs, Postgres {postgres:.0}; p50 {p50:.1} ms, p99 {p99:.1} ms"
        );
    }
    let [rate, gateway, postgres, p50, p99] = std::array::from_fn(|at| figures[1][at] / figures[0][at]);
    println!(
        "ratios to the small tables: jobs/s {rate:.2}, CPU {gateway:.2} and {postgres:.2}, p50 {p50:.2}, p99 {p99:.2}"
    );
}

/// About 1 kB, as in a small chat.
fn request(key: &str, idempotency_key: &str) -> Vec<u8> {
    let words = "The customer says that he was charged twice for one order. ".repeat(14);
    let body = format!(
        r#"{{"model":"support","messages":[{{"role":"system","content":"Be short."}},{{"role":"user","content":"{words}"}}],"max_tokens":200,"temperature":0.2}}"#
    );
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
