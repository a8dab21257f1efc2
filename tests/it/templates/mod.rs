//! Definition files of templates: a corpus of good and bad ones, by command line and by HTTP (docs/templates.md).
//!
//! Beside each bad file is one with its errors: a line `LINE:COLUMN: CODE: FIELD: MESSAGE (HINT)` for each. Beside each
//! good file is its normalised document.

mod accounts;
mod bounds;
pub mod build_timeout;
pub mod builds;
mod catalogue;
mod docker_archives;
mod downloads;
mod health;
mod hooks;
mod import_space;
mod imports;
mod installed;
mod prestart;
mod rebuilds;
mod requests;
mod runs;
mod runtime;
mod sandboxes;
mod saved;
mod service_logs;
pub mod services;
mod sources;
mod telemetry;
mod triggers;
mod webhooks;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hotdesk::base::hex::hex;
use hotdesk::domain::computer::template::bounds::MAX_DOCUMENT_BYTES;
use hotdesk::domain::computer::template::fault::FaultCode;
use hotdesk::wire::template::{TemplateError, schema};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cli::person::Shell;
use crate::clients::python;
use crate::floors::root;
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::simulation::Simulation;

/// End of the name of a normalised document.
const NORMALISED: &str = "normalised.json";

/// The definition files of a folder of the corpus, sorted, without the normalised documents.
fn corpus(folder: &str) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(root().join("tests/it/templates").join(folder)).expect("a folder of the corpus");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_definition = |path: &PathBuf| {
        let name = path.to_string_lossy();
        (name.ends_with(".yaml") || name.ends_with(".json")) && !name.ends_with(NORMALISED)
    };
    let mut files: Vec<PathBuf> = paths.filter(is_definition).collect();
    files.sort();
    files
}

fn text_of(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

async fn validate(controller: &Simulation, document: String) -> HttpAnswer {
    let request = controller.request(Method::POST, "/templates/validate");
    fetch_json(request.header("content-type", "application/yaml").body(document)).await
}

/// The line of an error, with its code as the corpus has it or without as the command prints it.
fn line(error: &TemplateError, with_code: bool) -> String {
    let code = if with_code { format!("{}: ", error.code) } else { String::new() };
    format!("{}:{}: {code}{}", error.line, error.column, error.sentence())
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_files_have_exactly_their_errors_by_both_faces() {
    let controller = Simulation::boot().await;
    let shell = Shell::new();
    let mut codes = BTreeSet::new();
    for file in corpus("bad") {
        let name = file.display().to_string();
        let expected = text_of(&file.with_extension("errors"));
        let expected: Vec<&str> = expected.lines().collect();
        assert!(!expected.is_empty(), "{name}: no errors are expected");

        let answer = validate(&controller, text_of(&file)).await;
        assert_eq!((answer.status, &answer.body["ok"]), (422, &json!(false)), "{name}: {}", answer.body);
        assert_eq!(answer.body["code"], "template_invalid", "{name}");
        assert!(answer.body["request_id"].is_string(), "{name}");
        let errors: Vec<TemplateError> =
            serde_json::from_value(answer.body["errors"].clone()).expect("a list of errors");
        let found: Vec<String> = errors.iter().map(|error| line(error, true)).collect();
        assert_eq!(found, expected, "{name} by HTTP");
        let sentence = answer.body["error"].as_str().expect("a sentence");
        assert!(sentence.contains(&errors[0].sentence()), "{name}: {sentence}");

        let result = shell.run(&["templates", "validate", &name]).await;
        assert_eq!((result.code, &*result.out), (1, ""), "{name}: {result:?}");
        let printed: Vec<&str> = result.err.lines().collect();
        let lines: Vec<String> =
            errors.iter().map(|error| format!("{name}:{}", line(error, false))).collect();
        assert_eq!(printed, lines, "{name} by command line");
        codes.extend(errors.into_iter().map(|error| error.code));
    }
    let missing: Vec<&str> =
        FaultCode::ALL.iter().map(|code| code.as_str()).filter(|code| !codes.contains(*code)).collect();
    assert!(missing.is_empty(), "no bad file has the codes {missing:?}");
}

/// The digest of a normalised document (docs/templates.md#digest).
fn digest_of(mut document: Value) -> String {
    document["api_version"] = json!("hotdesk/v1");
    format!("sha256:{}", hex(&Sha256::digest(document.to_string())))
}

#[tokio::test(flavor = "multi_thread")]
async fn good_files_are_normalised_and_have_one_digest() {
    let controller = Simulation::boot().await;
    let shell = Shell::new();
    for file in corpus("good") {
        let name = file.display().to_string();
        let answer = validate(&controller, text_of(&file)).await;
        assert_eq!((answer.status, &answer.body["ok"]), (200, &json!(true)), "{name}: {}", answer.body);
        let expected: Value =
            serde_json::from_str(&text_of(&file.with_extension(NORMALISED))).expect("a normalised document");
        assert_eq!(answer.body["template"], expected, "{name}: {}", answer.body["template"]);
        let digest = answer.body["digest"].as_str().expect("a digest");
        assert_eq!(digest, digest_of(expected), "{name}");
        // A document of the API version of other services has the same digest under our own name.
        let again =
            validate(&controller, answer.body["template"].to_string().replace("orgo.ai/v1", "hotdesk/v1"))
                .await;
        assert_eq!(again.body["digest"], digest, "{name}: {}", again.body);
        let printed = shell.run(&["templates", "validate", &name]).await.expect_success();
        let reference = answer.body["ref"].as_str().expect("a reference");
        assert_eq!(printed, format!("{name} is valid: {reference} {digest}\n"));
        assert_eq!(
            shell.run(&["templates", "validate", &name, "--json"]).await.json(),
            answer.body,
            "{name}"
        );
    }
    let all = validate(&controller, text_of(&root().join("tests/it/templates/good/everything.yaml"))).await;
    let shorthands = ["name", "cpu", "ram", "display", "wallpaper", "on_first_boot"];
    for section in schema()["properties"].as_object().expect("sections").keys() {
        let is_there = !all.body["template"][section].is_null();
        assert_eq!(is_there, !shorthands.contains(&&**section), "{section} of everything.yaml");
    }
}

#[tokio::test]
async fn the_command_reads_standard_input_and_says_what_it_cannot_read() {
    let shell = Shell::new();
    let check = ["templates", "validate", "-"];
    let valid = "api_version: hotdesk/v1\nname: lab@1.0.0\n";
    let printed = shell.run_with_input(&check, valid).await.expect_success();
    assert!(printed.starts_with("- is valid: default/lab@1.0.0 sha256:"), "{printed}");
    shell.run_with_input(&check, "a: [").await.expect_failure(1, &["-:1:", "no YAML"]);
    let large = format!("# {}\n{valid}", "x".repeat(MAX_DOCUMENT_BYTES));
    shell.run_with_input(&check, &large).await.expect_failure(1, &["at most 1048576 bytes"]);
    shell
        .run(&["templates", "validate", "none.yaml"])
        .await
        .expect_failure(1, &["none.yaml", "No such file"]);
    shell.run(&["templates", "validate"]).await.expect_failure(2, &["<FILE>"]);
    let result = shell.run_with_input(&["templates", "validate", "-", "--json"], "a: 1").await;
    let body: Value = serde_json::from_str(&result.out).expect("JSON");
    assert_eq!((result.code, &body["ok"], &body["code"]), (1, &json!(false), &json!("template_invalid")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_route_needs_a_key_and_bounds_its_body() {
    let controller = Simulation::boot().await;
    let valid = "{\"api_version\": \"hotdesk/v1\", \"name\": \"lab@1.0.0\"}";
    let unknown = controller.bare(Method::POST, "/api/templates/validate").body(valid);
    assert_eq!(fetch_json(unknown).await.status, 401);
    let as_json =
        controller.request(Method::POST, "/templates/validate").header("content-type", "application/json");
    assert_eq!(fetch_json(as_json.body(valid)).await.status, 200);
    let large = format!("# {}\n{valid}", "x".repeat(MAX_DOCUMENT_BYTES));
    let answer = validate(&controller, large).await;
    assert_eq!(answer.status, 413, "{}", answer.body);
    let answer = validate(&controller, String::new()).await;
    assert_eq!(
        (answer.status, &answer.body["errors"][0]["code"]),
        (422, &json!("syntax")),
        "{}",
        answer.body
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_is_public() {
    let controller = Simulation::boot().await;
    let response = controller.bare(Method::GET, "/api/template-schema").send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/schema+json");
    let found: Value = response.json().await.expect("JSON");
    assert_eq!(&found, schema());
    assert_eq!(found["$schema"], "http://json-schema.org/draft-07/schema#");
}

/// Files that PyYAML reads otherwise: tabs in JSON, words of YAML 1.1.
const CHECK: &str = r#"
import json, sys, jsonschema, yaml
schema = json.load(sys.stdin)
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)
for name in sys.argv[1:]:
    text = open(name, encoding="utf-8").read()
    document = json.loads(text) if name.endswith(".json") else yaml.safe_load(text)
    errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    print(json.dumps([name, errors]))
"#;

/// Codes of errors that the schema finds as well.
const OF_SCHEMA: [&str; 4] = ["required", "unknown_field", "invalid_type", "invalid_enum"];

#[tokio::test]
async fn the_schema_accepts_the_good_files_and_refuses_bad_ones() {
    let Some(python) = python() else { return };
    let is_of_schema = |file: &PathBuf| {
        let errors = text_of(&file.with_extension("errors"));
        let code_of = |line: &str| line.split(": ").nth(1).unwrap_or_default().to_owned();
        errors.lines().any(|line| OF_SCHEMA.contains(&&*code_of(line)))
    };
    let bad: Vec<PathBuf> = corpus("bad").into_iter().filter(is_of_schema).collect();
    assert!(bad.len() > 8, "{bad:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("schema.json");
    fs::write(&file, schema().to_string()).expect("the schema");
    // A normalised document is a definition file as well.
    let good: Vec<PathBuf> =
        corpus("good").into_iter().flat_map(|file| [file.with_extension(NORMALISED), file]).collect();
    let mut command = Command::new(python);
    command.arg("-c").arg(CHECK).args(&good).args(&bad).stdin(fs::File::open(&file).expect("the schema"));
    let output =
        tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    for result in out.lines() {
        let (name, errors): (String, Vec<String>) = serde_json::from_str(result).expect("a result");
        let is_bad = bad.contains(&PathBuf::from(&name));
        assert_eq!(!errors.is_empty(), is_bad, "{name}: {errors:?}");
    }
    assert_eq!(out.lines().count(), bad.len() + good.len());
}
