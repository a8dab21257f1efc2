//! OpenAPI document: it matches the recorded file, and every documented operation exists.

pub mod clients;
mod forms;
mod strict;

use std::collections::BTreeSet;
use std::io::Read;

use flate2::read::GzDecoder;
use hotdesk::controller::api::openapi;
use reqwest::Method;
use serde_json::Value;

use crate::harness::simulation::Simulation;

/// Operations of the API index (docs/api/README.md) that exist so far; `{}` stands for any path parameter.
const INDEX: [(&str, &str); 15] = [
    ("post", "/workspaces"),
    ("get", "/workspaces"),
    ("post", "/computers"),
    ("get", "/computers/{}"),
    ("get", "/computers/{}/vnc-password"),
    ("post", "/computers/{}/clone"),
    ("get", "/computers/{}/resize"),
    ("post", "/computers/{}/resize"),
    ("post", "/computers/{}/suspend"),
    ("get", "/computers/{}/suspension"),
    ("get", "/computers/{}/screenshot"),
    ("post", "/computers/{}/click"),
    ("post", "/computers/{}/type"),
    ("post", "/computers/{}/bash"),
    ("post", "/files/upload"),
];

/// The document that the code makes.
pub fn document() -> Value {
    serde_json::from_str(&openapi::build().expect("a document")).expect("the document is JSON")
}

/// Every operation of the document: method, path and operation object.
pub fn operations(document: &Value) -> Vec<(Method, String, Value)> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("an item") {
            if let Ok(method) = method.to_uppercase().parse::<Method>()
                && operation["responses"].is_object()
            {
                found.push((method, path.clone(), operation.clone()));
            }
        }
    }
    found
}

/// Whether an operation needs an API key.
pub fn needs_key(operation: &Value) -> bool {
    operation["security"].as_array().is_some_and(|schemes| !schemes.is_empty())
}

/// Longest sentence of a description, in words (CONTRIBUTING.md, "Writing rules").
const MAX_WORDS: usize = 25;

/// Adds the descriptions below a value that are one bare word, or have a sentence that is too long.
fn find_poor_texts(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get("description") {
                let is_word = |word: &str| {
                    word.strip_suffix('.').is_some_and(|word| word.chars().all(char::is_alphabetic))
                };
                let words = |sentence: &str| sentence.split_whitespace().count();
                let text = text.replace('\n', " ");
                if is_word(&text) || text.split(". ").any(|sentence| words(sentence) > MAX_WORDS) {
                    found.insert(text);
                }
            }
            fields.values().for_each(|below| find_poor_texts(below, found));
        }
        Value::Array(entries) => entries.iter().for_each(|below| find_poor_texts(below, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn descriptions_are_short_sentences_and_more_than_a_word() {
    let mut found = BTreeSet::new();
    find_poor_texts(&document(), &mut found);
    assert!(found.is_empty(), "descriptions of the OpenAPI document to rewrite: {found:#?}");
}

/// The recorded document.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/openapi.json");

#[test]
fn the_recorded_document_is_the_one_that_the_code_makes() {
    let made = openapi::build().expect("a document");
    let recorded = std::fs::read_to_string(RECORDED).unwrap_or_default();
    if recorded == made {
        return;
    }
    let fresh = concat!(env!("CARGO_TARGET_TMPDIR"), "/openapi.json");
    std::fs::write(fresh, &made).expect("a written document");
    let first = recorded.lines().zip(made.lines()).position(|(old, new)| old != new).map(|at| at + 1);
    panic!(
        "the API's description changed (line {first:?}): `cp {fresh} packaging/openapi.json`, and read the diff"
    );
}

#[test]
fn the_program_has_the_recorded_document() {
    let recorded = std::fs::read(RECORDED).expect("the recorded document");
    assert!(openapi::recorded().expect("a document") == recorded, "the build did not embed {RECORDED}");
}

#[test]
fn the_document_has_its_version_a_key_and_the_index_s_routes() {
    let document = document();
    assert_eq!(document["info"]["version"], "2.0.0");
    assert_eq!(document["components"]["securitySchemes"]["api_key"]["scheme"], "bearer");
    let operations = operations(&document);
    let any_name = |path: &str| {
        path.split('/')
            .map(|part| if part.starts_with('{') { "{}" } else { part })
            .collect::<Vec<_>>()
            .join("/")
    };
    for (method, path) in INDEX {
        let there =
            operations.iter().any(|(m, p, _)| m.as_str().eq_ignore_ascii_case(method) && any_name(p) == path);
        assert!(there, "{method} {path} is not documented");
    }
    let mut names = std::collections::BTreeSet::new();
    for (method, path, operation) in &operations {
        let id = operation["operationId"].as_str().unwrap_or_default();
        assert!(names.insert(id), "two operations have the id {id:?}");
        let name = format!("{method} {path}");
        let responses = operation["responses"].as_object().expect("responses");
        assert!(responses.keys().any(|status| status.starts_with('2')), "{name} documents no success");
        assert!(
            operation["summary"].is_string() || operation["description"].is_string(),
            "{name} has neither summary nor description"
        );
        let public = operation["tags"] == serde_json::json!(["service"]);
        assert_eq!(public, !needs_key(operation), "{name}: only service operations need no key");
        // The metrics may need a key of the operator, which is no key of an account.
        let without_401 = public && path != "/metrics";
        assert_eq!(without_401, !responses.contains_key("401"), "{name}: 401");
    }
}

/// Resolves a reference to a schema of the document.
fn schema<'a>(document: &'a Value, named: &'a Value) -> &'a Value {
    match named["$ref"].as_str() {
        Some(reference) => {
            document.pointer(reference.trim_start_matches('#')).expect("a schema of the document")
        }
        None => named,
    }
}

#[test]
fn every_json_body_has_an_example_with_what_is_required() {
    let document = document();
    for (method, path, operation) in operations(&document) {
        let content = &operation["requestBody"]["content"]["application/json"];
        if content.is_null() {
            continue;
        }
        let body = schema(&document, &content["schema"]);
        let example = [&content["example"], &body["example"]].into_iter().find(|example| !example.is_null());
        let example = example.unwrap_or_else(|| panic!("{method} {path} has no example"));
        let parts = body["allOf"].as_array().into_iter().flatten().chain([body]);
        for required in parts.filter_map(|part| schema(&document, part)["required"].as_array()).flatten() {
            let name = required.as_str().expect("a name");
            assert!(!example[name].is_null(), "{method} {path}: the example lacks {name}: {example}");
        }
    }
}

#[tokio::test]
async fn every_documented_operation_is_routed() {
    let controller = Simulation::boot().await;
    let unknown_id = "00000000-0000-4000-8000-000000000000";
    for (method, path, operation) in operations(&document()) {
        let mut filled = String::new();
        for part in path.split('/').skip(1) {
            filled += "/";
            filled += if part.starts_with('{') { unknown_id } else { part };
        }
        // Without a key, a route answers 401; a route that needs none answers 200 or 403, and 404 for an unknown object.
        // An unknown path answers 404.
        let response =
            controller.bare(method.clone(), &format!("/api{filled}")).send().await.expect("an answer");
        let status = response.status().as_u16();
        let expected: &[u16] = match (needs_key(&operation), path.contains('{')) {
            (true, _) => &[401],
            (false, false) => &[200, 403],
            (false, true) => &[404],
        };
        assert!(expected.contains(&status), "{method} {path} answers {status}");
    }
    let plain = controller.bare(Method::GET, "/openapi.json").send().await.expect("an answer");
    assert!(!plain.headers().contains_key("content-encoding"));
    assert_eq!(plain.json::<Value>().await.expect("JSON"), document());
    let request = controller.bare(Method::GET, "/openapi.json").header("accept-encoding", "gzip");
    let compressed = request.send().await.expect("an answer");
    assert_eq!(compressed.headers()["content-encoding"], "gzip");
    let mut text = String::new();
    let bytes = compressed.bytes().await.expect("a body");
    GzDecoder::new(&*bytes).read_to_string(&mut text).expect("gzip");
    assert_eq!(text, openapi::build().expect("a document"));
}
