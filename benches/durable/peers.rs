//! The same load through other gateways, side by side with ours. They commit nothing.

use std::net::SocketAddr;
use std::time::Duration;

use super::world::{self, World};
use super::{body, median, request, wire};

/// A gateway that listens already: `name|address|process|header: value|…`.
pub struct Peer {
    name: String,
    address: SocketAddr,
    process: u32,
    headers: String,
}

impl Peer {
    pub fn read(text: &str) -> Peer {
        let mut fields = text.split('|');
        let mut next = || fields.next().expect("name|address|process|header: value|…");
        let (name, address) = (next().to_owned(), next().parse().expect("an address"));
        let process = next().parse().expect("a process");
        let headers = fields.map(|header| format!("{header}\r\n")).collect();
        Peer { name, address, process, headers }
    }

    fn request(&self) -> Vec<u8> {
        let (headers, body) = (&self.headers, body());
        format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{headers}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

/// Rounds of each in turn; the first warms up.
pub async fn compare(world: &World, peers: &[Peer], clients: usize, rounds: usize, time: Duration) {
    let mut rates = vec![Vec::new(); peers.len() + 1];
    let mut costs = vec![Vec::new(); peers.len() + 1];
    for round in 0..=rounds {
        let time = if round == 0 { Duration::from_secs(1) } else { time };
        let key = world.key.clone();
        let ours = move |client: usize, n: usize| request(&key, &format!("peers-{clients}-{round}-{client}-{n}"));
        let before = world.cpu();
        let run = wire::load(world.gateway.address, clients, time, ours).await;
        let after = world.cpu();
        let spent = after.gateway + after.postgres - before.gateway - before.postgres;
        let mut runs = vec![(run, spent)];
        for peer in peers {
            let request = peer.request();
            let before = world::cpu_of_all(peer.process);
            let run = wire::load(peer.address, clients, time, move |_, _| request.clone()).await;
            runs.push((run, world::cpu_of_all(peer.process) - before));
        }
        world.tidy_up().await;
        for (at, (run, spent)) in runs.into_iter().enumerate().filter(|_| round > 0) {
            rates[at].push(run.rate());
            costs[at].push(spent.as_secs_f64() / run.requests as f64 * 1e6);
        }
    }
    let ours = median(rates[0].iter().copied());
    let cpu = |at: usize| median(costs[at].iter().copied());
    println!("{clients:>4} clients: {ours:.0} durable jobs/s, CPU each {:.0} µs (gateway and Postgres)", cpu(0));
    for (at, peer) in peers.iter().enumerate() {
        let rate = median(rates[at + 1].iter().copied());
        let (name, times) = (&peer.name, ours / rate);
        println!(
            "              {name}: {rate:.0} requests/s, nothing committed, CPU each {:.0} µs; ours {times:.1} times as many",
            cpu(at + 1)
        );
    }
}
