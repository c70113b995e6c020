//! A change of what a permit was earned under ends it at once, for good, for every instance, and in words.

use std::path::Path;

use tempfile::TempDir;

use super::{deeds, metrics, permit, provider, providers, words};
use crate::console::Browser;
use crate::failover::copy_of_the_suites;
use crate::support::app::App;
use crate::support::settings::Settings;
use crate::support::upstream::ScriptedUpstream;
use crate::support::{ask, eventually};

/// Two providers, a suite on disk that a test may change, and a permit on it.
struct Stage {
    app: App,
    alpha: ScriptedUpstream,
    beta: ScriptedUpstream,
    settings: Settings,
    suites: TempDir,
    permit: String,
}

impl Stage {
    async fn set() -> Stage {
        let (alpha, beta) = providers("of B").await;
        let suites = copy_of_the_suites();
        let dir = format!("[contracts]\ndir = \"{}\"", suites.path().display());
        let settings = Settings::two(&alpha, &beta, "").raw(&dir);
        let app = App::start(&settings).await;
        let permit = app.permit("beta/m2").await;
        Stage { app, alpha, beta, settings, suites, permit }
    }

    fn suite(&self) -> String {
        std::fs::read_to_string(file(self.suites.path())).expect("the suite")
    }

    fn write(&self, text: &str) {
        std::fs::write(file(self.suites.path()), text).expect("the suite changes");
    }

    async fn live(&self) -> i64 {
        self.app.database.count("SELECT count(*) FROM permits WHERE revoked_at IS NULL").await
    }
}

fn file(suites: &Path) -> std::path::PathBuf {
    suites.join("support-triage/suite.toml")
}

#[tokio::test]
async fn a_changed_suite_ends_the_permit_for_good_and_every_list_says_why() {
    let stage = Stage::set().await;
    let (app, id) = (&stage.app, stage.permit.as_str());
    let granted = permit(app, id).await;
    assert_eq!(granted["state"], "valid");
    assert!(words(&granted["status"]).starts_with("valid until 20"), "{granted}");
    let text = stage.suite();
    stage.write(&text.replace("repeats = 2", "repeats = 3"));
    // By itself: nobody calls.
    eventually("the permit has ended", async || stage.live().await == 0).await;
    let ended = permit(app, id).await;
    let run = words(&granted["run_id"]);
    let why = format!("the suite changed since run {run} (digest {} → ", &words(&granted["suite_digest"])[..12]);
    assert_eq!((&ended["state"], &ended["ended_cause"]), (&"ended".into(), &"changed".into()));
    assert_eq!(ended["revoked_by"], "gateway");
    assert!(words(&ended["status"]).starts_with(&format!("ended: {why}")), "{ended}");
    assert!(words(&ended["status"]).contains("): run it again"), "{ended}");
    assert!(words(&provider(app, "beta").await["permits"][0]["status"]).contains(&why));
    let browser = Browser::logged_in(app.operator).await;
    for path in ["/console", "/console/contracts"] {
        let page = browser.page(path).await;
        assert!(page.contains("<span class=\"state ended\">") && page.contains(&format!("ended: {why}")), "{page}");
    }
    let done = deeds(app, id).await;
    assert!(done.contains(&format!("gateway permit.end: {why}")), "{done}");
    assert!(metrics(app).await.contains("interlock_permits_ended_total{cause=\"changed\",route=\"support\"} 1"));

    // Undone: what happened in between nobody has looked at.
    stage.write(&text);
    let client = app.client("acme").await;
    let refused = client.chat("k", &ask("hi")).await.expect(503);
    let said = refused.json()["error"]["message"].to_string();
    assert!(said.contains(&format!("permit {id} ended: {why}")), "{said}");
    assert_eq!((stage.beta.count(), stage.live().await), (0, 0));
    app.permit("beta/m2").await;
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "of B");
}

#[tokio::test]
async fn a_call_that_meets_the_change_first_ends_the_permit_itself() {
    let stage = Stage::set().await;
    let text = stage.suite();
    let client = stage.app.client("acme").await;
    stage.write(&text.replace("repeats = 2", "repeats = 3"));
    client.chat("k", &ask("hi")).await.expect(503);
    stage.write(&text);
    assert_eq!(stage.live().await, 0, "no look of the watch is needed");
    assert_eq!(stage.beta.count(), 0);
}

#[tokio::test]
async fn a_suite_that_cannot_be_read_closes_the_fallback_and_ends_nothing() {
    let stage = Stage::set().await;
    let text = stage.suite();
    stage.write("name = ");
    let client = stage.app.client("acme").await;
    let refused = client.chat("k", &ask("hi")).await.expect(503);
    assert!(refused.text().contains("the suite `support-triage` cannot be read"), "{}", refused.text());
    assert_eq!(permit(&stage.app, &stage.permit).await["state"], "unusable");
    stage.write(&text);
    assert_eq!(client.chat("k", &ask("hi")).await.expect(200).content(), "of B");
    assert_eq!(stage.live().await, 1);
}

// During a roll-out both settings serve side by side.
#[tokio::test]
async fn new_settings_end_old_permits_and_old_settings_end_no_new_one() {
    let stage = Stage::set().await;
    let changed = stage.settings.clone().provider("beta", "openai", &stage.beta.base_url(), "error_500 = \"unknown\"");
    let new = App::beside(&stage.app, &changed).await;
    eventually("the new process has ended the old permit", async || stage.live().await == 0).await;
    let ended = permit(&new, &stage.permit).await;
    assert!(words(&ended["status"]).starts_with("ended: the settings of provider `beta` changed since run"), "{ended}");

    let granted = new.permit("beta/m2").await;
    let client = stage.app.client("acme").await;
    let refused = client.chat("k", &ask("hi")).await.expect(503);
    assert!(refused.text().contains("the settings of provider `beta` changed since run"), "{}", refused.text());
    assert_eq!(stage.live().await, 1, "the old process has met it, and leaves it alone");
    assert_eq!(permit(&new, &granted).await["state"], "valid");
    assert_eq!(client.at(new.application).chat("k", &ask("hi")).await.expect(200).content(), "of B");
}

#[tokio::test]
async fn another_model_or_another_contract_on_the_route_ends_the_permit() {
    let stage = Stage::set().await;
    let model = App::beside(&stage.app, &stage.settings.clone().route("support", &["alpha/m1", "beta/m3"], "")).await;
    eventually("the model is another", async || stage.live().await == 0).await;
    let ended = permit(&model, &stage.permit).await;
    assert!(words(&ended["status"]).contains("beta/m2 is no target of it any more"), "{ended}");
    let second = stage.app.permit("beta/m2").await;
    let lines = "contract = \"small-model\"";
    let other =
        App::beside(&stage.app, &stage.settings.clone().route("support", &["alpha/m1", "beta/m2"], lines)).await;
    eventually("the contract is another", async || stage.live().await == 0).await;
    let ended = permit(&other, &second).await;
    assert!(words(&ended["status"]).contains("the route's contract is now `small-model`"), "{ended}");
    assert_eq!((stage.alpha.count(), stage.beta.count()), (0, 0));
}
