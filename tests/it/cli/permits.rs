//! `permit grant` says what the evidence covers and what it does not; `permit list` says in words how each one stands.

use super::contracts::fallbacks;
use super::text;
use crate::support::cluster::Database;

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_says_what_the_evidence_covers_and_what_it_does_not() {
    let database = Database::fresh().await;
    let (_beta, _gamma, cli) = fallbacks(&database).await;
    let report = cli.run(&["contract", "run", "support-triage", "--target", "beta/gpt-4.1", "--json"]).expect(0).json();
    let run = text(&report["run_id"]);
    let checks = report["checks"].as_array().expect("checks");
    let of = |kind: &str, verdict: &str| checks.iter().filter(|c| c["kind"] == kind && c["verdict"] == verdict).count();
    let grant = ["permit", "grant", "--route", "support", "--run", &run, "--reason", "alpha is down"];
    let shown = cli.run(&grant).expect(0);
    let covers = format!("schema {} passed, tokenizer {} passed", of("schema", "passed"), of("tokenizer", "passed"));
    let shown =
        shown.says(&[&format!("run {run} of `support-triage` against beta/gpt-4.1, live,"), "old; valid until"]);
    let shown = shown.says(&[&covers, "stands on     suite ", "adapter openai/"]);
    let skipped = checks.iter().filter(|check| check["verdict"] == "skipped");
    assert!(skipped.clone().count() > 0, "the suite leaves something out");
    for check in skipped {
        assert!(shown.stdout.contains(&text(&check["detail"])), "{check} is not told: {}", shown.stdout);
    }

    let permit = cli.run(&[&grant[..], &["--json"]].concat()).expect(0).json();
    let evidence = &permit["evidence"];
    for kind in ["schema", "tokenizer", "round_trip"] {
        for verdict in ["passed", "failed", "skipped"] {
            assert_eq!(evidence["checks"][kind][verdict], of(kind, verdict), "{kind} {verdict}");
        }
    }
    let left_out: usize = ["schema", "tokenizer", "round_trip"].iter().map(|kind| of(kind, "skipped")).sum();
    assert_eq!(evidence["not_covered"].as_array().map(Vec::len), Some(left_out));
    assert_eq!((&evidence["mode"], &evidence["run_id"]), (&"live".into(), &run.as_str().into()));
    assert_eq!(evidence["digests"]["suite"], report["suite_digest"]);
    assert!(evidence["age_seconds"].as_i64().is_some_and(|age| (0..600).contains(&age)), "{evidence}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_says_in_words_how_each_permit_stands() {
    let database = Database::fresh().await;
    let (_beta, _gamma, cli) = fallbacks(&database).await;
    let report = cli.run(&["contract", "run", "support-triage", "--target", "beta/gpt-4.1", "--json"]).expect(0).json();
    let run = text(&report["run_id"]);
    let grant = ["permit", "grant", "--route", "support", "--run", &run, "--reason", "alpha is down", "--json"];
    let id = text(&cli.run(&grant).expect(0).json()["id"]);
    let stands = |state: &str, words: &[&str]| {
        let listed = cli.run(&["permit", "list", "--json"]).expect(0).json()[0].clone();
        assert_eq!(listed["state"], state, "{listed}");
        cli.run(&["permit", "list"]).expect(0).says(words);
    };
    stands("valid", &["valid until 20"]);
    let set = async |what: &str| assert_eq!(database.execute(format!("UPDATE permits SET {what}")).await, 1);
    set("granted_at = now() - interval '6 d', expires_at = now() + interval '90 min'").await;
    stands("expiring", &["expires soon: in 1 h 29 min, at 20"]);
    set("granted_at = now() - interval '2 h', expires_at = now() - interval '1 h'").await;
    stands("expired", &["expired at 20", "run the suite again and grant a new one"]);
    set("expires_at = now() + interval '3 d'").await;
    cli.write("contracts/suites/support-triage/suite.toml", "name = ");
    stands("unusable", &["not usable: the suite `support-triage` cannot be read"]);
    std::fs::remove_dir_all(cli.path().join("contracts")).expect("the broken suite goes");
    cli.run(&["permit", "revoke", &id, "--reason", "it lies", "--by", "bob"]).expect(0);
    stands("revoked", &["revoked by bob at 20", "it lies"]);
}
