//! What certainly does not fit is not sent; and who is told so, in which words.

use super::*;

fn overflow(tokens: u64, window: u64) -> Overflow {
    Overflow {
        param: "messages".to_owned(),
        tokens,
        window,
        answer: Some(("max_tokens", 500)),
        identity: "settings".into(),
    }
}

/// The prompt is too long for these.
fn long_for(mut world: World, providers: &[&str]) -> World {
    for provider in providers {
        world.too_long.insert(target(provider).target, overflow(9000, 8192));
    }
    world
}

fn error_of(world: &World) -> JobError {
    match world.next() {
        NextStep::Fail(error) | NextStep::RoundOver(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_target_that_is_too_small_is_passed_over_as_one_that_cannot_carry_the_request() {
    for (too_small, permitted, attempts, next) in [
        (&["a"][..], &["b"][..], vec![], "b@1+0"),
        (&["a"], &["b", "c"], vec![attempt(1, 1, "b", rejected(Rejection::Setup))], "c@1+0"),
        (&["a", "b"], &["b", "c"], vec![], "c@1+0"),
        (&["b"], &["b", "c"], vec![attempt(1, 1, "a", rejected(Rejection::Setup))], "c@1+0"),
        (&["b"], &["b", "c"], vec![attempt(1, 1, "a", rejected(Rejection::ContextLength))], "c@1+0"),
        (&["b"], &["b"], vec![], "a@1+0"),
        // Nothing larger may be tried: what the request asks for cannot be had.
        (&["a"], &[], vec![], "fail: context_length_exceeded"),
        (&["a", "b", "c"], &["b", "c"], vec![], "fail: context_length_exceeded"),
        (&["b"], &["b"], vec![attempt(1, 1, "a", rejected(Rejection::ContextLength))], "fail: context_length_exceeded"),
        // What failed can be mended, and the same key goes on then.
        (&["b"], &["b"], vec![attempt(1, 1, "a", rejected(Rejection::Setup))], "over: all_targets_failed"),
        (&["a"], &["b"], vec![attempt(1, 1, "b", rejected(Rejection::Setup))], "over: all_targets_failed"),
        // Not even the same target once more, where its window has been set since.
        (&["a"], &[], vec![attempt(1, 1, "a", failed(Proof::Refused))], "over: all_targets_failed"),
    ] {
        let world = permitted.iter().fold(World::new(&["a", "b", "c"], attempts), |world, p| world.permit(p));
        assert_eq!(next_of(&long_for(world, too_small)), next, "{too_small:?}, {permitted:?}");
    }
}

#[test]
fn a_fallback_that_holds_it_and_cannot_serve_now_is_waited_for() {
    let mut world = long_for(World::new(&["a", "b"], vec![]).permit("b"), &["a"]);
    world.cooling.insert(target("b").target, at(600));
    assert_eq!(next_of(&world), "over: all_targets_failed");
    world.cooling.insert(target("b").target, at(4));
    assert_eq!(next_of(&world), "b@1+3000");
    world.cooling.clear();
    world.held.insert(target("b").target, "broken answers".to_owned());
    assert_eq!(next_of(&world), "over: all_targets_failed");
}

#[test]
fn a_primary_whose_circuit_is_open_serves_where_no_fallback_holds_the_prompt() {
    let mut world = long_for(World::new(&["a", "b"], vec![]).permit("b"), &["b"]);
    world.held.insert(target("a").target, "broken answers".to_owned());
    assert_eq!(next_of(&world), "a@1+0");
}

#[test]
fn an_unknown_attempt_is_not_released_for_a_target_that_is_too_small() {
    let mut world = World::new(&["a", "b"], vec![attempt(1, 1, "a", unknown())]).permit("b");
    world.state = JobState::Unknown;
    world.route.on_unknown = OnUnknown::FailOver;
    assert_eq!(next_of(&world), "release");
    assert_eq!(next_of(&long_for(world, &["b"])), "wait");
}

#[test]
fn the_error_counts_names_the_window_the_missing_evidence_and_the_cure() {
    let error = error_of(&long_for(World::new(&["a", "b"], vec![]), &["a"]));
    for words in [
        "does not fit the window",
        "a/m was not tried: `messages` has at least 9000 tokens, `max_tokens` asks for 500 more, and its window holds 8192",
        "b/m was not tried: no permit: run the suite `triage` against b/m",
        "shorten `messages` or lower `max_tokens`",
    ] {
        assert!(error.message.contains(words), "`{words}` is not in: {}", error.message);
    }
    assert_eq!((error.param.as_deref(), error.status, error.unpermitted), (Some("messages"), None, true));
    assert_eq!(error.details.len(), 2);
    // A provider's own word on it stands as it is, with a line for the target that was spared.
    let attempts = vec![attempt(1, 1, "a", rejected(Rejection::ContextLength))];
    let error = error_of(&long_for(World::new(&["a", "b"], attempts).permit("b"), &["b"]));
    assert!(error.message.ends_with(": words"), "{}", error.message);
    assert!(error.details[1].starts_with("b/m was not tried: `messages` has at least"), "{:?}", error.details);
}

#[test]
fn before_there_is_a_job_a_request_is_refused_only_where_nothing_that_may_be_tried_holds_it() {
    let refusal = |world: &World| {
        let reach = Reach {
            route: &world.route,
            permits: &world.permits,
            suite_digest: world.suite_digest,
            unable: &world.unable,
            too_long: &world.too_long,
            now: world.now,
        };
        reach.refusal()
    };
    assert_eq!(refusal(&World::new(&["a", "b"], vec![])), None);
    let unpermitted = long_for(World::new(&["a", "b"], vec![]), &["a"]);
    // The same words as a job's, which would have been failed.
    assert_eq!(refusal(&unpermitted).map(|e| (e.message, e.param)), {
        let error = error_of(&unpermitted);
        Some((error.message, error.param))
    });
    let permitted = long_for(World::new(&["a", "b"], vec![]).permit("b"), &["a"]);
    assert_eq!(refusal(&permitted), None);
    assert!(refusal(&long_for(permitted, &["b"])).is_some());
    let mut unable = long_for(World::new(&["a", "b"], vec![]).permit("b"), &["a"]);
    unable.unable.insert(target("b").target, "`seed`: unknown there".to_owned());
    let refused = refusal(&unable).expect("nowhere to go");
    assert!(refused.message.contains("b/m was not tried: it cannot carry `seed`"), "{}", refused.message);
    let expired = World { now: at(2_000_000), ..long_for(World::new(&["a", "b"], vec![]).permit("b"), &["a"]) };
    assert!(refusal(&expired).expect("expired").message.contains("expired"));
}
