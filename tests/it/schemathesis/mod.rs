//! Property tests of the API with schemathesis: thousands of generated requests. T26 (docs/security.md).

mod accounts;

use std::process::Command;

use reqwest::Method;

use crate::clients::python;
use crate::harness::agent::fetch_json;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::sampling::{is_full_run, sampled};

/// Requests per operation and phase, of a sample and of a full run. No run has a time limit: on a busy machine it would end
/// before the last operations.
const EXAMPLES: (&str, &str) = ("3", "200");
/// Phases of a sample and of a full run. The coverage phase sends about 50 requests per operation.
const PHASES: (&str, &str) = ("examples,fuzzing", "examples,coverage,fuzzing");

/// The schemathesis command with a configuration beside `foreign.py`. Without schemathesis, prints the reason
/// and returns `None`.
fn schemathesis(configuration: &str) -> Option<Command> {
    let program = python().map(|python| python.with_file_name("st")).filter(|program| program.exists());
    let Some(program) = program else {
        Capability::Python.skip("no schemathesis (make deps-test)");
        return None;
    };
    let mut run = Command::new(program);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/schemathesis");
    run.args(["--config-file", &format!("{folder}/{configuration}"), "run"]);
    Some(run)
}

/// Selects the service at `http://ADDR:PORT` and its own description.
fn set_target(run: &mut Command, base: &str) {
    run.args([&format!("{base}/openapi.json"), "--url", &format!("{base}/api"), "--no-color"]);
    run.args(["--warnings", "off", "--suppress-health-check", "all"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn t26_no_request_gets_an_answer_that_is_not_described() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let Some(mut run) = schemathesis("schemathesis.toml") else { return };
    // A limit of two computers: further valid creates answer 403. No rate limits: another test covers 429.
    let limits = "[limits]\nmax_computers = 2\nrequests_per_second = 100000\nrequest_burst = 100000\n\
                  wrong_keys_per_minute = 100000\n";
    let controller = RunningController::boot_with(limits).await;
    let workspace = controller.workspace("fixture").await;
    let empty = controller.workspace("empty").await;
    let computer =
        controller.computer(&workspace, "acted on").await["id"].as_str().expect("an id").to_owned();
    let second =
        controller.computer(&workspace, "turned on and off").await["id"].as_str().expect("an id").to_owned();
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace.clone())
        .part("file", reqwest::multipart::Part::text("hi").file_name("a.txt"));
    let stored = fetch_json(controller.request(Method::POST, "/files/upload").multipart(form)).await;
    let file = stored.body["file"]["id"].as_str().expect("a file").to_owned();

    let (phases, examples) = (sampled(PHASES.0, PHASES.1), sampled(EXAMPLES.0, EXAMPLES.1));
    set_target(&mut run, controller.base());
    run.args(["--max-examples", examples, "--phases", phases]);
    if !is_full_run() {
        // The same requests in every run; `make soak` draws new ones.
        run.arg("--generation-deterministic");
    }
    run.current_dir(controller.folder()).env("HOTDESK_API_KEY", controller.key());
    run.envs([
        ("WORKSPACE", &workspace),
        ("EMPTY_WORKSPACE", &empty),
        ("COMPUTER", &computer),
        ("SECOND_COMPUTER", &second),
        ("FILE", &file),
    ]);
    let ran =
        tokio::task::spawn_blocking(move || run.output()).await.expect("no panic").expect("schemathesis");
    let (output, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let lines: Vec<&str> = output.lines().collect();
    println!("{}", lines[lines.len().saturating_sub(40)..].join("\n"));
    assert!(ran.status.success(), "{output}\n{errors}");
    // The requests were not all refused: every route has answered 200, and the computer still works.
    let metrics =
        controller.bare(Method::GET, "/metrics").send().await.expect("metrics").text().await.expect("text");
    let answers = |route: &str| {
        let prefix = "hotdesk_http_requests_total{";
        let of_route = format!("route=\"{route}\"");
        let lines = metrics.lines().filter(|line| line.starts_with(prefix) && line.contains(&of_route));
        lines.collect::<Vec<_>>().join("\n")
    };
    let actions = [
        "actions",
        "bash",
        "exec",
        "click",
        "key",
        "move",
        "drag",
        "scroll",
        "type",
        "wait",
        "screenshot",
        "screens",
    ];
    let routes = actions.map(|action| format!("/computers/{{id}}/{action}"));
    let others =
        ["/computers", "/files", "/files/download", "/workspaces", "/workspaces/{id}"].map(str::to_owned);
    for route in routes.iter().chain(&others) {
        let answers = answers(route);
        assert!(answers.contains("status=\"200\""), "{route} never answered 200:\n{answers}");
    }
    assert_eq!(controller.bash(&computer, "echo hi").await, "hi\n");
}
