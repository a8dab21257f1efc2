//! Does the API keep what its description promises, whatever is sent and by whom? Thousands of made-up requests (threats.md T26).

mod accounts;

use std::process::Command;

use reqwest::Method;

use crate::clients::python;
use crate::harness::agent::answered;
use crate::harness::controller::{RunningController, no_computers_here};

/// Seconds that the requests may take, some 30 in each; `SCHEMATHESIS_SECONDS` says otherwise. Those of two accounts
/// (`accounts`) take another minute.
const SECONDS: &str = "130";
/// Requests per operation and phase.
const EXAMPLES: &str = "60";

/// schemathesis with one of the configurations beside `foreign.py`; `None`, and why, where it is not installed.
fn schemathesis(configuration: &str) -> Option<Command> {
    let program = python().map(|python| python.with_file_name("st")).filter(|program| program.exists());
    let Some(program) = program else {
        println!("skipped: no schemathesis (make deps-test)");
        return None;
    };
    let mut run = Command::new(program);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/schemathesis");
    run.args(["--config-file", &format!("{folder}/{configuration}"), "run"]);
    Some(run)
}

/// Asks the service at `http://ADDR:PORT` by its own description.
fn against(run: &mut Command, base: &str) {
    run.args([&format!("{base}/openapi.json"), "--url", &format!("{base}/api"), "--no-color"]);
    run.args(["--warnings", "off", "--suppress-health-check", "all"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn t26_no_request_gets_an_answer_that_is_not_described() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let Some(mut run) = schemathesis("schemathesis.toml") else { return };
    // Two computers and no more: made-up orders that are sound get 403. Unhurried: 429 is another test's.
    let limits = "[limits]\nmax_computers = 2\nrequests_per_second = 100000\nrequest_burst = 100000\n\
                  wrong_keys_per_minute = 100000\n";
    let house = RunningController::boot_with(limits).await;
    let workspace = house.workspace("fixture").await;
    let empty = house.workspace("empty").await;
    let computer = house.computer(&workspace, "acted on").await["id"].as_str().expect("an id").to_owned();
    let second =
        house.computer(&workspace, "turned on and off").await["id"].as_str().expect("an id").to_owned();
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace.clone())
        .part("file", reqwest::multipart::Part::text("hi").file_name("a.txt"));
    let stored = answered(house.request(Method::POST, "/files/upload").multipart(form)).await;
    let file = stored.body["file"]["id"].as_str().expect("a file").to_owned();

    let seconds = std::env::var("SCHEMATHESIS_SECONDS").unwrap_or_else(|_| SECONDS.to_owned());
    against(&mut run, house.base());
    run.args(["--max-examples", EXAMPLES, "--max-time", &seconds, "--phases", "examples,coverage,fuzzing"]);
    run.current_dir(house.folder()).env("HOTDESK_API_KEY", house.key());
    run.envs([
        ("WORKSPACE", &workspace),
        ("EMPTY_WORKSPACE", &empty),
        ("COMPUTER", &computer),
        ("SECOND_COMPUTER", &second),
        ("FILE", &file),
    ]);
    let ran = tokio::task::spawn_blocking(move || run.output()).await.expect("no panic").expect("it runs");
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let lines: Vec<&str> = said.lines().collect();
    println!("{}", lines[lines.len().saturating_sub(40)..].join("\n"));
    assert!(ran.status.success(), "{said}\n{complained}");
    // It was not all refused at the door: the computer was acted on and still is there.
    let metrics =
        house.bare(Method::GET, "/metrics").send().await.expect("metrics").text().await.expect("text");
    let answers = |route: &str| {
        let asked = "hotdesk_http_requests_total{";
        let of_route = format!("route=\"{route}\"");
        let lines = metrics.lines().filter(|line| line.starts_with(asked) && line.contains(&of_route));
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
        assert!(answers.contains("status=\"200\""), "{route} was never reached:\n{answers}");
    }
    assert_eq!(house.bash(&computer, "echo hi").await, "hi\n");
}
