//! Every setting that is wrong is named together with its cure, all at once, and the exit status is 2.

use interlock::config::Config;
use interlock::domain::limits::Limit;

use crate::command::Workplace;

const SOUND: &str = r#"
[server]
listen = "127.0.0.1:0"
operator_listen = "127.0.0.1:0"
operator_token = "env:TOKEN"
[database]
url = "env:DATABASE_URL"
[providers.alpha]
adapter = "openai"
base_url = "http://127.0.0.1:9001/v1"
api_key = "env:ALPHA_KEY"
[providers.beta]
adapter = "anthropic"
base_url = "https://api.anthropic.com/v1"
[routes.support]
contract = "support-triage"
targets = ["alpha/gpt-4.1", "beta/claude-sonnet-4-5"]
attempt_timeout = "30s"
[jobs]
retention = "90d"
"#;

fn workplace(settings: &str) -> Workplace {
    Workplace::new(settings)
        .with("TOKEN", "operator-token")
        .with("DATABASE_URL", "postgres://u@127.0.0.1/d")
        .with("ALPHA_KEY", "alpha-key")
        .with("EMPTY", "")
        .with("SPACES", "  \n ")
}

/// The sound settings with one line put in the place of another: the check must refuse them and say these words.
#[track_caller]
fn refused(line: &str, instead: &str, words: &[&str]) {
    assert!(SOUND.contains(line), "`{line}` does not stand in the sound settings");
    let ran = workplace(&SOUND.replacen(line, instead, 1)).run(&["config", "check"]);
    ran.expect(2).says(words).says(&["interlock.toml"]);
}

#[test]
fn sound_settings_pass_and_show_the_routes() {
    let workplace = workplace(SOUND);
    let shown = workplace.run(&["config", "check"]).expect(0).stdout;
    assert!(shown.contains("alpha/gpt-4.1") && shown.contains("support-triage"), "{shown}");
    let json = workplace.run(&["config", "check", "--json"]).expect(0).json();
    assert_eq!(json, serde_json::json!({"ok": true, "routes": ["support"], "providers": ["alpha", "beta"]}));
}

#[test]
fn an_unknown_setting_is_an_error_that_names_it() {
    for (line, instead, name) in [
        ("[server]", "[server]\nlissten = \"127.0.0.1:1\"", "lissten"),
        ("[database]", "[database]\nurll = \"env:X\"", "urll"),
        ("[providers.alpha]", "[providers.alpha]\ntimeout = \"5s\"", "timeout"),
        ("[routes.support]", "[routes.support]\nretry = 3", "retry"),
        ("[jobs]", "[jobs]\nkeep = \"1d\"", "keep"),
        ("[jobs]", "[contracts]\nfolder = \"x\"\n[jobs]", "folder"),
        ("[jobs]", "[job]", "job"),
    ] {
        refused(line, instead, &["unknown field", name, "expected"]);
    }
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_line() {
    refused("[routes.support]", "[routes.support]\nretries = \"two\"", &["retries = \"two\"", "invalid type"]);
    refused("[server]", "[server]\nbody_limit = -1", &["body_limit = -1", "-1"]);
    refused("[server]", "[server]\nmax_connections = 1.5", &["max_connections = 1.5"]);
    refused("targets = [\"alpha/gpt-4.1\", \"beta/claude-sonnet-4-5\"]", "targets = \"alpha/gpt-4.1\"", &["targets"]);
    refused("[jobs]", "[jobs", &["does not parse"]);
    refused("[jobs]", "[server]", &["server", "duplicate"]);
    refused("adapter = \"openai\"\n", "", &["adapter"]);
    refused("base_url = \"http://127.0.0.1:9001/v1\"\n", "", &["base_url"]);
}

#[test]
fn a_settings_file_that_is_not_there_or_cannot_be_read_is_named_with_the_cure() {
    let workplace = workplace(SOUND);
    let cure = ["--config FILE", "INTERLOCK_CONFIG", "interlock.toml"];
    workplace
        .run(&["config", "check", "--config", "nowhere.toml"])
        .expect(2)
        .says(&["nowhere.toml", "does not exist"])
        .says(&cure);
    std::fs::remove_file(workplace.path().join("interlock.toml")).expect("the file");
    workplace.run(&["serve"]).expect(2).says(&["interlock.toml does not exist"]).says(&cure);
    workplace.run(&["config", "check", "--config", "."]).expect(2).says(&["cannot be read", "directory"]);
    std::fs::write(workplace.path().join("latin1.toml"), b"# caf\xe9\n").expect("a file");
    workplace.run(&["config", "check", "--config", "latin1.toml"]).expect(2).says(&[
        "latin1.toml",
        "cannot be read",
        "UTF-8",
    ]);
}

#[test]
fn interlock_config_names_the_file_and_the_flag_comes_first() {
    let workplace = workplace("[nonsense]").with("INTERLOCK_CONFIG", "other.toml");
    workplace.write("other.toml", SOUND);
    workplace.run(&["config", "check"]).expect(0);
    workplace.run(&["config", "check", "--config", "interlock.toml"]).expect(2).says(&["nonsense"]);
}

#[test]
fn a_secret_is_named_and_never_written_out_or_empty() {
    refused("env:ALPHA_KEY", "sk-live-CANARY", &["providers.alpha.api_key", "env:NAME or file:PATH"]);
    let shown = workplace(&SOUND.replace("env:ALPHA_KEY", "sk-live-CANARY")).run(&["config", "check"]);
    assert!(!shown.stderr.contains("CANARY") && !shown.stdout.contains("CANARY"), "{}", shown.stderr);
    refused("env:TOKEN", "token", &["server.operator_token", "env:NAME or file:PATH"]);
    refused(
        "env:ALPHA_KEY",
        "env:NOT_THERE",
        &["providers.alpha.api_key", "environment variable NOT_THERE is not set"],
    );
    refused("env:ALPHA_KEY", "env:EMPTY", &["providers.alpha.api_key", "env:EMPTY is empty"]);
    refused("env:TOKEN", "env:SPACES", &["server.operator_token", "env:SPACES is empty", "would let anybody in"]);
    refused("env:TOKEN", "file:nowhere.key", &["server.operator_token", "file nowhere.key cannot be read"]);
    refused("env:ALPHA_KEY", "", &["providers.alpha.api_key", "env:NAME or file:PATH"]);
    refused("env:DATABASE_URL", "sqlite://x", &["database.url", "env:NAME"]);
    refused("env:DATABASE_URL", "env:ALPHA_KEY", &["database.url", "postgres://"]);
}

#[test]
fn a_secret_in_a_file_is_read_without_its_line_end() {
    let workplace = workplace(&SOUND.replace("env:ALPHA_KEY", "file:alpha.key"));
    workplace.write("alpha.key", "k-123\n");
    workplace.run(&["config", "check"]).expect(0);
    workplace.write("alpha.key", "k-1\n23\n");
    workplace.run(&["config", "check"]).expect(2).says(&["providers.alpha.api_key", "control characters"]);
}

#[test]
fn a_password_in_a_database_address_is_never_shown() {
    let ran =
        workplace(&SOUND.replace("env:DATABASE_URL", "postgres://u:CANARY@127.0.0.1:1/d")).run(&["migrate"]).expect(2);
    assert!(!ran.stderr.contains("CANARY"), "{}", ran.stderr);
    let ran = workplace(&SOUND.replace("env:DATABASE_URL", "postgres://u:CANARY@127.0.0.1:notaport/d"))
        .run(&["migrate"])
        .expect(2)
        .says(&["database.url"]);
    assert!(!ran.stderr.contains("CANARY"), "{}", ran.stderr);
}

#[test]
fn a_route_names_its_targets_and_each_target_a_provider() {
    let targets = "targets = [\"alpha/gpt-4.1\", \"beta/claude-sonnet-4-5\"]";
    refused(targets, "", &["routes.support.targets", "is empty", "provider/model"]);
    refused(targets, "targets = []", &["routes.support.targets", "is empty"]);
    refused(
        targets,
        "targets = [\"gpt-4.1\"]",
        &["routes.support.targets", "`gpt-4.1` is not of the form provider/model"],
    );
    refused(targets, "targets = [\"alpha/\"]", &["routes.support.targets", "`alpha/`"]);
    refused(targets, "targets = [\"gamma/m\"]", &["routes.support.targets", "[providers.gamma]"]);
    refused(targets, "targets = [\"alpha/m\", \"alpha/m\"]", &["routes.support.targets", "`alpha/m` stands twice"]);
    let slashes = SOUND.replace("alpha/gpt-4.1", "alpha/meta/llama-3");
    workplace(&slashes).run(&["config", "check"]).expect(0).says(&["alpha/meta/llama-3"]);
}

#[test]
fn a_provider_names_a_known_adapter_and_an_address() {
    refused(
        "adapter = \"openai\"",
        "adapter = \"opnai\"",
        &["providers.alpha.adapter", "`opnai`", "openai", "anthropic", "vllm"],
    );
    for (address, why) in [
        ("alpha:9001", "https://"),
        ("ftp://x/v1", "https://"),
        ("http://", "base_url"),
        ("http://u:CANARY@x/v1", "api_key"),
        ("", "https://"),
    ] {
        refused("http://127.0.0.1:9001/v1", address, &["providers.alpha.base_url", why]);
    }
    refused(
        "adapter = \"openai\"",
        "adapter = \"openai\"\nerror_500 = \"perhaps\"",
        &["providers.alpha.error_500", "`failed`", "`unknown`"],
    );
    refused("[providers.alpha]", "[providers.\"al pha\"]", &["providers.al pha", "letters, digits"]);
}

#[test]
fn a_version_of_an_api_belongs_to_an_adapter_that_sends_one() {
    let alpha = "adapter = \"openai\"";
    let version = "\napi_version = \"2025-04-01-preview\"";
    refused(alpha, &format!("{alpha}{version}"), &["providers.alpha.api_version", "`openai`", "leave it out"]);
    let azure = "adapter = \"azure-openai\"";
    for wrong in ["", "2024&x=1", "2024 10 21"] {
        let setting = format!("{azure}\napi_version = \"{wrong}\"");
        refused(alpha, &setting, &["providers.alpha.api_version", "2024-10-21"]);
    }
    let sound = SOUND.replace(alpha, &format!("{azure}{version}"));
    workplace(&sound).run(&["config", "check"]).expect(0);
}

#[test]
fn access_keys_stand_together_and_belong_to_an_adapter_that_signs() {
    let alpha = "adapter = \"openai\"";
    let region = "region = \"eu-central-1\"";
    refused(alpha, &format!("{alpha}\n{region}"), &["providers.alpha.region", "`openai`", "leave it out"]);
    let bedrock = SOUND.replace(alpha, "adapter = \"bedrock\"");
    let keys = |keys: &[&str]| {
        let keys = bedrock.replace("api_key = \"env:ALPHA_KEY\"", &keys.join("\n"));
        workplace(&keys).with("AWS_ID", "id").with("AWS_SECRET", "secret").run(&["config", "check"])
    };
    let (id, secret) = ("access_key_id = \"env:AWS_ID\"", "secret_access_key = \"env:AWS_SECRET\"");
    keys(&[region, id, secret]).expect(0);
    keys(&["api_key = \"env:AWS_SECRET\""]).expect(0);
    for (set, words) in [
        (&[id, secret][..], &["providers.alpha.region", "missing", "`access_key_id`"][..]),
        (&[region, id], &["providers.alpha.secret_access_key", "missing"]),
        (&[region, secret], &["providers.alpha.access_key_id", "missing"]),
        (&["region = \"eu/central\"", id, secret], &["providers.alpha.region", "eu-central-1"]),
        (&[region, id, "secret_access_key = \"written-out\""], &["providers.alpha.secret_access_key", "env:NAME"]),
        (&[region, id, secret, "api_key = \"env:AWS_ID\""], &["providers.alpha.api_key", "`region`"]),
    ] {
        keys(set).expect(2).says(words);
    }
}

#[test]
fn an_address_of_google_cloud_names_its_project() {
    let cure = ["providers.alpha.base_url", "projects/PROJECT/locations/REGION"];
    refused("adapter = \"openai\"", "adapter = \"vertex\"", &cure);
}

#[test]
fn durations_carry_a_unit_and_stay_within_reason() {
    let cure = "500ms, 30s, 10m, 24h, 7d";
    for (text, why) in [
        ("30", cure),
        ("", cure),
        ("soon", cure),
        ("-5s", cure),
        ("0s", "longer than nothing"),
        ("200years", "hundred years"),
        ("99999999999999999999s", cure),
    ] {
        refused(
            "attempt_timeout = \"30s\"",
            &format!("attempt_timeout = \"{text}\""),
            &["routes.support.attempt_timeout", why],
        );
    }
    for setting in ["settle_timeout", "first_byte_timeout", "idle_timeout", "job_deadline", "permit_ttl"] {
        refused(
            "attempt_timeout = \"30s\"",
            &format!("{setting} = \"7\""),
            &[&format!("routes.support.{setting}"), cure],
        );
    }
    for setting in ["drain", "header_timeout", "body_timeout"] {
        refused("[server]", &format!("[server]\n{setting} = \"1\""), &[&format!("server.{setting}"), cure]);
    }
    refused("retention = \"90d\"", "retention = \"90\"", &["jobs.retention", cure]);
    refused(
        "adapter = \"openai\"",
        "adapter = \"openai\"\nconnect_timeout = \"0s\"",
        &["providers.alpha.connect_timeout", "longer than nothing"],
    );
}

#[test]
fn addresses_numbers_and_words_are_checked() {
    for address in ["8080", "localhost", "127.0.0.1", "127.0.0.1:99999"] {
        refused("listen = \"127.0.0.1:0\"", &format!("listen = \"{address}\""), &["server.listen", "IP:PORT"]);
    }
    refused("operator_listen = \"127.0.0.1:0\"", "operator_listen = \"x\"", &["server.operator_listen", "IP:PORT"]);
    refused("[database]", "[database]\nmax_connections = 1", &["database.max_connections", "at least 2"]);
    refused("[server]", "[server]\nmax_connections = 0", &["server.max_connections", "at least 1"]);
    refused("[server]", "[server]\nbody_limit = 0", &["server.body_limit", "at least 1"]);
    refused("[routes.support]", "[routes.support]\nmax_attempts = 0", &["routes.support.max_attempts", "at least 1"]);
    for (setting, words) in [
        ("on_unknown", "`hold` or `fail_over`"),
        ("idempotency", "`required` or `generate`"),
        ("stream", "`live` or `settled`"),
        ("evidence", "`live` or `replay`"),
    ] {
        refused(
            "[routes.support]",
            &format!("[routes.support]\n{setting} = \"maybe\""),
            &[&format!("routes.support.{setting}"), "`maybe`", words],
        );
    }
}

#[test]
fn limits_are_whole_numbers_or_unlimited() {
    let cure = "whole number from 1";
    for wrong in ["0", "-1", "1.5", "\"many\"", "true"] {
        let table = format!("[limits]\ntokens_per_minute = {wrong}\n[server]");
        refused("[server]", &table, &["limits.tokens_per_minute", cure, "\"unlimited\""]);
        let table = format!("[owners.\"acme & sons\"]\nconcurrent_jobs = {wrong}\n[server]");
        refused("[server]", &table, &["owners.acme & sons.concurrent_jobs", cure]);
    }
    refused("[server]", "[limits]\nrequests = 1\n[server]", &["unknown field `requests`"]);
    refused("[server]", "[server]\nmax_jobs = 0", &["server.max_jobs", "at least 1"]);
    let limits = "[limits]\nrequests_per_minute = 60\nconcurrent_jobs = 5\n
                  [owners.acme]\nrequests_per_minute = \"unlimited\"\ntokens_per_minute = 9\n";
    let config = Config::parse(limits, "the test's settings").expect("sound settings").limits;
    let limit = |requests, tokens, jobs| Limit {
        requests_per_minute: requests,
        tokens_per_minute: tokens,
        concurrent_jobs: jobs,
    };
    assert_eq!(config.of("anybody"), limit(Some(60), None, Some(5)));
    assert_eq!(config.of("acme"), limit(None, Some(9), Some(5)), "what an owner's table leaves out is as everybody's");
}

/// Each would end the process at its start: a semaphore or a pool of that size cannot be made.
#[test]
fn a_number_too_large_to_serve_is_refused_by_the_check() {
    let most = "9223372036854775807";
    refused("[server]", &format!("[server]\nmax_connections = {most}"), &["server.max_connections", "at most"]);
    refused("[server]", &format!("[server]\nbody_limit = {most}"), &["server.body_limit", "at most"]);
    refused("[database]", "[database]\nmax_connections = 4294967295", &["database.max_connections", "at most"]);
    refused(
        "[routes.support]",
        "[routes.support]\nmax_attempts = 4294967295",
        &["routes.support.max_attempts", "at most"],
    );
}

#[test]
fn everything_that_is_wrong_is_listed_at_once() {
    let broken = SOUND
        .replace("listen = \"127.0.0.1:0\"\noperator_listen", "listen = \"x\"\noperator_listen")
        .replace("env:ALPHA_KEY", "env:NOT_THERE")
        .replace("attempt_timeout = \"30s\"", "attempt_timeout = \"30\"")
        .replace("retention = \"90d\"", "retention = \"0d\"");
    let ran = workplace(&broken).run(&["serve"]).expect(2);
    ran.says(&[
        "4 problem(s)",
        "server.listen",
        "providers.alpha.api_key",
        "routes.support.attempt_timeout",
        "jobs.retention",
    ]);
}

#[test]
fn a_route_whose_suite_is_missing_or_broken_fails_the_check_and_is_named() {
    refused_suite(
        &workplace(&SOUND.replace("contract = \"support-triage\"", "contract = \"no-such-suite\"")),
        &["routes.support.contract", "no-such-suite"],
    );
    let workplace = workplace(&SOUND.replace("contract = \"support-triage\"", "contract = \"own\""));
    workplace.write("contracts/suites/own/suite.toml", "name = \"own\"\nrepeats = \"two\"\n");
    refused_suite(&workplace, &["routes.support.contract", "contracts/suites/own/suite.toml"]);
}

#[track_caller]
fn refused_suite(workplace: &Workplace, words: &[&str]) {
    workplace.run(&["config", "check"]).expect(2).says(words);
}

#[test]
fn a_price_is_a_plain_amount_and_a_currency() {
    let stated = |price: &str| format!("[providers.alpha.prices.\"gpt-4.1\"]\n{price}\n[providers.beta]");
    let refused = |price: &str, words: &[&str]| refused("[providers.beta]", &stated(price), words);
    refused("input = -1\noutput = 2", &["providers.alpha.prices.\"gpt-4.1\".input", "-1 is no price"]);
    refused("input = 1\noutput = nan", &["gpt-4.1\".output", "no price"]);
    refused("input = 1\noutput = 2\ncached_input = inf", &["gpt-4.1\".cached_input", "no price"]);
    refused("input = 1\noutput = 2\ncache_write = 0.0000001", &["gpt-4.1\".cache_write", "at most six decimals"]);
    refused("input = 1\noutput = 2\ncurrency = \"$\"", &["gpt-4.1\".currency", "as USD"]);
    refused("input = 1\noutput = 2\nper = 3", &["unknown field"]);
    let sound = SOUND.replacen("[providers.beta]", &stated("input = 0.1\noutput = 2\nreasoning = 0.3"), 1);
    workplace(&sound).run(&["config", "check"]).expect(0);
}

#[test]
fn a_window_bounds_something_in_tokens_that_are_counted() {
    let stated = |window: &str| format!("[providers.alpha.windows.\"gpt-4.1\"]\n{window}\n[providers.beta]");
    let refused = |window: &str, words: &[&str]| refused("[providers.beta]", &stated(window), words);
    let named = "providers.alpha.windows.\"gpt-4.1\"";
    refused("max_output_tokens = 9", &[named, "bounds no prompt", "`context_window`, `max_input_tokens`"]);
    refused("context_window = 0", &[named, ".context_window", "at least 1"]);
    refused("max_input_tokens = 9223372036854775807", &[named, ".max_input_tokens", "a number of tokens, as 128000"]);
    refused("context_window = 9\nmax_output_tokens = 10", &[".max_output_tokens", "10 is more than", "of 9"]);
    refused("context_window = 9\nmax_input_tokens = 10", &[".max_input_tokens", "10 is more than"]);
    refused("max_input_tokens = 9\nanswer_counts = true", &[".answer_counts", "says nothing without `context_window`"]);
    refused(
        "context_window = 9\ntokenizer = \"gpt\"",
        &[".tokenizer", "`gpt` is no tokenizer", "`o200k_base`", "`none`"],
    );
    refused("context_window = \"8k\"", &["context_window = \"8k\"", "invalid type"]);
    refused("window = 9", &["unknown field `window`", "context_window"]);
    let sound = stated("context_window = 10\nmax_output_tokens = 10\nanswer_counts = true\ntokenizer = \"none\"");
    workplace(&SOUND.replacen("[providers.beta]", &sound, 1)).run(&["config", "check"]).expect(0);
}

/// The settings win over the list, as a whole; a deployment's name says nothing of its tokens.
#[test]
fn a_window_is_the_settings_or_else_the_listed_one_of_the_vendors_address() {
    let provider = |adapter: &str, base_url: &str, lines: &str| {
        let text = format!("[providers.p]\nadapter = \"{adapter}\"\nbase_url = \"{base_url}\"\n{lines}");
        Config::parse(&text, "the test's settings").expect("sound settings").providers["p"].clone()
    };
    let (openai, azure) = ("https://api.openai.com/v1", "https://x.openai.azure.com");
    let listed = provider("openai", openai, "").window("gpt-4").cloned().expect("listed");
    assert_eq!((listed.context, listed.output), (Some(8192), Some(8192)));
    assert!(listed.identity.contains("https://developers.openai.com/"), "{}", listed.identity);
    assert_eq!(provider("openai", "http://127.0.0.1:9001/v1", "").window("gpt-4"), None);
    let own = "windows.gpt-4 = { context_window = 10 }";
    let stated = provider("openai", openai, own).window("gpt-4").cloned().expect("stated");
    assert_eq!((stated.context, stated.output, &*stated.identity), (Some(10), None, "settings"));
    assert_eq!(stated.encoding, listed.encoding);
    let deployed = |lines: &str| provider("azure-openai", azure, lines).window("gpt-4").expect("stated").encoding;
    assert_eq!(deployed(own), None);
    assert_eq!(deployed("windows.gpt-4 = { context_window = 10, tokenizer = \"cl100k_base\" }"), listed.encoding);
}

#[test]
fn only_what_does_not_change_the_question_can_be_left_out() {
    for name in ["messages", "tools", "max_tokens", "response_format", "stop", "n", "system", "store", ""] {
        let line = format!("[routes.support]\ndrop_unsupported = [\"seed\", \"{name}\"]");
        let words = ["routes.support.drop_unsupported", &format!("`{name}` cannot be left out"), "logit_bias"];
        refused("[routes.support]", &line, &words);
    }
    refused("[routes.support]", "[routes.support]\ndrop_unsupported = true", &["drop_unsupported = true"]);
    let line = "[routes.support]\ndrop_unsupported = [\"seed\", \"metadata.team\", \"cache_control\"]";
    workplace(&SOUND.replacen("[routes.support]", line, 1)).run(&["config", "check"]).expect(0);
}
