//! Start, stop, restart and ensure-running of a computer, and a computer that ends by itself
//! (docs/lifecycle.md).

use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::controller::{RunningController, skip_reason};

fn status_and_body(answer: &HttpAnswer) -> (u16, &Value) {
    (answer.status, &answer.body)
}

fn success(status: &str) -> Value {
    json!({"success": true, "status": status})
}

/// Asserts that every request that needs a running computer is refused with the status `stopped`.
async fn refuses_to_act(controller: &RunningController, id: &str, instance: &str) {
    let computer = format!("/computers/{id}");
    let proxy = format!("/desktops/{instance}/proxy/health");
    let requests = [
        (Method::POST, format!("{computer}/click"), json!({"x": 1, "y": 1})),
        (Method::POST, format!("{computer}/move"), json!({"x": 1, "y": 1})),
        (
            Method::POST,
            format!("{computer}/drag"),
            json!({"start_x": 1, "start_y": 1, "end_x": 2, "end_y": 2}),
        ),
        (Method::POST, format!("{computer}/scroll"), json!({"direction": "up"})),
        (Method::POST, format!("{computer}/type"), json!({"text": "x"})),
        (Method::POST, format!("{computer}/key"), json!({"key": "a"})),
        (Method::POST, format!("{computer}/wait"), json!({"seconds": 0})),
        (Method::POST, format!("{computer}/bash"), json!({"command": "true"})),
        (Method::POST, format!("{computer}/exec"), json!({"code": "1"})),
        (Method::GET, format!("{computer}/screenshot"), json!({})),
        (Method::GET, format!("{computer}/screens"), json!({})),
        (Method::POST, format!("{computer}/screens"), json!({})),
        (Method::PATCH, format!("{computer}/screens/default"), json!({"width": 800, "height": 600})),
        (Method::DELETE, format!("{computer}/screens/screen-100"), json!({})),
        (Method::POST, "/files/export".to_owned(), json!({"desktopId": id, "path": "x"})),
        (Method::GET, proxy, json!({})),
    ];
    for (method, path, body) in requests {
        let refused = fetch_json(controller.request(method, &path).json(&body)).await;
        let text = "Computer is not running (status: stopped)";
        // Of an export the operating state is a part of its input (docs/api/files.md).
        let status = if path == "/files/export" { 400 } else { 409 };
        assert_eq!((refused.status, &refused.body["error"]), (status, &json!(text)), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_stops_starts_and_restarts_with_its_disk() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("demo").await;
    let first = controller.computer(&workspace, "one").await;
    let (id, instance) = (first["id"].as_str().unwrap(), first["instance_id"].as_str().unwrap());
    // The note is written and not synced: a stop must not lose it.
    controller.bash(id, "echo kept > /root/note; (setsid sleep 1000 &)").await;

    let started = controller.act(id, "start", json!({})).await;
    assert_eq!(status_and_body(&started), (200, &success("running")));
    let stopping = controller.act(id, "stop", json!({})).await;
    assert_eq!(status_and_body(&stopping), (200, &success("stopping")));
    let again = controller.act(instance, "stop", json!({})).await;
    assert!(status_and_body(&again) == (200, &success("stopping")) || again.status == 409, "{again:?}");
    let stopped = controller.until_status(id, "stopped").await;
    assert_eq!(stopped["instance_details"], Value::Null);
    assert_eq!(stopped["ip"], Value::Null);
    assert_eq!(stopped.get("connection_url"), None);
    for (verb, text) in
        [("stop", "Computer is already stopped"), ("restart", "Computer is not running (status: stopped)")]
    {
        let refused = controller.act(id, verb, json!({})).await;
        assert_eq!((refused.status, &refused.body["error"]), (409, &json!(text)), "{verb}");
    }
    refuses_to_act(&controller, id, instance).await;

    let starting = controller.act(instance, "start", json!({})).await;
    assert_eq!(status_and_body(&starting), (200, &success("starting")));
    let again = controller.act(id, "start", json!({})).await;
    assert_eq!(again.status, 200, "{}", again.body);
    // The request right after a start waits for the boot; the client does not poll
    // (docs/api/compatibility.md).
    // The session sleeps, too, until its programs have started.
    assert_eq!(controller.bash(id, "cat /root/note; pgrep -fx 'sleep 1000'").await, "kept\n");
    let running = controller.until_status(id, "running").await;
    assert_eq!(running["instance_id"], instance);
    assert_ne!(running["vnc_password"], first["vnc_password"]);

    let ready = controller.act(id, "ensure-running", json!({})).await;
    assert_eq!(status_and_body(&ready), (200, &running));
    let restarting = controller.act(id, "restart", json!({})).await;
    assert_eq!(status_and_body(&restarting), (200, &success("restarting")));
    let again = controller.act(id, "restart", json!({})).await;
    assert_eq!(again.status, 200, "{}", again.body);
    assert_eq!(controller.bash(id, "cat /root/note").await, "kept\n");
    let restarted = controller.until_status(id, "running").await;
    assert_ne!(restarted["vnc_password"], running["vnc_password"]);
    let password = controller.get(&format!("/computers/{id}/vnc-password")).await;
    assert_eq!(password.body["password"], restarted["vnc_password"]);
    let proxied = controller.get(&format!("/desktops/{instance}/proxy/health")).await;
    assert_eq!((proxied.status, &proxied.body["status"]), (200, &json!("ok")));

    for verb in ["start", "stop", "restart", "ensure-running"] {
        let unknown = format!("/computers/{}/{verb}", uuid::Uuid::new_v4());
        assert_eq!(controller.post(&unknown, json!({})).await.status, 404, "{verb}");
        assert_eq!(controller.get(&format!("/computers/{id}/{verb}")).await.status, 405, "{verb}");
        let path = format!("/api/computers/{id}/{verb}");
        assert_eq!(fetch_json(controller.bare(Method::POST, &path)).await.status, 401, "{verb}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_ends_by_itself_reads_stopped_and_starts_again() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let created = controller.record(&id).await;
    let id = id.as_str();
    controller.bash(id, "echo kept > /root/note; sync").await;
    // The guest powers itself off; the response of the command may be lost.
    let command = json!({"command": "kill -TERM 1; sleep 30", "timeout": 40});
    let powered_off = controller.act(id, "bash", command).await;
    assert!([200, 409, 503].contains(&powered_off.status), "{} {}", powered_off.status, powered_off.body);
    let stopped = controller.until_status(id, "stopped").await;
    assert_eq!(stopped["instance_details"], Value::Null);
    refuses_to_act(&controller, id, created["instance_id"].as_str().unwrap()).await;
    assert_eq!(controller.act(id, "start", json!({})).await.status, 200);
    assert_eq!(controller.bash(id, "cat /root/note").await, "kept\n");

    // The host kills process 1 during a command.
    let init = controller.init_pid(id);
    let command =
        controller.act(id, "bash", json!({"command": "touch /root/begun; sleep 60", "timeout": 70}));
    let killing = async {
        let started = wait::until(Duration::from_secs(60), || async {
            (controller.bash(id, "ls /root/begun 2>/dev/null; true").await == "/root/begun\n").then_some(())
        });
        started.await.expect("a running command");
        kill(Pid::from_raw(init), Signal::SIGKILL).expect("killed");
    };
    let (cut_short, ()) = tokio::join!(command, killing);
    assert_eq!(cut_short.status, 503, "{}", cut_short.body);
    // The request must not wait for the end of the command.
    assert!(cut_short.body["error"].is_string() && cut_short.took < Duration::from_secs(45), "{cut_short:?}");
    controller.until_status(id, "stopped").await;
    // Several requests at once: one boot, and all responses show the running computer.
    let answers = join_all([0; 4].map(|_| controller.act(id, "ensure-running", json!({})))).await;
    for answer in &answers {
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("running")), "{answer:?}");
        assert_eq!(answer.body["vnc_password"], answers[0].body["vnc_password"]);
    }
    assert_eq!(controller.bash(id, "cat /root/note").await, "kept\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_at_once_end_in_one_clear_state() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    let verbs = ["stop", "restart", "stop", "restart", "start", "stop"];
    let answers = join_all(verbs.map(|verb| controller.act(id, verb, json!({})))).await;
    for (verb, answer) in verbs.iter().zip(&answers) {
        assert!([200, 409].contains(&answer.status), "{verb}: {} {}", answer.status, answer.body);
        assert!(answer.status == 409 || answer.body["success"] == true, "{verb}: {}", answer.body);
    }
    let settled = wait::until(Duration::from_secs(60), || async {
        let status = controller.record(id).await["status"].as_str().unwrap().to_owned();
        ["running", "stopped"].contains(&status.as_str()).then_some(status)
    });
    assert!(settled.await.is_some(), "{}", controller.record(id).await);
    assert_eq!(controller.act(id, "ensure-running", json!({})).await.status, 200);

    // A start during a stop waits for its turn.
    controller.act(id, "stop", json!({})).await;
    let started = controller.act(id, "start", json!({})).await;
    assert_eq!(status_and_body(&started), (200, &success("starting")));
    assert_eq!(controller.bash(id, "echo up").await, "up\n");
    controller.act(id, "stop", json!({})).await;
    let ensured = controller.act(id, "ensure-running", json!({})).await;
    assert_eq!((ensured.status, &ensured.body["status"]), (200, &json!("running")), "{}", ensured.body);

    // A delete during a boot leaves nothing.
    controller.act(id, "restart", json!({})).await;
    let waiting = controller.act(id, "bash", json!({"command": "true"}));
    let path = format!("/computers/{id}");
    let (removed, acted) = tokio::join!(controller.delete(&path), waiting);
    assert_eq!((removed.status, removed.body), (200, json!({"success": true})));
    assert!([200, 404, 409, 503].contains(&acted.status), "{} {}", acted.status, acted.body);
    assert_eq!(controller.get(&path).await.status, 404);
    assert_eq!(controller.machines(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_cannot_start_reads_error_and_leads_out_of_it() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    controller.bash(id, "echo kept > /root/note").await;
    controller.act(id, "stop", json!({})).await;
    controller.until_status(id, "stopped").await;
    let (disk, aside) = (controller.machine(id).join("disk.img"), controller.machine(id).join("disk.aside"));
    std::fs::rename(&disk, &aside).expect("a disk");
    assert_eq!(status_and_body(&controller.act(id, "start", json!({})).await), (200, &success("starting")));
    let acted = controller.act(id, "bash", json!({"command": "true"})).await;
    let text = json!("Computer is not running (status: error)");
    assert_eq!((acted.status, &acted.body["error"]), (409, &text), "{}", acted.body);
    let failed = controller.until_status(id, "error").await;
    assert_eq!((&failed["instance_details"], failed.get("connection_url")), (&Value::Null, None));
    let ensured = controller.act(id, "ensure-running", json!({})).await;
    assert_eq!((ensured.status, &ensured.body["error"]), (500, &json!("Computer could not be started")));
    std::fs::rename(&aside, &disk).expect("the restored disk");
    assert_eq!(controller.act(id, "restart", json!({})).await.status, 200);
    assert_eq!(controller.bash(id, "cat /root/note").await, "kept\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_s_computers_start_stop_and_restart_together() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let controller = RunningController::boot().await;
    let workspace = controller.workspace("both").await;
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        ids.push(controller.computer(&workspace, name).await["id"].as_str().expect("an id").to_owned());
    }
    controller.post(&format!("/computers/{}/stop", ids[0]), json!({})).await;
    controller.until_status(&ids[0], "stopped").await;

    let restarted = controller.post(&format!("/projects/{workspace}/restart"), json!({})).await;
    let statuses: Vec<&str> = restarted.body["computers"]
        .as_array()
        .expect("computers")
        .iter()
        .filter_map(|c| c["status"].as_str())
        .collect();
    assert_eq!((restarted.status, statuses.as_slice()), (200, ["stopped", "restarting"].as_slice()));
    controller.until_status(&ids[1], "running").await;

    assert_eq!(controller.post(&format!("/projects/{workspace}/start"), json!({})).await.status, 200);
    for id in &ids {
        controller.until_status(id, "running").await;
    }
    let stopped = controller.post(&format!("/workspaces/{workspace}/stop"), json!({})).await;
    assert_eq!((stopped.status, &stopped.body["success"]), (200, &json!(true)));
    for id in &ids {
        controller.until_status(id, "stopped").await;
    }
    assert_eq!(
        controller.post("/workspaces/00000000-0000-4000-8000-000000000000/stop", json!({})).await.status,
        404
    );
}
