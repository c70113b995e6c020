//! A gateway in this process: the real store, engine and listeners, on a database of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use contracts::suite::Suite;
use interlock::config::Config;
use interlock::domain::api_key::FreshKey;
use interlock::domain::ids::{ApiKeyId, RunId};
use interlock::domain::route::{KeyPolicy, Target};
use interlock::engine::Engine;
use interlock::http;
use interlock::store::Store;
use interlock::store::contracts::{NewRun, RunEnd};
use providers::adapter::Secret;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::client::{Answer, Client};
use super::cluster::Database;
use super::settings::{OPERATOR_TOKEN, Settings};

#[derive(Debug)]
pub struct App {
    pub engine: Engine,
    pub application: SocketAddr,
    pub operator: SocketAddr,
    pub database: Arc<Database>,
    _listeners: JoinSet<std::io::Result<()>>,
    _folder: TempDir,
}

impl App {
    pub async fn start(settings: &Settings) -> App {
        App::on(&Database::fresh().await, settings).await
    }

    /// Another gateway on the same database.
    pub async fn beside(other: &App, settings: &Settings) -> App {
        App::on(&other.database, settings).await
    }

    pub async fn on(database: &Arc<Database>, settings: &Settings) -> App {
        App::through(database, &database.url, settings).await
    }

    /// The database by another address, as that of [`super::outage::Outage`].
    pub async fn through(database: &Arc<Database>, url: &str, settings: &Settings) -> App {
        let folder = TempDir::new().expect("a folder for the settings");
        let text = settings.to_toml(folder.path(), url);
        let config =
            Arc::new(Config::parse(&text, "the test's settings").unwrap_or_else(|error| panic!("{error}\n{text}")));
        let store = Store::connect(&Secret::new(url.to_owned()), config.database.max_connections)
            .await
            .expect("the database answers");
        let application = TcpListener::bind(config.server.listen).await.expect("a free port");
        let operator = TcpListener::bind(config.server.operator_listen).await.expect("a free port");
        let addresses = (application.local_addr().expect("an address"), operator.local_addr().expect("an address"));
        let engine = Engine::start(store, config).await.expect("the engine starts");
        let mut listeners = JoinSet::new();
        listeners.spawn(http::serve::serve(application, http::application(engine.clone()), engine.clone()));
        listeners.spawn(http::serve::serve(operator, interlock::console::operator(engine.clone()), engine.clone()));
        App {
            engine,
            application: addresses.0,
            operator: addresses.1,
            database: database.clone(),
            _listeners: listeners,
            _folder: folder,
        }
    }

    pub fn store(&self) -> &Store {
        self.engine.store()
    }

    /// An application of this owner, with a fresh API key.
    pub async fn client(&self, owner: &str) -> Client {
        self.client_with(owner, None).await
    }

    pub async fn client_with(&self, owner: &str, idempotency: Option<KeyPolicy>) -> Client {
        Client { address: self.application, token: make_key(self.store(), owner, idempotency).await }
    }

    pub fn operator(&self) -> Client {
        Client { address: self.operator, token: OPERATOR_TOKEN.to_owned() }
    }

    /// `release`, `cancel` or `fail`, as somebody on call does it.
    pub async fn clear(&self, attempt: &str, how: &str) -> Answer {
        let deed = json!({ "reason": "the provider's log says so", "actor": "ann" });
        self.operator().post(&format!("/admin/v1/attempts/{attempt}/{how}"), &deed).await
    }

    pub async fn races(&self) -> Vec<Value> {
        let answer = self.operator().get("/admin/v1/races").await.expect(200);
        answer.json()["data"].as_array().expect("a list").clone()
    }

    /// A passed run of this suite against this target as everything stands now, without making its calls.
    pub async fn passed_run(&self, suite: &str, target: &str, mode: &'static str) -> String {
        let config = self.engine.config();
        let target = Target::parse(target).expect("provider/model");
        let provider = config.providers.get(&target.provider).expect("a configured provider");
        let suite = Suite::find(Some(&config.contracts_dir), suite).expect("a suite");
        let run = NewRun {
            id: RunId::fresh(),
            suite: suite.name().to_owned(),
            suite_digest: suite.digest().to_owned(),
            adapter_version: provider.adapter.version(),
            settings_digest: provider.settings_digest.clone(),
            target,
            mode,
            instance: None,
        };
        self.store().begin_run(&run).await.expect("the run begins");
        let end = RunEnd { passed: true, kinds: ["passed"; 3], error: None, checks: Vec::new() };
        self.store().end_run(run.id, &end).await.expect("the run ends");
        run.id.to_string()
    }

    /// Asks for a permit as an operator does.
    pub async fn grant(&self, route: &str, run: &str) -> Answer {
        let order = json!({ "route": route, "run_id": run, "reason": "it has proved itself", "actor": "ann" });
        self.operator().post("/admin/v1/permits", &order).await
    }

    /// A valid permit for this target on the route `support`; its id.
    pub async fn permit(&self, target: &str) -> String {
        let run = self.passed_run("support-triage", target, "live").await;
        let permit = self.grant("support", &run).await.expect(201);
        permit.json()["id"].as_str().expect("the permit's id").to_owned()
    }

    /// Stops as SIGTERM makes it stop.
    pub async fn shut_down(&self) {
        self.engine.shut_down(std::future::pending()).await;
    }
}

/// A fresh API key of this owner.
pub async fn make_key(store: &Store, owner: &str, idempotency: Option<KeyPolicy>) -> String {
    let owner = store.ensure_owner(owner).await.expect("an owner");
    let random: [u8; 38] = std::array::from_fn(|_| rand::random());
    let key = FreshKey::from_random(random);
    let made = store.create_key(ApiKeyId::fresh(), owner, &key.public_id, key.secret_sha256, idempotency);
    made.await.expect("a key");
    key.reveal().to_owned()
}
