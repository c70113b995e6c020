//! The pages for people on call: only for who holds the token, and every deed as `/admin/v1` does it.

use std::net::SocketAddr;

use http::Method;

use crate::support::app::App;
use crate::support::client::{Answer, Client};
use crate::support::settings::{OPERATOR_TOKEN, Settings};
use crate::support::upstream::{Reply, ScriptedUpstream};
use crate::support::{ask, eventually};

/// A browser: it keeps its cookie, and sends forms.
struct Browser {
    client: Client,
    cookie: String,
}

impl Browser {
    /// At the operator's address, with nothing but a cookie.
    fn new(operator: SocketAddr) -> Browser {
        Browser { client: Client { address: operator, token: String::new() }, cookie: String::new() }
    }

    async fn logged_in(operator: SocketAddr) -> Browser {
        let mut browser = Browser::new(operator);
        let entered = browser.send("/console/login", &[("token", OPERATOR_TOKEN)]).await.expect(303);
        let cookie = entered.header("set-cookie").expect("a cookie");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        browser.cookie = cookie.split(';').next().expect("its value").to_owned();
        browser
    }

    async fn open(&self, path: &str) -> Answer {
        self.client.anonymous(Method::GET, path).header("cookie", &self.cookie).send().await
    }

    async fn page(&self, path: &str) -> String {
        self.open(path).await.expect(200).text()
    }

    async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let form = serde_urlencoded::to_string(fields).expect("a form");
        let call = self.client.anonymous(Method::POST, path).header("cookie", &self.cookie);
        call.header("content-type", "application/x-www-form-urlencoded").body(form).send().await
    }

    /// What this session's forms carry.
    async fn form_token(&self, path: &str) -> String {
        let page = self.page(path).await;
        let (_, rest) = page.split_once("name=\"form_token\" value=\"").expect("a form");
        rest.split('"').next().expect("its value").to_owned()
    }
}

/// A job whose one attempt is silent, and its id.
async fn silent(alpha: &ScriptedUpstream) -> (App, Client, String) {
    alpha.next(Reply::answer("late").held());
    let app = App::start(&Settings::one(alpha, "attempt_timeout = \"300ms\"")).await;
    let client = app.client("acme").await;
    let job = client.chat("k", &ask("a secret prompt")).await.expect(504).job_id();
    (app, client, job)
}

#[tokio::test]
async fn nobody_sees_the_console_without_the_token() {
    let alpha = ScriptedUpstream::start().await;
    let (app, client, job) = silent(&alpha).await;
    let attempt = client.job(&job).await["attempts"][0]["id"].as_str().expect("an id").to_owned();
    let mut stranger = Browser::new(app.operator);
    for cookie in ["", "interlock_console=", "interlock_console=99999999999.00", "interlock_console=x"] {
        stranger.cookie = cookie.to_owned();
        for path in ["/console", "/console/jobs", "/console/contracts", &format!("/console/jobs/{job}")] {
            let turned_away = stranger.open(path).await.expect(303);
            assert_eq!(turned_away.header("location"), Some("/console/login"));
            assert!(!turned_away.text().contains(&job));
        }
        let deed = [("reason", "none"), ("form_token", "")];
        stranger.send(&format!("/console/attempts/{attempt}/fail"), &deed).await.expect(303);
        assert_eq!(client.job(&job).await["attempts"][0]["state"], "unknown", "{cookie}");
    }
    let wrong = stranger.send("/console/login", &[("token", "wrong")]).await.expect(401);
    assert_eq!(wrong.header("set-cookie"), None);
    assert!(wrong.text().contains("operators only"));
    let login = stranger.open("/console/login").await.expect(200);
    let policy = login.header("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(login.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn what_nobody_knows_is_shown_and_cleared_by_name() {
    for (deed, state) in [("fail", "failed"), ("release", "released"), ("cancel", "cancelled")] {
        let alpha = ScriptedUpstream::start().await;
        let (app, client, job) = silent(&alpha).await;
        let browser = Browser::logged_in(app.operator).await;
        assert!(browser.page("/console").await.contains(&format!("/console/jobs/{job}")));
        let path = format!("/console/jobs/{job}");
        let page = browser.page(&path).await;
        assert!(page.contains("attempt_timeout") && page.contains("alpha/m1"), "{page}");
        assert!(!page.contains("a secret prompt"), "R12");
        let attempt = client.job(&job).await["attempts"][0]["id"].as_str().expect("an id").to_owned();
        let token = browser.form_token(&path).await;
        let address = format!("/console/attempts/{attempt}/{deed}");
        let missing = browser.send(&address, &[("form_token", &token), ("reason", " ")]).await.expect(400);
        assert!(missing.text().contains("reason_missing"));
        let reason = "<b>seen</b> in the provider's log";
        let fields = [("form_token", token.as_str()), ("reason", reason), ("actor", "ann")];
        let done = browser.send(&address, &fields).await.expect(303);
        assert_eq!(done.header("location"), Some(path.as_str()));
        let cleared = client.attempt_in_state(&job, 1, state).await;
        assert_eq!(cleared["attempts"][0]["cleared_by"], "operator:ann");
        let recorded: String = app.database.value("SELECT actor || ': ' || reason FROM operator_actions").await;
        assert_eq!(recorded, format!("ann: {reason}"));
        let again = browser.send(&address, &fields).await.expect(409);
        assert!(again.text().contains("only an unknown attempt can be cleared"));
        if deed == "fail" {
            let page = browser.page(&path).await;
            assert!(page.contains("&lt;b&gt;seen&lt;") && !page.contains("<b>seen"), "{page}");
        }
    }
}

#[tokio::test]
async fn a_form_that_is_not_the_sessions_own_does_nothing() {
    let alpha = ScriptedUpstream::start().await;
    let (app, client, job) = silent(&alpha).await;
    let browser = Browser::logged_in(app.operator).await;
    let attempt = client.job(&job).await["attempts"][0]["id"].as_str().expect("an id").to_owned();
    let address = format!("/console/attempts/{attempt}/release");
    let missing = browser.send(&address, &[("reason", "forged")]).await.expect(400);
    assert!(missing.text().contains("form_token"));
    let forged = browser.send(&address, &[("reason", "forged"), ("form_token", "00")]).await.expect(400);
    assert!(forged.text().contains("not of this session"));
    assert_eq!(client.job(&job).await["attempts"][0]["state"], "unknown");
}

#[tokio::test]
async fn jobs_are_listed_by_state_and_what_was_thrown_away_is_shown() {
    let alpha = ScriptedUpstream::start().await;
    let (app, client, job) = silent(&alpha).await;
    client.cancel(&job).await.expect(200);
    let browser = Browser::logged_in(app.operator).await;
    assert!(browser.page("/console/jobs?state=cancelled").await.contains(&job));
    assert!(!browser.page("/console/jobs?state=unknown").await.contains(&job));
    let wrong = browser.open("/console/jobs?state=lost").await.expect(400);
    assert!(wrong.text().contains("no state of a job"));
    browser.open("/console/jobs/01890000-0000-7000-8000-000000000000").await.expect(404);
    eventually("the loss is shown", async || browser.page("/console").await.contains("none: cancelled")).await;
}

#[tokio::test]
async fn a_fallback_is_enabled_and_ended_on_the_page() {
    let alpha = ScriptedUpstream::start().await;
    let beta = ScriptedUpstream::start().await;
    let app = App::start(&Settings::two(&alpha, &beta, "")).await;
    let browser = Browser::logged_in(app.operator).await;
    assert!(browser.page("/console/contracts").await.contains("no route fails over"));
    let run = app.passed_run("support-triage", "beta/m2", "live").await;
    assert!(browser.page(&format!("/console/contract-runs/{run}")).await.contains("beta&#x2f;m2"), "escaped");
    let token = browser.form_token("/console/contracts").await;
    let order = [
        ("form_token", token.as_str()),
        ("route", "support"),
        ("run_id", &run),
        ("reason", "proved"),
        ("actor", "ann"),
    ];
    browser.send("/console/permits", &order).await.expect(303);
    let page = browser.page("/console/contracts").await;
    assert!(page.contains("by ann") && page.contains("proved"), "{page}");
    let (_, rest) = page.split_once("/console/permits/").expect("a form to revoke it");
    let permit = rest.split('/').next().expect("its id").to_owned();
    let why = [("form_token", token.as_str()), ("reason", "it lies"), ("actor", "bob")];
    browser.send(&format!("/console/permits/{permit}/revoke"), &why).await.expect(303);
    assert!(browser.page("/console/contracts").await.contains("it lies"));
    let other = app.passed_run("support-triage", "alpha/m1", "live").await;
    let order = [("form_token", token.as_str()), ("route", "support"), ("run_id", &other), ("reason", "why not")];
    let refused = browser.send("/console/permits", &order).await.expect(409);
    assert!(refused.text().contains("needs no permit"));
}
