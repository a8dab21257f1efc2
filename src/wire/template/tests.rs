//! Properties of definition files: normalisation is stable, and no text breaks the validation.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn normalised(document: &Value) -> TemplateDefinition {
    validate(document.to_string().as_bytes()).unwrap_or_else(|errors| panic!("{document}: {errors:#?}"))
}

/// A map with the fields that are not absent.
fn object(fields: Vec<(&str, Option<Value>)>) -> Value {
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect::<Map<String, Value>>())
}

fn maybe(values: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    prop::option::of(values).boxed()
}

fn one_of(values: &[Value]) -> BoxedStrategy<Value> {
    prop::sample::select(values.to_vec()).boxed()
}

/// A text of any characters that a field takes, with references.
fn text() -> BoxedStrategy<Value> {
    let part = prop_oneof![
        "[\t\n\r -#%-~\u{85}\u{a0}-\u{fffd}\u{10000}-\u{10ffff}]{1,12}",
        Just("${var.port}".to_owned()),
        Just("${env.MODE}".to_owned()),
        Just("$${var.x}".to_owned()),
        Just("${HOME}".to_owned()),
    ];
    vec(part, 1..4).prop_map(|parts| json!(format!("x{}", parts.concat()))).boxed()
}

fn path() -> BoxedStrategy<Value> {
    one_of(&[json!("~/x"), json!("/opt//a/./b"), json!("/srv/${var.port}"), json!("~")])
}

fn time() -> BoxedStrategy<Value> {
    ((1u32..5000), prop::sample::select(vec!["ms", "s", "m"]))
        .prop_map(|(n, unit)| json!(format!("{n}{unit}")))
        .boxed()
}

fn environment() -> BoxedStrategy<Value> {
    let value =
        one_of(&[json!("a"), json!(""), json!(3000), json!(1.5), json!(true), json!({"secret": "api_key"})]);
    prop::collection::btree_map("[A-Z][A-Z0-9_]{0,6}", value, 0..3)
        .prop_map(|entries| Value::Object(entries.into_iter().collect()))
        .boxed()
}

fn hardware() -> BoxedStrategy<Value> {
    (
        maybe(one_of(&[json!(1), json!(2.0), json!(16)])),
        maybe((4u64..=64).prop_map(|gb| json!(gb))),
        maybe(one_of(&[json!("1280x800"), json!("800x600x16")])),
        maybe(one_of(&[json!("none")])),
        maybe(any::<bool>().prop_map(|audio| json!(audio))),
    )
        .prop_map(|(cpu, ram, resolution, gpu, audio)| {
            object(vec![
                ("cpu", cpu),
                ("ram_gb", ram),
                ("resolution", resolution),
                ("gpu", gpu),
                ("audio", audio),
            ])
        })
        .boxed()
}

fn file(index: usize) -> BoxedStrategy<Value> {
    let content = prop_oneof![
        text().prop_map(|text| ("inline", text)),
        one_of(&[json!("secret://api_key"), json!("https://example.com/x"), json!("app/x")])
            .prop_map(|from| ("from", from)),
    ];
    (content, maybe(one_of(&[json!("644"), json!(755), json!("0600")])), maybe(one_of(&[json!("runtime")])))
        .prop_map(move |((source, content), mode, when)| {
            let to = json!(format!("/opt//file-{index}"));
            object(vec![("to", Some(to)), (source, Some(content)), ("mode", mode), ("when", when)])
        })
        .boxed()
}

fn service(index: usize) -> BoxedStrategy<Value> {
    (
        text(),
        maybe(path()),
        environment(),
        maybe(one_of(&[json!("always"), json!("on-failure"), json!("no")])),
        maybe(one_of(&[json!("SIGTERM"), json!("SIGINT")])),
    )
        .prop_map(move |(run, cwd, env, restart, signal)| {
            object(vec![
                ("name", Some(json!(format!("service-{index}")))),
                ("run", Some(run)),
                ("cwd", cwd),
                ("env", Some(env)),
                ("restart", restart),
                ("stop_signal", signal),
            ])
        })
        .boxed()
}

fn health() -> BoxedStrategy<Value> {
    let probe = prop_oneof![
        Just(vec![("type", json!("tcp")), ("port", json!(3000))]),
        Just(vec![("type", json!("http")), ("url", json!("http://localhost:${var.port}/"))]),
        text().prop_map(|run| vec![("type", json!("command")), ("command", run)]),
    ];
    (probe, maybe(time()), maybe(one_of(&[json!("restart_service:service-0"), json!("alert")])))
        .prop_map(|(probe, every, action)| {
            let mut fields: Vec<_> = probe.into_iter().map(|(name, value)| (name, Some(value))).collect();
            fields.extend([("every", every), ("on_fail", action)]);
            object(fields)
        })
        .boxed()
}

fn trigger() -> BoxedStrategy<Value> {
    let source = one_of(&[
        json!({"type": "cron", "schedule": "*/5  * * * *"}),
        json!({"type": "file", "path": "~/in", "events": ["delete", "create", "create"]}),
        json!({"type": "http", "url": "https://example.com/"}),
        json!({"type": "metric", "metric": "cpu", "op": ">=", "value": 80}),
        json!({"type": "metric", "metric": "cpu", "op": "<", "value": 1e-7}),
        json!({"type": "log", "service": "service-0", "match": "x"}),
        json!({"type": "desktop", "event": "clipboard"}),
    ]);
    let action = one_of(&[
        json!({"type": "webhook", "url": "https://example.com/", "headers": {"X-A": "{{ event.path }}"}}),
        json!({"type": "service", "op": "restart", "target": "service-0"}),
        json!({"type": "notify", "title": "${var.port}"}),
    ]);
    let dedup = prop_oneof![
        time().prop_map(|time| json!({"cooldown": time})),
        time().prop_map(|time| json!({"rate_limit": format!("10/{}", time.as_str().expect("a text"))})),
    ];
    (source, vec(action, 1..3), maybe(dedup))
        .prop_map(|(source, actions, dedup)| {
            object(vec![
                ("name", Some(json!("watch"))),
                ("source", Some(source)),
                ("actions", Some(json!(actions))),
                ("dedup", dedup),
            ])
        })
        .boxed()
}

/// A valid document, with shorthands.
fn valid_document() -> BoxedStrategy<Value> {
    let names = prop_oneof![
        Just(("name", json!("lab@1.0.0-rc.1"))),
        Just(("template", json!({"name": "lab", "version": "1.0.0", "license": "MIT"}))),
    ];
    let files = (0..3usize).map(file).collect::<Vec<_>>();
    let services = (1..3usize).map(service).collect::<Vec<_>>();
    let first = (names, maybe(hardware()), environment(), vec(text(), 0..4), files);
    let app = (service(0), services, maybe(health()), maybe(text()));
    let last = (
        vec(trigger(), 0..2),
        maybe(text()),
        maybe(one_of(&[json!({"mode": "allow", "rules": ["Example.com", "10.1.2.3/8"]})])),
        one_of(&[json!("hotdesk/v1"), json!("orgo.ai/v1")]),
        maybe(one_of(&[json!("https://example.com/w.png")])),
    );
    (first, app, last)
        .prop_map(|((names, hardware, mut env, run, files), app, last)| {
            let (first_service, mut services, health, install) = app;
            let (triggers, first_boot, egress, api_version, wallpaper) = last;
            services.insert(0, first_service);
            env["MODE"] = json!("m${var.port}");
            object(vec![
                ("api_version", Some(api_version)),
                (names.0, Some(names.1)),
                ("hardware", hardware),
                ("secrets", Some(json!([{"name": "api_key"}]))),
                ("vars", Some(json!({"port": 3000}))),
                ("env", Some(env)),
                ("build", Some(json!({"run": run, "apt": ["curl"]}))),
                ("files", Some(json!(files))),
                (
                    "apps",
                    Some(json!([object(vec![
                        ("name", Some(json!("app"))),
                        ("install", install),
                        ("services", Some(json!(services))),
                        ("health", health),
                        ("ports", Some(json!([{"internal": 3000, "public": true}]))),
                    ])])),
                ),
                ("triggers", Some(json!(triggers))),
                ("on_first_boot", first_boot),
                ("egress_policy", egress),
                ("wallpaper", wallpaper),
            ])
        })
        .boxed()
}

proptest! {
    #[test]
    fn a_normalised_document_stays_as_it_is(document in valid_document()) {
        let once = normalised(&document);
        let printed = json!(once);
        let twice = normalised(&printed);
        prop_assert_eq!(&once, &twice);
        prop_assert_eq!(once.digest(), twice.digest());
        // The printed form with line breaks and indentation.
        let pretty = serde_json::to_string_pretty(&once).expect("JSON");
        prop_assert_eq!(validate(pretty.as_bytes()).expect("valid"), once);
    }

    #[test]
    fn any_text_is_valid_or_has_errors(text in ".{0,200}") {
        if let Err(errors) = validate(text.as_bytes()) {
            prop_assert!(!errors.is_empty());
        }
    }

    #[test]
    fn a_damaged_document_is_valid_or_has_errors(
        document in valid_document(), at in any::<prop::sample::Index>(), with in any::<char>(),
    ) {
        let mut chars: Vec<char> = document.to_string().chars().collect();
        let at = at.index(chars.len());
        chars[at] = with;
        let text: String = chars.into_iter().collect();
        if let Err(errors) = validate(text.as_bytes()) {
            prop_assert!(!errors.is_empty());
            prop_assert!(errors.iter().all(|error| error.line > 0 && error.column > 0));
        }
    }
}

#[test]
fn shorthands_and_long_forms_have_one_digest() {
    let short = json!({
        "api_version": "orgo.ai/v1", "name": "lab@1.0.0", "cpu": 2, "ram": "4gb", "display": "1280x800",
        "files": {"/etc/motd": "hi"}, "on_first_boot": "true",
    });
    let long = json!({
        "api_version": "hotdesk/v1",
        "template": {"name": "lab", "version": "1.0.0"},
        "hardware": {"os": "linux", "cpu": 2, "ram_gb": 4, "resolution": "1280x800x24", "gpu": "none"},
        "files": [{"to": "/etc//motd", "inline": "hi", "when": "build"}],
        "hooks": {"on_first_boot": "true"},
    });
    assert_eq!(normalised(&short).digest(), normalised(&long).digest());
    let mut other = long.clone();
    other["hooks"]["on_first_boot"] = json!("false");
    assert_ne!(normalised(&other).digest(), normalised(&long).digest());
}

#[test]
fn the_digest_of_a_document_never_changes() {
    // Published templates are found by it, so a change of the canonical form is a change of the API version.
    let document = json!({"api_version": "hotdesk/v1", "name": "lab@1.0.0"});
    let canonical = r#"{"api_version":"hotdesk/v1","hardware":{"os":"linux"},"template":{"name":"lab","version":"1.0.0"}}"#;
    assert_eq!(json!(normalised(&document)).to_string(), canonical);
    assert_eq!(normalised(&document).digest(), format!("sha256:{}", hex(&Sha256::digest(canonical))));
}

#[test]
fn documents_beyond_a_bound_are_refused() {
    let with = |name: &str, value: Value| {
        let document = json!({"api_version": "hotdesk/v1", "name": "lab@1.0.0", name: value});
        let errors = validate(document.to_string().as_bytes()).expect_err(name);
        errors.into_iter().map(|error| (error.field, error.code)).collect::<Vec<_>>()
    };
    let found = with("build", json!({"run": vec!["true"; MAX_STEPS + 1]}));
    assert_eq!(found, [("build.run".to_owned(), "too_large".to_owned())]);
    let found = with("on_first_boot", json!("x".repeat(MAX_SCRIPT_BYTES + 1)));
    assert_eq!(found, [("on_first_boot".to_owned(), "too_large".to_owned())]);
    let errors = validate(&vec![b' '; MAX_DOCUMENT_BYTES + 1]).unwrap_err();
    assert_eq!((errors.len(), &*errors[0].code), (1, "too_large"));
    let errors = validate(b"a: \xff").unwrap_err();
    assert_eq!((errors.len(), &*errors[0].code), (1, "syntax"));
    // Every entry is wrong: the answer has a hundred errors, and says that there are more.
    let found = with("secrets", json!(vec![json!({"name": "A"}); 200]));
    assert_eq!((found.len(), found.last()), (101, Some(&(String::new(), "too_large".to_owned()))));
}

#[test]
fn a_large_document_is_checked_in_a_moment() {
    let services: Vec<Value> = (0..64)
        .map(
            |n| json!({"name": format!("s-{n}"), "run": "x ${var.a}".repeat(1000), "env": {"A": "${var.a}"}}),
        )
        .collect();
    let document = json!({
        "api_version": "hotdesk/v1", "name": "lab@1.0.0", "vars": {"a": "b"},
        "apps": [{"name": "app", "services": services}],
    });
    let text = document.to_string();
    assert!(text.len() > MAX_DOCUMENT_BYTES / 2, "{}", text.len());
    assert!(validate(text.as_bytes()).is_ok());
}
