//! Bounds of a definition file: each list, map and text at its bound and one beyond it (docs/templates.md#bounds).

use hotdesk::domain::computer::template::bounds::{MAX_ENTRIES, MAX_SCRIPT_BYTES, MAX_STEPS, MAX_TEXT_BYTES};
use hotdesk::wire::template::validate;
use serde_json::{Value, json};

/// The fields and codes of the errors of a document with these sections.
fn errors_of(sections: &Value) -> Vec<(String, String)> {
    let mut document = json!({"api_version": "hotdesk/v1", "name": "lab@1.0.0"});
    document.as_object_mut().expect("a map").extend(sections.as_object().expect("sections").clone());
    let errors = validate(document.to_string().as_bytes()).err().unwrap_or_default();
    errors.into_iter().map(|error| (error.field, error.code)).collect()
}

/// Asserts that sections of a size are valid up to the bound, and that a larger one is the only error.
fn check(field: &str, most: usize, sections: impl Fn(usize) -> Value) {
    assert_eq!(errors_of(&sections(most)), [], "{field} with {most}");
    let errors = errors_of(&sections(most + 1));
    let [(found, code)] = &errors[..] else { panic!("{field} with {}: {errors:?}", most + 1) };
    assert!(found.starts_with(field) && code == "too_large", "{field}: {errors:?}");
}

fn list(count: usize, entry: impl Fn(usize) -> Value) -> Value {
    (0..count).map(entry).collect()
}

fn map(count: usize) -> Value {
    (0..count).map(|at| (format!("NAME_{at}"), json!(at))).collect::<serde_json::Map<_, _>>().into()
}

/// An application with these fields besides its name.
fn app(fields: Value) -> Value {
    let mut app = json!({"name": "a"});
    app.as_object_mut().expect("a map").extend(fields.as_object().expect("fields").clone());
    json!({"apps": [app]})
}

fn trigger(name: &str, actions: Value) -> Value {
    json!({"name": name, "source": {"type": "event", "event": "boot"}, "actions": actions})
}

fn action() -> Value {
    json!({"type": "log", "message": "x"})
}

#[test]
fn lists_and_maps_have_at_most_their_number_of_entries() {
    check("secrets", MAX_ENTRIES, |n| json!({"secrets": list(n, |at| json!({"name": format!("s{at}")}))}));
    check("env", MAX_ENTRIES, |n| json!({"env": map(n)}));
    for tool in ["apt", "pip", "npm"] {
        let packages = |n| list(n, |at| json!(format!("package{at}")));
        check(&format!("build.{tool}"), MAX_ENTRIES, |n| json!({"build": {tool: packages(n)}}));
    }
    check("build.run", MAX_STEPS, |n| json!({"build": {"run": list(n, |_| json!("true"))}}));
    check(
        "files",
        MAX_ENTRIES,
        |n| json!({"files": list(n, |at| json!({"to": format!("/f{at}"), "inline": ""}))}),
    );
    check("apps", MAX_STEPS, |n| json!({"apps": list(n, |at| json!({"name": format!("a{at}")}))}));
    check("apps[0].services", MAX_STEPS, |n| {
        app(json!({"services": list(n, |at| json!({"name": format!("s{at}"), "run": "x"}))}))
    });
    check("apps[0].ports", MAX_ENTRIES, |n| {
        app(json!({"ports": list(n, |at| json!({"internal": 10_000 + at}))}))
    });
    check("apps[0].autostart", MAX_STEPS, |n| app(json!({"autostart": list(n, |_| json!({"run": "x"}))})));
    check(
        "triggers",
        MAX_STEPS,
        |n| json!({"triggers": list(n, |at| trigger(&format!("t{at}"), json!([action()])))}),
    );
    check("triggers[0].actions", MAX_STEPS, |n| json!({"triggers": [trigger("t", list(n, |_| action()))]}));
    check("terminal", MAX_STEPS, |n| json!({"terminal": list(n, |at| json!({"name": format!("t{at}")}))}));
    check(
        "telemetry.logs",
        MAX_ENTRIES,
        |n| json!({"telemetry": {"logs": list(n, |at| json!(format!("/var/log/l{at}")))}}),
    );
    check("egress_policy.rules", MAX_ENTRIES, |n| {
        let rules = list(n, |at| json!(format!("h{at}.example.com")));
        json!({"egress_policy": {"mode": "allow", "rules": rules}})
    });
    check("streaming", MAX_STEPS, |n| {
        let (url, key) = ("rtmp://live.example/app", "k");
        json!({"streaming": list(n, |at| json!({"name": format!("s{at}"), "url": url, "key": key}))})
    });
}

#[test]
fn texts_have_at_most_their_number_of_bytes() {
    let text = |bytes| "x".repeat(bytes);
    for hook in ["on_first_boot", "on_every_boot", "on_pre_snapshot", "on_resume", "on_shutdown"] {
        check(&format!("hooks.{hook}"), MAX_SCRIPT_BYTES, |n| json!({"hooks": {hook: text(n)}}));
    }
    check("build.run[0]", MAX_SCRIPT_BYTES, |n| json!({"build": {"run": [text(n)]}}));
    check("apps[0].install", MAX_SCRIPT_BYTES, |n| app(json!({"install": text(n)})));
    check("apps[0].services[0].run", MAX_SCRIPT_BYTES, |n| {
        app(json!({"services": [{"name": "s", "run": text(n)}]}))
    });
    check("apps[0].autostart[0].run", MAX_SCRIPT_BYTES, |n| app(json!({"autostart": [{"run": text(n)}]})));
    check("apps[0].health.command", MAX_SCRIPT_BYTES, |n| {
        app(json!({"health": {"type": "command", "command": text(n)}}))
    });
    check("files[0].inline", MAX_SCRIPT_BYTES, |n| json!({"files": [{"to": "/f", "inline": text(n)}]}));
    check(
        "triggers[0].actions[0].run",
        MAX_SCRIPT_BYTES,
        |n| json!({"triggers": [trigger("t", json!([{"type": "command", "run": text(n)}]))]}),
    );
    check("triggers[0].actions[0].body", MAX_SCRIPT_BYTES, |n| {
        let hook = json!({"type": "webhook", "url": "https://example.com/", "body": text(n)});
        json!({"triggers": [trigger("t", json!([hook]))]})
    });
    check("terminal[0].run", MAX_SCRIPT_BYTES, |n| json!({"terminal": [{"name": "t", "run": text(n)}]}));
    check("env.A", MAX_TEXT_BYTES, |n| json!({"env": {"A": text(n)}}));
    check("vars.a", MAX_TEXT_BYTES, |n| json!({"vars": {"a": text(n)}}));
    check("apps[0].title", MAX_TEXT_BYTES, |n| app(json!({"title": text(n)})));
    check(
        "secrets[0].description",
        MAX_TEXT_BYTES,
        |n| json!({"secrets": [{"name": "s", "description": text(n)}]}),
    );
}
