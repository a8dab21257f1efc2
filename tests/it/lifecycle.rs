//! Do start, stop, restart and ensure-running keep wire.md 5.2, and does a computer that ends by itself come back?

use std::time::Duration;

use futures_util::future::join_all;
use hotdesk::base::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::agent::{Answered, answered};
use crate::harness::controller::{RunningController, no_computers_here};

fn told(answer: &Answered) -> (u16, &Value) {
    (answer.status, &answer.body)
}

fn under_way(status: &str) -> Value {
    json!({"success": true, "status": status})
}

/// Asserts that a computer refuses all that needs it to run, naming its status.
async fn refuses_to_act(house: &RunningController, id: &str, instance: &str) {
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
        let refused = answered(house.request(method, &path).json(&body)).await;
        let text = "Computer is not running (status: stopped)";
        assert_eq!((refused.status, &refused.body["error"]), (409, &json!(text)), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_stops_starts_and_restarts_with_its_disk() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    let workspace = house.workspace("demo").await;
    let first = house.computer(&workspace, "one").await;
    let (id, instance) = (first["id"].as_str().unwrap(), first["instance_id"].as_str().unwrap());
    // Written and not synced: a stop keeps it all the same.
    house.bash(id, "echo kept > /root/note; (setsid sleep 1000 &)").await;

    let started = house.act(id, "start", json!({})).await;
    assert_eq!(told(&started), (200, &under_way("running")));
    let stopping = house.act(id, "stop", json!({})).await;
    assert_eq!(told(&stopping), (200, &under_way("stopping")));
    let again = house.act(instance, "stop", json!({})).await;
    assert!(told(&again) == (200, &under_way("stopping")) || again.status == 409, "{again:?}");
    let stopped = house.until_status(id, "stopped").await;
    assert_eq!(stopped["instance_details"], Value::Null);
    assert_eq!(stopped["ip"], Value::Null);
    assert_eq!(stopped.get("connection_url"), None);
    for (verb, text) in
        [("stop", "Computer is already stopped"), ("restart", "Computer is not running (status: stopped)")]
    {
        let refused = house.act(id, verb, json!({})).await;
        assert_eq!((refused.status, &refused.body["error"]), (409, &json!(text)), "{verb}");
    }
    refuses_to_act(&house, id, instance).await;

    let starting = house.act(instance, "start", json!({})).await;
    assert_eq!(told(&starting), (200, &under_way("starting")));
    let again = house.act(id, "start", json!({})).await;
    assert_eq!(again.status, 200, "{}", again.body);
    // No polling: what comes right after waits for the boot (wire.md 16 A).
    assert_eq!(house.bash(id, "cat /root/note; pgrep -x sleep").await, "kept\n");
    let running = house.until_status(id, "running").await;
    assert_eq!(running["instance_id"], instance);
    assert_ne!(running["vnc_password"], first["vnc_password"]);

    let ready = house.act(id, "ensure-running", json!({})).await;
    assert_eq!(told(&ready), (200, &running));
    let restarting = house.act(id, "restart", json!({})).await;
    assert_eq!(told(&restarting), (200, &under_way("restarting")));
    let again = house.act(id, "restart", json!({})).await;
    assert_eq!(again.status, 200, "{}", again.body);
    assert_eq!(house.bash(id, "cat /root/note").await, "kept\n");
    let restarted = house.until_status(id, "running").await;
    assert_ne!(restarted["vnc_password"], running["vnc_password"]);
    let asked = house.get(&format!("/computers/{id}/vnc-password")).await;
    assert_eq!(asked.body["password"], restarted["vnc_password"]);
    let proxied = house.get(&format!("/desktops/{instance}/proxy/health")).await;
    assert_eq!((proxied.status, &proxied.body["status"]), (200, &json!("ok")));

    for verb in ["start", "stop", "restart", "ensure-running"] {
        let unknown = format!("/computers/{}/{verb}", uuid::Uuid::new_v4());
        assert_eq!(house.post(&unknown, json!({})).await.status, 404, "{verb}");
        assert_eq!(house.get(&format!("/computers/{id}/{verb}")).await.status, 405, "{verb}");
        let path = format!("/api/computers/{id}/{verb}");
        assert_eq!(answered(house.bare(Method::POST, &path)).await.status, 401, "{verb}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_ends_by_itself_reads_stopped_and_starts_again() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let made = house.record(&id).await;
    let id = id.as_str();
    house.bash(id, "echo kept > /root/note; sync").await;
    // Powered off from inside; the command's own answer may or may not get out.
    let command = json!({"command": "kill -TERM 1; sleep 30", "timeout": 40});
    let powered_off = house.act(id, "bash", command).await;
    assert!([200, 409, 503].contains(&powered_off.status), "{} {}", powered_off.status, powered_off.body);
    let stopped = house.until_status(id, "stopped").await;
    assert_eq!(stopped["instance_details"], Value::Null);
    refuses_to_act(&house, id, made["instance_id"].as_str().unwrap()).await;
    assert_eq!(house.act(id, "start", json!({})).await.status, 200);
    assert_eq!(house.bash(id, "cat /root/note").await, "kept\n");

    // Killed from the host in the middle of a command.
    let init = house.init_pid(id);
    let command = house.act(id, "bash", json!({"command": "touch /root/begun; sleep 60", "timeout": 70}));
    let killing = async {
        let begun = wait::until(Duration::from_secs(60), || async {
            (house.bash(id, "ls /root/begun 2>/dev/null; true").await == "/root/begun\n").then_some(())
        });
        begun.await.expect("the command began");
        kill(Pid::from_raw(init), Signal::SIGKILL).expect("killed");
    };
    let (cut_short, ()) = tokio::join!(command, killing);
    assert_eq!(cut_short.status, 503, "{}", cut_short.body);
    // Less than its command would have taken.
    assert!(cut_short.body["error"].is_string() && cut_short.took < Duration::from_secs(45), "{cut_short:?}");
    house.until_status(id, "stopped").await;
    // Several at once: one boot, and all answer with the running computer.
    let answers = join_all([0; 4].map(|_| house.act(id, "ensure-running", json!({})))).await;
    for answer in &answers {
        assert_eq!((answer.status, &answer.body["status"]), (200, &json!("running")), "{answer:?}");
        assert_eq!(answer.body["vnc_password"], answers[0].body["vnc_password"]);
    }
    assert_eq!(house.bash(id, "cat /root/note").await, "kept\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_at_once_end_in_one_clear_state() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    let verbs = ["stop", "restart", "stop", "restart", "start", "stop"];
    let answers = join_all(verbs.map(|verb| house.act(id, verb, json!({})))).await;
    for (verb, answer) in verbs.iter().zip(&answers) {
        assert!([200, 409].contains(&answer.status), "{verb}: {} {}", answer.status, answer.body);
        assert!(answer.status == 409 || answer.body["success"] == true, "{verb}: {}", answer.body);
    }
    let settled = wait::until(Duration::from_secs(60), || async {
        let status = house.record(id).await["status"].as_str().unwrap().to_owned();
        ["running", "stopped"].contains(&status.as_str()).then_some(status)
    });
    assert!(settled.await.is_some(), "{}", house.record(id).await);
    assert_eq!(house.act(id, "ensure-running", json!({})).await.status, 200);

    // Started again while it stops: in its turn.
    house.act(id, "stop", json!({})).await;
    let started = house.act(id, "start", json!({})).await;
    assert_eq!(told(&started), (200, &under_way("starting")));
    assert_eq!(house.bash(id, "echo up").await, "up\n");
    house.act(id, "stop", json!({})).await;
    let ensured = house.act(id, "ensure-running", json!({})).await;
    assert_eq!((ensured.status, &ensured.body["status"]), (200, &json!("running")), "{}", ensured.body);

    // Removed in the middle of a boot: gone, with nothing left.
    house.act(id, "restart", json!({})).await;
    let waiting = house.act(id, "bash", json!({"command": "true"}));
    let path = format!("/computers/{id}");
    let (removed, acted) = tokio::join!(house.delete(&path), waiting);
    assert_eq!((removed.status, removed.body), (200, json!({"success": true})));
    assert!([200, 404, 409, 503].contains(&acted.status), "{} {}", acted.status, acted.body);
    assert_eq!(house.get(&path).await.status, 404);
    assert_eq!(house.machines(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computer_that_cannot_start_reads_error_and_leads_out_of_it() {
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let id = id.as_str();
    house.bash(id, "echo kept > /root/note").await;
    house.act(id, "stop", json!({})).await;
    house.until_status(id, "stopped").await;
    let (disk, aside) = (house.machine(id).join("disk.img"), house.machine(id).join("disk.aside"));
    std::fs::rename(&disk, &aside).expect("a disk");
    assert_eq!(told(&house.act(id, "start", json!({})).await), (200, &under_way("starting")));
    let acted = house.act(id, "bash", json!({"command": "true"})).await;
    let text = json!("Computer is not running (status: error)");
    assert_eq!((acted.status, &acted.body["error"]), (409, &text), "{}", acted.body);
    let failed = house.until_status(id, "error").await;
    assert_eq!((&failed["instance_details"], failed.get("connection_url")), (&Value::Null, None));
    let ensured = house.act(id, "ensure-running", json!({})).await;
    assert_eq!((ensured.status, &ensured.body["error"]), (500, &json!("Computer could not be started")));
    std::fs::rename(&aside, &disk).expect("the disk again");
    assert_eq!(house.act(id, "restart", json!({})).await.status, 200);
    assert_eq!(house.bash(id, "cat /root/note").await, "kept\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_s_computers_start_stop_and_restart_together() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot().await;
    let workspace = house.workspace("both").await;
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        ids.push(house.computer(&workspace, name).await["id"].as_str().expect("an id").to_owned());
    }
    house.post(&format!("/computers/{}/stop", ids[0]), json!({})).await;
    house.until_status(&ids[0], "stopped").await;

    let restarted = house.post(&format!("/projects/{workspace}/restart"), json!({})).await;
    let statuses: Vec<&str> = restarted.body["computers"]
        .as_array()
        .expect("computers")
        .iter()
        .filter_map(|c| c["status"].as_str())
        .collect();
    assert_eq!((restarted.status, statuses.as_slice()), (200, ["stopped", "restarting"].as_slice()));
    house.until_status(&ids[1], "running").await;

    assert_eq!(house.post(&format!("/projects/{workspace}/start"), json!({})).await.status, 200);
    for id in &ids {
        house.until_status(id, "running").await;
    }
    let stopped = house.post(&format!("/workspaces/{workspace}/stop"), json!({})).await;
    assert_eq!((stopped.status, &stopped.body["success"]), (200, &json!(true)));
    for id in &ids {
        house.until_status(id, "stopped").await;
    }
    assert_eq!(
        house.post("/workspaces/00000000-0000-4000-8000-000000000000/stop", json!({})).await.status,
        404
    );
}
