//! `cargo bench --bench streams`: what a stream costs through the gateway, side by side with the provider asked
//! directly, in one run. Figures are medians and percentiles of this machine at this moment: read the ratios.

#[path = "ground.rs"]
mod ground;
#[path = "streams/upstream.rs"]
mod upstream;
#[path = "streams/world.rs"]
mod world;

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use world::{Read, World, percentile, stream};

/// Streams opened one after the other for the first-byte figures.
const FIRST_BYTES: usize = 400;
/// Chunks of the throughput run: streams at once, chunks in each.
const BURST: (usize, usize) = (16, 4_000);
/// Streams held open for the memory figures; the second is for those that follow one running stream.
const OPEN: [usize; 2] = [1_000, 5_000];
const ATTACHED: usize = 5_000;
/// Waiters on one running stream, and replays of one finished job.
const FOLLOWERS: usize = 200;

#[tokio::main]
async fn main() {
    let world = World::start().await;
    println!("streams through the gateway, against the provider asked directly");
    first_byte(&world).await;
    chunks(&world).await;
    attach_and_replay(&world).await;
    world.stop().await;
    for count in OPEN {
        memory(count).await;
    }
    attached_memory().await;
}

async fn first_byte(world: &World) {
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for n in 0..FIRST_BYTES {
        direct.push(stream(world.upstream, &world.call("-", "burst 5")).await.first_content);
        through.push(stream(world.gateway, &world.call(&format!("first-{n}"), "burst 5")).await.first_content);
    }
    let (p50, p99) = (percentile(&mut direct, 50), percentile(&mut direct, 99));
    let (g50, g99) = (percentile(&mut through, 50), percentile(&mut through, 99));
    println!(
        "first byte: provider p50 {p50:?} p99 {p99:?}; gateway p50 {g50:?} p99 {g99:?}; added p50 {:?} p99 {:?}",
        g50.saturating_sub(p50),
        g99.saturating_sub(p99)
    );
}

/// Reads this many streams at once; how long it took.
async fn burst(world: &World, at: std::net::SocketAddr, name: &str) -> Duration {
    let began = Instant::now();
    let mut readers = JoinSet::new();
    for n in 0..BURST.0 {
        let call = world.call(&format!("{name}-{n}"), &format!("burst {}", BURST.1));
        readers.spawn(async move { stream(at, &call).await });
    }
    for read in readers.join_all().await {
        assert!(read.events > BURST.1, "a stream was cut: {} events", read.events);
    }
    began.elapsed()
}

async fn chunks(world: &World) {
    let total = (BURST.0 * BURST.1) as f64;
    let mut rates = Vec::new();
    for round in 0..3 {
        let direct = burst(world, world.upstream, &format!("direct-{round}")).await;
        let cpu = world.gateway_cpu();
        let through = burst(world, world.gateway, &format!("burst-{round}")).await;
        let spent = world.gateway_cpu() - cpu;
        rates.push((total / direct.as_secs_f64(), total / through.as_secs_f64(), spent.as_secs_f64() / total * 1e6));
    }
    rates.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (direct, through, cpu) = rates[rates.len() / 2];
    println!(
        "chunks/s at {} streams: provider {direct:.0}, gateway {through:.0} (ratio {:.2}); gateway CPU {cpu:.1} µs a chunk, {:.0} chunks/s per core",
        BURST.0,
        through / direct,
        1e6 / cpu
    );
}

/// In a gateway that has done nothing before: memory that was used once is used again, and shows no growth.
async fn memory(count: usize) {
    let world = World::start().await;
    let before = world.gateway_rss();
    let mut open = JoinSet::new();
    for n in 0..count {
        open.spawn(held(&world, &format!("open-{n}")));
        pace(n).await;
    }
    world.wait_for_held(count).await;
    told(&format!("{count} open streams"), before, world.gateway_rss(), count);
    world.release();
    open.join_all().await;
    world.stop().await;
}

/// Of those who wait with others for one running stream.
async fn attached_memory() {
    let world = World::start().await;
    let owner = JoinSet::from_iter([held(&world, "shared")]);
    world.wait_for_held(1).await;
    let before = world.gateway_rss();
    let mut followers = JoinSet::new();
    for n in 0..ATTACHED {
        followers.spawn(held(&world, "shared"));
        pace(n).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    told(&format!("{ATTACHED} attached to one stream"), before, world.gateway_rss(), ATTACHED);
    world.release();
    let read = followers.join_all().await;
    assert!(read.iter().all(|read| read.events > 1), "a follower was cut");
    owner.join_all().await;
    world.stop().await;
}

/// As many at once as a busy minute brings, not as one burst: that is what the gate is for.
async fn pace(n: usize) {
    if n % 50 == 49 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A stream that shows a little and then waits until it is released.
fn held(world: &World, name: &str) -> impl Future<Output = Read> + use<> {
    let (at, call) = (world.gateway, world.call(name, "hold"));
    async move {
        loop {
            let read = stream(at, &call).await;
            if !read.is_refused {
                return read;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

fn told(what: &str, before: u64, after: u64, count: usize) {
    let more = after.saturating_sub(before);
    println!("memory at {what}: {more} kB more, {:.1} kB each", more as f64 / count as f64);
}

async fn attach_and_replay(world: &World) {
    let owner = JoinSet::from_iter([held(world, "attach")]);
    world.wait_for_held(1).await;
    let mut followers = JoinSet::new();
    for _ in 0..FOLLOWERS {
        followers.spawn(held(world, "attach"));
    }
    // The held stream shows content at once; each follower's first content is its attach latency.
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.release();
    owner.join_all().await;
    let mut attached: Vec<Duration> =
        followers.join_all().await.into_iter().map(|read: Read| read.first_content).collect();
    let mut replayed = Vec::new();
    for _ in 0..FOLLOWERS {
        replayed.push(stream(world.gateway, &world.call("attach", "hold")).await.first_content);
    }
    println!(
        "attach ({FOLLOWERS} at once): p50 {:?} p99 {:?}",
        percentile(&mut attached, 50),
        percentile(&mut attached, 99)
    );
    println!("replay (one by one): p50 {:?} p99 {:?}", percentile(&mut replayed, 50), percentile(&mut replayed, 99));
}
