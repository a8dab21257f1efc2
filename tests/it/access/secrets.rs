//! Does a secret show anywhere? Logs at their loudest, command lines, environments (access.md A20, threats.md T24).

use std::fs;

use reqwest::Method;
use serde_json::json;

use crate::harness::agent::answered;
use crate::harness::controller::{RunningController, no_computers_here};

/// Host processes of a computer, by their control group.
fn processes(computer: &str) -> Vec<String> {
    let own = format!("/hotdesk/{computer}");
    let all = fs::read_dir("/proc").expect("proc").flatten();
    let pids = all.filter_map(|entry| Some(entry.file_name().to_str()?.parse::<u32>().ok()?.to_string()));
    pids.filter(|pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(&own)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a20_no_secret_shows_in_logs_command_lines_or_environments() {
    if let Some(reason) = no_computers_here() {
        return println!("{reason}");
    }
    let house = RunningController::boot_with("log = \"trace\"\n").await;
    let workspace = house.workspace("w").await;
    let made = house.computer(&workspace, "desk").await;
    let id = made["id"].as_str().expect("an id").to_owned();
    let password = made["vnc_password"].as_str().expect("a password").to_owned();

    // A session that touches whatever handles secrets, mistakes included.
    house.bash(&id, "echo hi; sleep 0.1").await;
    house.get(&format!("/computers/{id}/vnc-password")).await;
    let proxied = house.bare(Method::GET, &format!("/desktops/{id}/proxy/health")).bearer_auth(house.key());
    assert_eq!(proxied.send().await.expect("an answer").status(), 200);
    let query = house.bare(Method::GET, &format!("/api/workspaces?api_key={}&token={password}", house.key()));
    assert_eq!(answered(query).await.status, 401);
    let mistyped = house.bare(Method::GET, "/api/workspaces").bearer_auth(format!("{}0", house.key()));
    assert_eq!(answered(mistyped).await.status, 401);
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace.clone())
        .part("file", reqwest::multipart::Part::text("hi").file_name("a.txt"));
    assert_eq!(answered(house.request(Method::POST, "/files/upload").multipart(form)).await.status, 200);
    house.post(&format!("/computers/{id}/restart"), json!({})).await;
    let again = house.until_status(&id, "running").await;
    let newer = again["vnc_password"].as_str().expect("a password").to_owned();
    assert_ne!(password, newer, "a restart gives a new password");

    // What the controller knows and must not tell.
    let store = hotdesk::store::Store::open(&house.data_dir().join("hotdesk.db")).await.expect("the store");
    let token = store.all_computers().await.expect("rows")[0].agent_token.reveal().to_owned();
    let secrets = [
        ("the key", house.key()),
        ("the password", &*password),
        ("the new password", &*newer),
        ("the agent's token", &*token),
    ];

    let pids = processes(&id);
    assert!(pids.len() > 2, "the computer's processes are found: {pids:?}");
    let controller = house.pid().to_string();
    for pid in pids.iter().chain([&controller]) {
        for part in ["cmdline", "environ"] {
            // One that has ended meanwhile shows nothing.
            let text = fs::read(format!("/proc/{pid}/{part}")).unwrap_or_default();
            for (what, secret) in secrets {
                assert!(!contains(&text, secret), "{part} of {pid} shows {what}");
            }
        }
    }
    assert!(!fs::read(format!("/proc/{controller}/environ")).expect("it lives").is_empty());
    let log = house.log();
    assert!(log.contains("DEBUG") && log.contains("vnc-password"), "the log is at its loudest");
    for (what, secret) in secrets {
        let line = log.lines().find(|line| line.contains(secret));
        assert!(line.is_none(), "the log shows {what}: {line:?}");
    }
    // Inside, the token is root's alone, and the guest's own log does not show it either.
    let seen = house
        .bash(&id, "cat /var/log/hotdesk/*.log 2>/dev/null; ls -ln /run/hotdesk /run/secrets 2>/dev/null")
        .await;
    assert!(!seen.contains(&token), "{seen}");
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
