//! A rolling restart of two gateways behind one address: clients that retry with their key lose nothing and double
//! nothing, and nothing in flight turns failed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::task::JoinSet;

use crate::support::client::Client;
use crate::support::cluster::Database;
use crate::support::process::Process;
use crate::support::settings::Settings;
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{PATIENCE, ask};

/// The one address: whoever is behind it now, in turn.
#[derive(Debug, Clone, Default)]
struct Address {
    behind: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Address {
    fn put(&self, gateways: &[SocketAddr]) {
        *self.behind.lock().unwrap_or_else(PoisonError::into_inner) = gateways.to_vec();
    }

    fn pick(&self, turn: usize) -> SocketAddr {
        let behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        behind[turn % behind.len()]
    }
}

/// Clicks until there is an answer, as an SDK with retries does.
async fn insist(client: Client, address: Address, key: String) -> (String, bytes::Bytes) {
    let until = Instant::now() + PATIENCE * 4;
    for turn in 0.. {
        let at = client.at(address.pick(turn));
        if let Ok(answer) = at.chat_call(&key, &ask(&key)).try_send().await
            && answer.status == 200
        {
            return (answer.job_id(), answer.body);
        }
        assert!(Instant::now() < until, "no answer for {key}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    unreachable!("the loop ends by itself")
}

#[tokio::test]
async fn a_rolling_restart_loses_no_request_that_is_retried_with_its_key() {
    let alpha = ScriptedUpstream::start().await;
    alpha.always(Reply::answer("ok").after(Duration::from_millis(300)));
    let settings = Settings::one(&alpha, "attempt_timeout = \"10s\"").server("drain = \"5s\"");
    let database = Database::fresh().await;
    let (mut first, mut second) =
        (Process::spawn(&database, &settings).await, Process::spawn(&database, &settings).await);
    let address = Address::default();
    address.put(&[first.application, second.application]);
    let client = first.client("acme").await;
    let mut clicks = JoinSet::new();
    let mut asked = 0;
    for restart in 0..2 {
        for _ in 0..20 {
            asked += 1;
            clicks.spawn(insist(client.clone(), address.clone(), format!("k-{asked}")));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let old = if restart == 0 { &mut first } else { &mut second };
        old.signal(Signal::SIGTERM);
        let status = old.ended().await;
        assert!(status.success(), "{status}\n{}", old.log());
        *old = Process::spawn(&database, &settings).await;
        address.put(&[first.application, second.application]);
    }
    let answered = clicks.join_all().await;
    let mut jobs: Vec<&String> = answered.iter().map(|(job, _)| job).collect();
    jobs.sort();
    jobs.dedup();
    assert_eq!((answered.len(), jobs.len()), (asked, asked), "every key has its job and its answer");
    assert_eq!(alpha.count(), asked, "nothing was sent twice");
    assert_eq!(database.count("SELECT count(*) FROM attempts WHERE state <> 'succeeded'").await, 0);
    assert_eq!(database.count("SELECT count(*) FROM jobs WHERE state <> 'succeeded'").await, 0);
}
