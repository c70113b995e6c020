//! `cargo bench --bench overload`: what callers feel when more is asked than the gateway can carry.
//!
//! The capacity is measured first (a closed loop of clients); then requests come at a fixed pace, whether or not those
//! before have been answered: at half, the whole and twice that capacity. A request's time counts from the moment at
//! which it should have been sent. Every job is new, and committed twice. Figures are of this machine at this moment,
//! the clients on the same cores: read the ratios.

#[path = "ground.rs"]
mod ground;
#[path = "overload/wire.rs"]
mod wire;
#[path = "overload/world.rs"]
mod world;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use wire::Connection;
use world::World;

const CLIENTS: usize = 64;
const CLOSED: Duration = Duration::from_secs(6);
const OPEN: Duration = Duration::from_secs(8);
const ROUNDS: usize = 3;
const PACES: [f64; 3] = [0.5, 1.0, 2.0];
/// Connections that the open loop may use, as many as the gateway takes by default. Beyond, a request is not sent.
const CONNECTIONS: usize = 1_000;

/// What one run showed.
#[derive(Debug, Default, Clone)]
struct Seen {
    served: Vec<Duration>,
    refused: Vec<Duration>,
    /// Neither 200 nor a 503 that says when to come back.
    failed: usize,
    /// No connection was free.
    unsent: usize,
    lasted: Duration,
}

impl Seen {
    fn add(&mut self, status: u16, took: Duration) {
        match status {
            200 => self.served.push(took),
            503 => self.refused.push(took),
            _ => self.failed += 1,
        }
    }

    fn rate(&self, of: &[Duration]) -> f64 {
        of.len() as f64 / self.lasted.as_secs_f64()
    }
}

#[tokio::main]
async fn main() {
    let world = Arc::new(World::start().await);
    closed(&world, "warm", Duration::from_secs(2)).await;
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let mut full = closed(&world, &format!("closed-{round}"), CLOSED).await;
        let capacity = full.rate(&full.served);
        let mut line = vec![(capacity, capacity, 0.0, percentiles(&mut full.served), [Duration::ZERO; 2])];
        for pace in PACES {
            let mut seen = open(&world, &format!("open-{round}-{pace}"), capacity * pace).await;
            assert_eq!(seen.failed, 0, "an answer that is neither 200 nor 503");
            let (served, refused) = (seen.rate(&seen.served), seen.rate(&seen.refused));
            if seen.unsent > 0 {
                println!("round {round}, {pace} x: {} requests found no free connection", seen.unsent);
            }
            line.push((
                capacity * pace,
                served,
                refused,
                percentiles(&mut seen.served),
                percentiles(&mut seen.refused),
            ));
        }
        rounds.push(line);
    }
    println!("overload: medians of {ROUNDS} rounds, jobs/s and the time of an answer");
    for (n, name) in ["closed loop", "0.5 x", "1 x", "2 x"].iter().enumerate() {
        let median = |of: &dyn Fn(usize) -> f64| {
            let mut values: Vec<f64> = (0..ROUNDS).map(of).collect();
            values.sort_by(f64::total_cmp);
            values[ROUNDS / 2]
        };
        let millis = |of: &dyn Fn(usize) -> Duration| median(&|round| of(round).as_secs_f64() * 1e3);
        println!(
            "{name:>11}: offered {:>6.0}, served {:>6.0}, refused {:>6.0}; served p50 {:>6.1} ms p99 {:>6.1} ms; refused p50 {:>6.1} ms p99 {:>6.1} ms",
            median(&|round| rounds[round][n].0),
            median(&|round| rounds[round][n].1),
            median(&|round| rounds[round][n].2),
            millis(&|round| rounds[round][n].3[0]),
            millis(&|round| rounds[round][n].3[1]),
            millis(&|round| rounds[round][n].4[0]),
            millis(&|round| rounds[round][n].4[1]),
        );
    }
    Arc::into_inner(world).expect("nobody else").stop().await;
}

/// So many clients, each with one request after the other.
async fn closed(world: &Arc<World>, name: &str, lasts: Duration) -> Seen {
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (world, name) = (Arc::clone(world), format!("{name}-{client}"));
        clients.spawn(async move {
            let mut connection = Connection::open(world.gateway).await;
            let mut seen = Seen::default();
            for n in 0.. {
                let sent = Instant::now();
                if sent - began >= lasts {
                    break;
                }
                let status = connection.call(&world.call(&format!("{name}-{n}"))).await;
                seen.add(status, sent.elapsed());
            }
            seen
        });
    }
    let mut all = Seen { lasted: lasts, ..Seen::default() };
    for seen in clients.join_all().await {
        all.served.extend(seen.served);
        all.refused.extend(seen.refused);
        all.failed += seen.failed;
    }
    all
}

/// Requests at a fixed pace.
async fn open(world: &Arc<World>, name: &str, pace: f64) -> Seen {
    let seen = Arc::new(Mutex::new(Seen { lasted: OPEN, ..Seen::default() }));
    let idle = Arc::new(Mutex::new(Vec::new()));
    let mut calls = JoinSet::new();
    let (mut sent, mut opened) = (0_u64, 0);
    let began = Instant::now();
    let mut clock = tokio::time::interval(Duration::from_millis(1));
    while began.elapsed() < OPEN {
        clock.tick().await;
        while let due = began + Duration::from_secs_f64(sent as f64 / pace)
            && due <= Instant::now()
        {
            let key = format!("{name}-{sent}");
            sent += 1;
            let free: Option<Connection> = idle.lock().expect("a pool").pop();
            if free.is_none() && opened >= CONNECTIONS {
                seen.lock().expect("figures").unsent += 1;
                continue;
            }
            opened += usize::from(free.is_none());
            let (world, seen, idle) = (Arc::clone(world), Arc::clone(&seen), Arc::clone(&idle));
            calls.spawn(async move {
                let mut connection = match free {
                    Some(connection) => connection,
                    None => Connection::open(world.gateway).await,
                };
                let status = connection.call(&world.call(&key)).await;
                seen.lock().expect("figures").add(status, due.elapsed());
                idle.lock().expect("a pool").push(connection);
            });
            while calls.try_join_next().is_some() {}
        }
    }
    calls.join_all().await;
    Arc::into_inner(seen).expect("nobody else").into_inner().expect("figures")
}

fn percentiles(times: &mut [Duration]) -> [Duration; 2] {
    times.sort();
    let at = |percent: usize| times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default();
    [at(50), at(99)]
}
