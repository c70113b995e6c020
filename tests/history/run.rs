//! One seed: everything is started, faults are made, everything calms down, everybody reads once more, and the checker
//! reads it all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contracts::suite::Suite;
use interlock::config::Config;
use interlock::domain::api_key::FreshKey;
use interlock::domain::ids::{ApiKeyId, RunId};
use interlock::store::Store;
use interlock::store::contracts::{NewRun, RunEnd};
use providers::adapter::Secret;
use serde_json::json;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use crate::adversary::{Adversary, OWNER};
use crate::caller_moves::Caller;
use crate::callers::{Intent, Owner, PATIENCE, World};
use crate::check;
use crate::counts::Counts;
use crate::dump;
use crate::faults::{Controller, Fault};
use crate::fleet::Fleet;
use crate::history::History;
use crate::http::send;
use crate::operator::Operator;
use crate::plan::Plan;
use crate::postgres::Server;
use crate::provider::Providers;
use crate::rng::Rng;
use crate::settings::{OPERATOR_TOKEN, to_toml};

/// From the last fault until everything has settled: a lease, a sweep, an attempt's clocks, and a busy machine.
const SETTLE_LIMIT: Duration = Duration::from_secs(45);
/// Jobs that are read once more at the end.
const READ_AGAIN: usize = 60;
const OWNERS: [&str; 3] = ["acme", "umbrella", "adversary"];

/// What came of a seed.
#[derive(Debug)]
pub struct Verdict {
    /// What does not hold, named after the invariant.
    pub faults: Vec<String>,
    pub counts: Counts,
    pub seconds: f64,
}

struct Stage {
    history: Arc<History>,
    fleet: Arc<Fleet>,
    server: Arc<Mutex<Server>>,
    providers: Arc<Providers>,
    world: Arc<World>,
    operator: Arc<Operator>,
    adversary: Arc<Adversary>,
    url: String,
}

pub async fn run(plan: &Plan) -> Verdict {
    let begun = Instant::now();
    let rng = Rng::new(plan.seed);
    let stage = Stage::set(plan, &rng).await;
    stage.play(plan, &rng).await;
    let mut faults = stage.settle().await;
    stage.read_again(&rng).await;
    for gateway in &stage.fleet.gateways {
        stage.history.note(&gateway.name, "gateway.last", json!({}));
        gateway.end().await;
    }
    let dump = dump::take(&stage.url).await;
    let events = stage.history.events();
    let file = plan.history_file();
    let _ = std::fs::write(file.with_extension("dump.json"), serde_json::to_vec(&dump).unwrap_or_default());
    faults.extend(check::check(&events, &dump));
    faults.extend(stage.fleet.panics());
    let counts = Counts::of(&events, &dump);
    faults.extend(counts.never_hit(&Fault::enabled(plan)));
    if !faults.is_empty() {
        stage.fleet.keep_logs(&file);
    }
    stage.server.lock().await.stop().await;
    Verdict { faults, counts, seconds: begun.elapsed().as_secs_f64() }
}

impl Stage {
    async fn set(plan: &Plan, rng: &Rng) -> Stage {
        let history = History::create(&plan.history_file()).expect("a file for the history");
        let server = Server::start().await;
        let (url, folder) = (server.url.clone(), server.folder.clone());
        migrate(&url).await;
        dump::prepare(&url, plan.mutant.as_deref()).await;
        let store = Store::connect(&Secret::new(url.clone()), 6).await.expect("the database answers");
        let hang = if plan.is_long() { (16_000, 20_000) } else { (4_000, 7_000) };
        let providers = Providers::start(Arc::clone(&history), &url, &rng.fork("providers"), hang).await;
        let token = folder.join("operator-token");
        std::fs::write(&token, OPERATOR_TOKEN).expect("the operator's token");
        let settings = |at| to_toml(at, &token, &url, providers.alpha, providers.beta);
        let config = Config::parse(&settings(crate::settings::Addresses::free()), "history").expect("sound settings");
        let fleet = Arc::new(Fleet::new(plan.gateways, &folder, &history, settings));
        fleet.start().await;
        let mut owners = Vec::new();
        let mut keys = rng.fork("keys");
        for name in OWNERS {
            let owner = store.ensure_owner(name).await.expect("an owner");
            let key = FreshKey::from_random(std::array::from_fn(|_| keys.next() as u8));
            let made = store.create_key(ApiKeyId::fresh(), owner, &key.public_id, key.secret_sha256, None);
            made.await.expect("an API key");
            owners.push(Owner { name: name.to_owned(), token: key.reveal().to_owned() });
        }
        let owner = store.ensure_owner(OWNERS[OWNER]).await.expect("an owner");
        let world = Arc::new(World::new(Arc::clone(&history), Arc::clone(&fleet), owners));
        let operator = Arc::new(Operator { history: Arc::clone(&history), fleet: Arc::clone(&fleet) });
        permit(&store, &config, &operator).await;
        let adversary = Arc::new(Adversary {
            history: Arc::clone(&history),
            world: Arc::clone(&world),
            store,
            url: url.clone(),
            owner,
            route: config.routes["hold"].clone(),
        });
        let server = Arc::new(Mutex::new(server));
        Stage { history, fleet, server, providers: Arc::new(providers), world, operator, adversary, url }
    }

    /// Clients, adversaries, operator and faults, until the plan's time is over and everything is up again.
    async fn play(&self, plan: &Plan, rng: &Rng) {
        let (stop, stopped) = watch::channel(false);
        let mut players = JoinSet::new();
        for n in 0..plan.clients {
            let name = format!("client-{n}");
            let rng = rng.fork(&name);
            let caller = Caller { world: Arc::clone(&self.world), name, rng };
            players.spawn(caller.run(stopped.clone()));
        }
        for n in 0..2 {
            let rng = rng.fork(&format!("adversary-{n}"));
            players.spawn(Arc::clone(&self.adversary).run(rng, stopped.clone()));
        }
        for name in ["operator-0", "operator-1"] {
            players.spawn(Arc::clone(&self.operator).run(rng.fork(name), stopped.clone()));
        }
        let controller = Controller {
            history: Arc::clone(&self.history),
            fleet: Arc::clone(&self.fleet),
            server: Arc::clone(&self.server),
            providers: Arc::clone(&self.providers),
            url: self.url.clone(),
        };
        Arc::new(controller).run(plan, rng).await;
        self.providers.calm_down();
        stop.send_replace(true);
        while players.join_next().await.is_some() {}
    }

    /// INV-24, INV-30: every job comes to an end, or says where it stands. What nobody carries on by itself, its client
    /// asks for again.
    async fn settle(&self) -> Vec<String> {
        let begun = Instant::now();
        // An async job without its task is taken up when its date has come, within a minute; that is no standstill.
        const MOVING: &str = "SELECT count(*) FROM jobs WHERE state = 'running'
            OR (state = 'queued' AND error IS NULL AND delivery = 'async' AND coalesce(resume_at, now()) <= now())";
        let still = self.wait_for_none(MOVING).await;
        let mut faults = Vec::new();
        if still > 0 {
            faults.push(format!("INV-30: {still} job(s) still move {SETTLE_LIMIT:?} after the last fault"));
        }
        const STRANDED: &str = "SELECT count(*) FROM jobs WHERE state = 'queued' AND error IS NULL";
        let stranded = dump::number(&self.url, STRANDED).await.unwrap_or(-1);
        self.history.note("run", "run.stranded", json!({ "jobs": stranded }));
        let waiting = dump::take(&self.url).await.jobs;
        let mut retries = JoinSet::new();
        // With the payload that the job has: the key may have been taken by another than its own.
        for job in waiting.iter().filter(|job| job.state == "queued" && !job.has_error) {
            let (tag, what) = check::intent_of(job);
            let Some(owner) = OWNERS.iter().position(|name| *name == job.owner) else { continue };
            let endpoint = if what == "chat" { "chat" } else { "jobs" };
            let route =
                if job.request.as_deref().is_some_and(|text| text.contains(r#""over""#)) { "over" } else { "hold" };
            let intent = Intent { owner, key: job.key.clone(), route, tag, endpoint };
            let world = Arc::clone(&self.world);
            retries.spawn(async move { drop(world.submit("retry", &intent, "whole", 0, PATIENCE).await) });
        }
        while retries.join_next().await.is_some() {}
        const UNSETTLED: &str =
            "SELECT count(*) FROM jobs WHERE state = 'running' OR (state = 'queued' AND error IS NULL)";
        let still = self.wait_for_none(UNSETTLED).await;
        if still > 0 {
            faults
                .push(format!("INV-30: {still} job(s) move or wait without an error although their clients came back"));
        }
        faults.extend(self.compare_operators_list().await);
        self.history.note("run", "run.settled", json!({ "seconds": begun.elapsed().as_secs_f64() }));
        faults
    }

    async fn wait_for_none(&self, sql: &str) -> i64 {
        let until = Instant::now() + SETTLE_LIMIT;
        loop {
            let left = dump::number(&self.url, sql).await.unwrap_or(-1);
            if left == 0 || Instant::now() >= until {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// What is unknown stands in the operator's list of every gateway (of a hundred at most).
    async fn compare_operators_list(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let unknown: Vec<String> =
            dump::take(&self.url).await.jobs.into_iter().filter(|j| j.state == "unknown").map(|j| j.id).collect();
        for gateway in 0..self.fleet.gateways.len() {
            let Some(listed) = self.operator.unknown_jobs(gateway).await else {
                faults.push(format!("INV-30: gateway-{gateway} does not show what is unknown"));
                continue;
            };
            let missing = unknown.iter().filter(|id| !listed.iter().any(|job| job["id"] == **id)).count();
            if missing > 0 && unknown.len() <= 100 {
                faults.push(format!("INV-30: {missing} unknown job(s) are missing in the list of gateway-{gateway}"));
            }
        }
        faults
    }

    /// INV-20, INV-21: what was answered is answered so for ever, in every form, by every process.
    async fn read_again(&self, rng: &Rng) {
        let mut rng = rng.fork("read again");
        let mut intents = self.world.intents();
        rng.shuffle(&mut intents);
        let answered = dump::take(&self.url).await.jobs;
        let succeeded = |intent: &&Intent| {
            let of = &self.world.owners[intent.owner].name;
            answered.iter().any(|job| job.key == intent.key && job.owner == *of && job.state == "succeeded")
        };
        let chats: Vec<_> =
            intents.iter().filter(|i| i.endpoint == "chat").filter(succeeded).take(READ_AGAIN).collect();
        for (n, intent) in chats.iter().enumerate() {
            for (m, form) in ["whole", "stream", "usage"].into_iter().enumerate() {
                let gateway = (n + m) % self.fleet.gateways.len();
                let reply = self.world.submit("reader", intent, form, gateway, PATIENCE).await;
                if let Some(job) = reply.and_then(|reply| reply.header("x-interlock-job-id").map(str::to_owned)) {
                    drop(self.world.read("reader", "job.result", intent.owner, (intent.owner, &job), gateway).await);
                    drop(self.world.read("reader", "job.read", intent.owner, (intent.owner, &job), gateway).await);
                }
            }
        }
    }
}

async fn migrate(url: &str) {
    let store = Store::connect(&Secret::new(url.to_owned()), 1).await.expect("the database answers");
    store.migrate().await.expect("the migrations run");
    store.close().await;
}

/// A passed run of the suite against beta, as everything stands now, and the permit that an operator grants on it.
async fn permit(store: &Store, config: &Config, operator: &Operator) {
    let route = &config.routes["over"];
    let target = &route.targets[1];
    let suite = Suite::find(Some(&config.contracts_dir), "support-triage").expect("a suite");
    let run = NewRun {
        id: RunId::fresh(),
        suite: suite.name().to_owned(),
        suite_digest: suite.digest().to_owned(),
        adapter_version: target.adapter_version.clone(),
        settings_digest: target.settings_digest.clone(),
        target: target.target.clone(),
        mode: "live",
        instance: None,
    };
    store.begin_run(&run).await.expect("the run begins");
    let end = RunEnd { passed: true, kinds: ["passed"; 3], error: None, checks: Vec::new() };
    store.end_run(run.id, &end).await.expect("the run ends");
    let order = json!({ "route": "over", "run_id": run.id, "reason": "for the history test", "actor": "ann" });
    let reply = send(&operator.ask(0, "POST", "/admin/v1/permits", &order.to_string())).await.whole();
    let granted = reply.as_ref().is_some_and(|reply| reply.status == 201);
    operator.history.note("operator", "operator.permit", json!({ "granted": granted }));
    assert!(granted, "the permit is refused: {reply:?}");
}
