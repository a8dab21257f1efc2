//! The service over PostgreSQL: its API, deaths of controller and server, copies, back-ups, and the password.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::wait;
use hotdesk::controller::config::Config;
use hotdesk_capability::Skip;
use hotdesk_capability::postgres::PostgresServer;
use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::person::Shell;
use crate::harness::controller::{RunningController, command};
use crate::harness::simulation::{Simulation, postgres_settings};

/// Longest wait for a condition, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(40);
/// Tests over the simulated engine that run with their stores in PostgreSQL.
const SUITE: [&str; 4] = ["idempotency::", "clients_api::", "plans::", "resize::"];
/// Those of them that look into the file of SQLite or use its own statements, or run a controller of their own.
const NOT_IN_SUITE: [&str; 8] = [
    "idempotency::crash",
    "idempotency::eviction",
    "idempotency::secrets_are_not_kept",
    "a_client_that_hangs_up_before_its_request_is_noted",
    "the_operator_sets_all_of_it_from_the_command_line",
    "a_client_has_a_workspace_and_a_key_that_reaches_only_it",
    "the_oldest_of_the_earlier_handles_of_a_computer_makes_room",
    "t18_a_resize_whose_outcome_could_not_be_stored",
];

/// A server of this test. In the run of [`the_api_suite_passes`], which has one, there is none.
pub fn server() -> Option<PostgresServer> {
    if PostgresServer::of_this_run().is_some() {
        return None;
    }
    PostgresServer::start().map_err(Skip::report).ok()
}

#[test]
fn the_api_suite_passes() {
    let Some(server) = server() else { return };
    let mut run = Command::new(std::env::current_exe().expect("this program"));
    run.env(PostgresServer::VARIABLE, server.folder()).arg("--test-threads=4").args(SUITE);
    NOT_IN_SUITE.iter().for_each(|test| {
        run.args(["--skip", test]);
    });
    let run = run.output().expect("the suite runs");
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}{}", String::from_utf8_lossy(&run.stderr));
    let used = server.sql("postgres", "SELECT COUNT(*) FROM pg_database WHERE datname LIKE 'test_%'");
    assert!(used.parse::<u32>().expect("a number") >= 40, "only {used} tests used PostgreSQL: {output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writes_are_counted_one_after_another() {
    let Some(server) = server() else { return };
    let store = postgres_settings(&server, &server.create_database());
    let controller = Simulation::boot_configured(Config { store, ..Config::default() }).await;
    let names: Vec<String> = (0..30).map(|number| format!("key {number}")).collect();
    let made = join_all(names.iter().map(|name| controller.post("/keys", json!({ "name": name })))).await;
    assert!(made.iter().all(|answer| answer.status == 201), "{:?}", made.iter().find(|it| it.status != 201));
    let pool = controller.store_pool().await;
    let numbers = wait::until(TIMEOUT, || async {
        let numbers: Vec<i64> =
            sqlx::query_scalar("SELECT seq FROM audit ORDER BY seq").fetch_all(&pool).await.expect("numbers");
        (numbers.len() >= 30).then_some(numbers)
    });
    let numbers = numbers.await.expect("an entry for each key");
    assert!(numbers.iter().copied().eq(1..=numbers.len() as i64), "{numbers:?}");
}

/// Lines of a configuration file whose store is in a new database.
fn configuration(server: &PostgresServer, url: &str) -> String {
    format!("[store]\nurl = \"{url}\"\npassword_file = \"{}\"\n", server.password_file().display())
}

/// The names of the workspaces of a service.
pub async fn names(controller: &RunningController) -> Vec<String> {
    let listed = controller.get("/workspaces").await;
    assert_eq!(listed.status, 200, "{}", listed.body);
    let all = listed.body["workspaces"].as_array().expect("a list").iter();
    all.map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_writes_a_controller_loses_no_answered_one() {
    let Some(server) = server() else { return };
    let url = server.create_database();
    let mut controller = RunningController::boot_with(&configuration(&server, &url)).await;
    for round in 0..3 {
        let requests = (0..12).map(|number| {
            let body = json!({ "name": format!("w{round}-{number}") });
            let request = controller.request(Method::POST, "/workspaces").json(&body);
            async move {
                let answer = request.send().await.ok()?;
                (answer.status() == 201).then(|| format!("w{round}-{number}"))
            }
        });
        let pid = nix::unistd::Pid::from_raw(controller.pid().cast_signed());
        let (answered, ()) = tokio::join!(join_all(requests), async {
            tokio::time::sleep(Duration::from_millis(15 * (round + 1))).await;
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("the controller runs");
        });
        controller.reap();
        controller.start_again().await;
        let stored = names(&controller).await;
        for name in answered.into_iter().flatten() {
            assert!(stored.contains(&name), "{name} was answered and is lost: {stored:?}");
        }
    }
    let gaps = "SELECT COUNT(*) FROM (SELECT seq - LAG(seq) OVER (ORDER BY seq) AS step FROM audit) a WHERE step <> 1";
    assert_eq!(server.sql(url.rsplit('/').next().expect("a name"), gaps), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_server_is_down_answers_are_503_and_then_the_service_continues() {
    let Some(mut server) = server() else { return };
    let url = server.create_database();
    let controller = RunningController::boot_with(&configuration(&server, &url)).await;
    controller.workspace("before").await;
    server.crash();
    let write = controller.request(Method::POST, "/workspaces").json(&json!({"name": "during"}));
    for request in [controller.request(Method::GET, "/workspaces"), write] {
        let answer = request.send().await.expect("an answer");
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["retry-after"]),
            (503, &"5".parse().expect("a value"))
        );
        let body: Value = answer.json().await.expect("JSON");
        assert_eq!(body["error"], "Service temporarily unavailable");
    }
    server.resume();
    let again = wait::until(TIMEOUT, || async {
        (controller.post("/workspaces", json!({"name": "after"})).await.status == 201).then_some(())
    });
    assert!(again.await.is_some(), "the service does not continue: {}", controller.log());
    let stored = names(&controller).await;
    assert!(stored.contains(&"before".to_owned()) && stored.contains(&"after".to_owned()), "{stored:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_controller_is_refused_and_a_wrong_url_prints_no_password() {
    let Some(server) = server() else { return };
    let url = server.create_database();
    let controller = RunningController::boot_with(&configuration(&server, &url)).await;
    let other = tempfile::tempdir().expect("a folder");
    let serve = |lines: &str| {
        std::fs::write(other.path().join("hotdesk.toml"), lines).expect("a configuration");
        let ended = command(other.path()).output().expect("the program starts");
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        [ended.stdout, ended.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
    };
    let refused = serve(&configuration(&server, &url));
    assert!(refused.contains("in use by a controller"), "{refused}");
    let with_password = url.replace("hotdesk@", "hotdesk:hunter2@");
    let wrong = serve(&configuration(&server, &with_password));
    assert!(wrong.contains("store.password_file") && !wrong.contains("hunter2"), "{wrong}");
    for text in [refused, wrong, controller.log()] {
        assert!(!text.contains(PostgresServer::PASSWORD), "{text}");
    }
    let process = Path::new("/proc").join(controller.pid().to_string());
    for file in ["cmdline", "environ"] {
        let content = std::fs::read(process.join(file)).unwrap_or_default();
        let password = PostgresServer::PASSWORD.as_bytes();
        assert!(!content.windows(password.len()).any(|window| window == password), "{file} has the password");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_store_and_a_restored_back_up_continue_with_the_same_keys() {
    let Some(server) = server() else { return };
    let mut controller = RunningController::boot().await;
    controller.workspace("home").await;
    let (url, restored) = (server.create_database(), server.create_database());
    let data = controller.data_dir().display().to_string();
    let password_file = server.password_file().display().to_string();
    let copy = ["store", "copy", "--from", &data, "--to", &url, "--to-password-file", &password_file];
    let shell = Shell::new();
    shell.run(&copy).await.expect_failure(1, &["in use by the controller"]);
    controller.stop();
    let printed = shell.run(&copy).await.expect_success();
    assert!(printed.contains("rows of 50 tables") && printed.contains("store.url"), "{printed}");
    shell.run(&copy).await.expect_failure(1, &["not empty"]);
    let file = controller.folder().join("hotdesk.toml");
    std::fs::write(&file, configuration(&server, &url)).expect("a configuration");
    controller.start_again().await;
    assert_eq!(names(&controller).await, ["home"]);
    controller.workspace("in PostgreSQL").await;

    // The commands of docs/postgresql.md.
    let back_up = controller.folder().join("hotdesk.dump");
    let dumped = server.program("pg_dump", &url).args(["--format=custom", "--file"]).arg(&back_up).status();
    assert!(dumped.expect("pg_dump starts").success());
    controller.workspace("after the back-up").await;
    controller.stop();
    let read = server
        .program("pg_restore", &restored)
        .args(["--exit-on-error", "--no-owner"])
        .arg(&back_up)
        .status();
    assert!(read.expect("pg_restore starts").success());
    std::fs::write(&file, configuration(&server, &restored)).expect("a configuration");
    controller.start_again().await;
    let mut stored = names(&controller).await;
    stored.sort();
    assert_eq!(stored, ["home", "in PostgreSQL"]);
}
