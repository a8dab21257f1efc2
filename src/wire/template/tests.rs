//! Properties of definition files: normalisation is stable, and no text breaks the validation.

use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::prepared::services::{PrestartObstacle, ServiceStart};
use hotdesk_domain::computer::template::bounds::{MAX_ENTRIES, MAX_INSERTED_BYTES, MAX_TEXT_BYTES};
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
        maybe(one_of(&[json!("auto-us")])),
        maybe(any::<bool>().prop_map(|audio| json!(audio))),
    )
        .prop_map(|(cpu, ram, resolution, gpu, region, audio)| {
            object(vec![
                ("cpu", cpu),
                ("ram_gb", ram),
                ("resolution", resolution),
                ("gpu", gpu),
                ("region", region),
                ("audio", audio),
            ])
        })
        .boxed()
}

fn file(index: usize) -> BoxedStrategy<Value> {
    let content = prop_oneof![
        text().prop_map(|text| ("inline", text)),
        one_of(&[json!(""), json!(" \n")]).prop_map(|text| ("inline", text)),
        one_of(&[json!("secret://api_key"), json!("https://example.com/x"), json!("s3://bucket/x")])
            .prop_map(|from| ("from", from)),
    ];
    (
        content,
        maybe(one_of(&[json!("644"), json!("0755"), json!("0600")])),
        maybe(one_of(&[json!("runtime")])),
    )
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
                        ("prestart", Some(json!(true))),
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
fn documents_that_mean_the_same_have_one_digest() {
    let digest = |fields: &str| {
        let document = format!("api_version: hotdesk/v1\nname: lab@1.0.0\n{fields}\n");
        validate(document.as_bytes()).unwrap_or_else(|errors| panic!("{fields}: {errors:#?}")).digest()
    };
    for (one, other) in [
        ("", "hardware: {audio: false, gpu: none, gpu_count: 0, region: auto-us}"),
        ("", "telemetry: {}"),
        ("apps: [{name: a}]", "apps: [{name: a, prestart: false}]"),
        ("", "telemetry: {metrics: false, logs: []}"),
        ("", "hooks: {}\nbuild: {apt: []}\nfiles: {}"),
        ("files: {/a: x, /b: y}", "files: {/b: y, /a: x}"),
        ("files: {/a: x, /b: y}", "files: [{to: //a, inline: x}, {to: /b, inline: y, when: build}]"),
        (
            "egress_policy: {mode: allow, rules: [10.0.0.1, \"2001:db8::1\"]}",
            "egress_policy: {mode: allow, rules: [10.0.0.1/32, \"2001:DB8::1/128\"]}",
        ),
    ] {
        assert_eq!(digest(one), digest(other), "{one} and {other}");
    }
    for (one, other) in [
        ("", "hardware: {audio: true}"),
        ("", "telemetry: {metrics: true}"),
        ("apps: [{name: a}]", "apps: [{name: a, prestart: true}]"),
        ("files: {/a: ''}", "files: {/a: ' '}"),
    ] {
        assert_ne!(digest(one), digest(other), "{one} and {other}");
    }
}

#[test]
fn services_start_before_a_launch_where_the_definition_has_nothing_against_it() {
    let app = "apps: [{name: a, prestart: true, services: [{name: s, run: x}]}]\n";
    for (fields, expected) in [
        ("", Ok(ServiceStart::BeforeLaunch)),
        ("vars: {a: b}\nenv: {A: b}\nfiles: {/srv/a: x}\n", Ok(ServiceStart::BeforeLaunch)),
        ("hooks: {on_resume: x, on_pre_snapshot: x, on_shutdown: x}\n", Ok(ServiceStart::BeforeLaunch)),
        ("terminal: [{name: t, cwd: /}]\ntelemetry: {metrics: true}\n", Ok(ServiceStart::BeforeLaunch)),
        ("secrets: [{name: key}]\n", Err(PrestartObstacle::Secrets)),
        ("on_first_boot: x\n", Err(PrestartObstacle::BootHooks)),
        ("hooks: {on_every_boot: x}\n", Err(PrestartObstacle::BootHooks)),
        ("files: [{to: /srv/a, inline: x, when: runtime}]\n", Err(PrestartObstacle::RuntimeFiles)),
    ] {
        let document = format!("api_version: hotdesk/v1\nname: lab@1.0.0\n{fields}{app}");
        let definition = validate(document.as_bytes()).unwrap();
        assert_eq!(definition.service_start(Isolation::Sandbox, false), expected, "{fields}");
    }
    for (delay, expected) in
        [("100s", Ok(ServiceStart::BeforeLaunch)), ("1m41s", Err(PrestartObstacle::LongDelay))]
    {
        let app = format!("{{name: a, prestart: true, autostart: [{{run: x}}, {{run: y, delay: {delay}}}]}}");
        let document = format!("api_version: hotdesk/v1\nname: lab@1.0.0\napps: [{app}]\n");
        let definition = validate(document.as_bytes()).unwrap();
        assert_eq!(definition.service_start(Isolation::Sandbox, false), expected, "{delay}");
    }
    for app in [
        "{name: a, services: [{name: s, run: x}]}",
        "{name: a, prestart: true, health: {type: tcp, port: 80}}",
    ] {
        let document = format!("api_version: hotdesk/v1\nname: lab@1.0.0\napps: [{app}]\n");
        let definition = validate(document.as_bytes()).unwrap();
        assert_eq!(definition.service_start(Isolation::Sandbox, true), Ok(ServiceStart::AtLaunch), "{app}");
    }
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
    // Normalised, a backslash has two characters: what is stored can be read again.
    let run = "\\".repeat(200_000);
    let text =
        format!("api_version: hotdesk/v1\nname: lab@1.0.0\nbuild: {{run: ['1{run}', '2{run}', '3{run}']}}\n");
    let errors = validate(text.as_bytes()).unwrap_err();
    assert_eq!((errors.len(), &*errors[0].code), (1, "too_large"), "{errors:?}");
    let errors = validate(b"a: \xff").unwrap_err();
    assert_eq!((errors.len(), &*errors[0].code), (1, "syntax"));
    // Every entry is wrong: the answer has a hundred errors, and says that there are more.
    let found = with("secrets", json!(vec![json!({"name": "A"}); 200]));
    assert_eq!((found.len(), found.last()), (101, Some(&(String::new(), "too_large".to_owned()))));
    // Errors of the text count as well: 23,999 repeated keys, one unknown field, two absent fields.
    let errors = validate("a: 1\n".repeat(24_000).as_bytes()).unwrap_err();
    assert_eq!((errors.len(), &*errors[100].code), (101, "too_large"));
    assert_eq!(errors[100].message, "the document has 24002 errors, of which 100 are listed");
    let sentence = InvalidTemplate::from(errors).error;
    assert!(sentence.starts_with("the template has more than 100 errors: line 2: a: "), "{sentence}");
}

#[test]
fn a_wallpaper_counts_as_a_file() {
    let files = |count: usize| {
        let files: Vec<Value> = (0..count).map(|n| json!({"to": format!("/f{n}"), "inline": ""})).collect();
        json!({
            "api_version": "hotdesk/v1", "name": "lab@1.0.0", "files": files, "wallpaper": "https://example.com/w",
        })
    };
    assert_eq!(normalised(&files(MAX_ENTRIES - 1)).files.len(), MAX_ENTRIES);
    let errors = validate(files(MAX_ENTRIES).to_string().as_bytes()).unwrap_err();
    let found: Vec<_> = errors.iter().map(|error| (&*error.field, &*error.code)).collect();
    assert_eq!(found, [("wallpaper", "too_large")]);
}

#[test]
fn numbers_of_any_length_are_shown_in_part() {
    let number = "1".repeat(100_000);
    let document = format!(
        "api_version: hotdesk/v1\nname: {number}\ncpu: {number}\nhardware: {{audio: {number}}}\n\
         apps: [{{name: a, autostart: [{{run: x, delay: {number}}}]}}]\n"
    );
    let errors = validate(document.as_bytes()).unwrap_err();
    assert_eq!(errors.len(), 4, "{errors:#?}");
    for error in errors {
        assert!(error.sentence().len() < 300, "{}", error.sentence());
    }
}

/// The fields and codes of the errors of a document whose variable `a` has the longest value.
fn errors_with_a_long_value(fields: &Value) -> Vec<(String, String)> {
    let mut document = json!({
        "api_version": "hotdesk/v1", "name": "lab@1.0.0", "vars": {"a": "x".repeat(MAX_TEXT_BYTES), "b": "y"},
    });
    let sections = document.as_object_mut().expect("an object");
    sections.extend(fields.as_object().expect("sections").clone());
    let errors = validate(document.to_string().as_bytes()).err().unwrap_or_default();
    errors.into_iter().map(|error| (error.field, error.code)).collect()
}

#[test]
fn texts_have_their_bounds_after_interpolation_too() {
    let longest = "${var.a}".repeat(MAX_SCRIPT_BYTES / MAX_TEXT_BYTES);
    for (good, bad, field) in [
        (json!({"env": {"X": "${var.a}"}}), json!({"env": {"X": "${var.a}${var.b}"}}), "env.X"),
        (
            json!({"terminal": [{"name": "a", "cwd": "/${var.b}"}]}),
            json!({"terminal": [{"name": "a", "cwd": "/${var.a}"}]}),
            "terminal[0].cwd",
        ),
        (json!({"files": {"/${var.b}": ""}}), json!({"files": {"/${var.a}": ""}}), "files[\"/${var.a}\"]"),
        (
            json!({"build": {"run": [longest]}}),
            json!({"build": {"run": [format!("{longest}y")]}}),
            "build.run[0]",
        ),
    ] {
        assert_eq!(errors_with_a_long_value(&good), [], "{field}");
        assert_eq!(errors_with_a_long_value(&bad), [(field.to_owned(), "too_large".to_owned())]);
    }
}

#[test]
fn references_insert_a_bounded_number_of_bytes_into_a_document() {
    let script = "${var.a}".repeat(MAX_SCRIPT_BYTES / MAX_TEXT_BYTES);
    let most = MAX_INSERTED_BYTES / MAX_SCRIPT_BYTES;
    let run = |count: usize| json!({"build": {"run": vec![&script; count]}});
    assert_eq!(errors_with_a_long_value(&run(most)), []);
    // One error, although the texts behind it have references as well.
    let found = errors_with_a_long_value(&run(most * 2));
    assert_eq!(found, [(format!("build.run[{most}]"), "too_large".to_owned())]);
}

#[test]
fn wrong_references_in_one_text_are_counted_and_not_listed() {
    let vars: Map<String, Value> = (0..20).map(|n| (format!("{}-{n}", "v".repeat(60)), json!(""))).collect();
    let wrong = format!("${{var.{}}}", "w".repeat(64));
    let document = json!({
        "api_version": "hotdesk/v1", "name": "lab@1.0.0", "vars": vars, "on_first_boot": wrong.repeat(3_000),
    });
    let errors = validate(document.to_string().as_bytes()).unwrap_err();
    assert_eq!(errors.len(), 101);
    assert_eq!(errors[100].message, "the document has 3000 errors, of which 100 are listed");
}

#[test]
fn a_large_document_with_many_references_is_valid() {
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
