//! Secrets on real computers: `/root/.env` has exact values in memory alone, and a typed value is nowhere
//! else.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hotdesk::base::secret::Secret;
use hotdesk::base::wait;
use serde_json::{Value, json};

use super::put;
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, gvisor, skip_reason};
use crate::secrets::Canaries;

/// Longest time for a program to write what was typed.
const TYPED_TIMEOUT: Duration = Duration::from_secs(30);

/// A controller with a computer that has secrets.
struct SyncedScene {
    controller: RunningController,
    home: String,
    computer: String,
    secrets: Canaries,
    /// Names and values of secrets of the workspace.
    values: Vec<(&'static str, String)>,
}

impl SyncedScene {
    async fn boot(configuration: &str) -> Self {
        let controller = RunningController::boot_with(configuration).await;
        let home = controller.workspace("home").await;
        let computer = id_of(&controller.computer(&home, "desk").await);
        let mut secrets = Canaries::default();
        let random = Secret::random(24).reveal().to_owned();
        let plain = secrets.record("a plain value", &random);
        let lines = secrets.record("a value with lines", Secret::random(24).reveal());
        let values = vec![
            ("LINES", format!("-----BEGIN-----\n{lines}\n-----END-----\n\n")),
            ("PLAIN", plain),
            ("QUOTED", "it's \"$HOME\" `id` $(id) \\n !x # ä\u{1f600}\t%s ~ *".to_owned()),
        ];
        let scene = Self { controller, home, computer, secrets, values };
        for (name, value) in &scene.values {
            let body = json!({"value": value, "workspace_id": scene.home});
            let set = put(&scene.controller, scene.controller.key(), name, body).await;
            assert_eq!(set.status, 200, "{}", set.body);
        }
        scene
    }

    async fn sync(&self, id: &str, body: Value) -> Value {
        let done = self.controller.post(&format!("/computers/{id}/secrets/sync"), body).await;
        assert_eq!(done.status, 200, "{}", done.body);
        assert!(self.secrets.find_in_text(&done.body.to_string()).is_empty(), "{}", done.body);
        done.body
    }

    /// The value of a shell variable after `. /root/.env`.
    async fn read(&self, id: &str, name: &str) -> String {
        let command = format!(". /root/.env; printf %s \"${name}\" | base64 -w0");
        let bytes = BASE64_STANDARD.decode(self.controller.bash(id, &command).await.trim()).expect("base64");
        String::from_utf8(bytes).expect("UTF-8")
    }

    /// Whether `/root/.env` can be read.
    async fn has_file(&self, id: &str) -> bool {
        self.controller.bash(id, "cat /root/.env >/dev/null 2>&1 && echo yes; true").await == "yes\n"
    }

    /// The files of a computer that contain a value, except those of `/dev/shm`.
    async fn files_with(&self, id: &str, value: &str) -> Vec<String> {
        // No command line has the whole value.
        let (first, second) = value.split_at(value.len() / 2);
        let command =
            format!("v={first}; v=${{v}}{second}; grep -rlsF \"$v\" /run /var /root /tmp /home /etc; true");
        self.controller.bash(id, &command).await.lines().map(str::to_owned).collect()
    }

    /// Environments and command lines of all processes of a computer.
    async fn processes(&self, id: &str) -> String {
        let command = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; true";
        self.controller.bash(id, command).await
    }

    /// Asserts that no file of the service, which also has the disks, contains a value, and no process of the
    /// host.
    async fn assert_hidden(&self) {
        assert_eq!(self.secrets.find_in_files(&self.controller.data_dir()), []);
        let (shown, searched) = self.secrets.find_in_processes();
        assert!(shown.is_empty() && searched > 2, "{shown:#?}");
        let log = self.controller.log();
        assert!(self.secrets.find_in_text(&log).is_empty(), "the log contains a value");
    }
}

async fn secrets_stay_in_memory(configuration: &str, has_memory: bool) {
    let scene = SyncedScene::boot(&format!("log = \"trace\"\n{configuration}")).await;
    let (controller, id) = (&scene.controller, &scene.computer);
    put(controller, controller.key(), "ACCOUNT_WIDE", json!({"value": "of the account"})).await;
    let synced = scene.sync(id, json!({})).await;
    let names = ["ACCOUNT_WIDE", "LINES", "PLAIN", "QUOTED"];
    assert_eq!(synced, json!({"path": "/root/.env", "names": names}));
    for (name, value) in &scene.values {
        assert_eq!(scene.read(id, name).await, *value, "{name}");
    }
    assert_eq!(scene.read(id, "ACCOUNT_WIDE").await, "of the account");
    let facts = controller.bash(id, "stat -L -c '%a %U' /root/.env; stat -f -L -c %T /root/.env").await;
    assert_eq!(facts, "600 root\ntmpfs\n");
    let shown = scene.processes(id).await;
    assert!(shown.contains("PATH=") && scene.secrets.find_in_text(&shown).is_empty(), "{shown}");
    let plain = &scene.values[1].1;
    assert_eq!(scene.files_with(id, plain).await.len(), 1, "the file in memory alone");

    // Snapshots and copies of the disk have a link that leads nowhere.
    let body = json!({"name": "disk", "memory": false});
    let made = controller.post(&format!("/computers/{id}/snapshots"), body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let clone = id_of(&controller.create(&format!("/computers/{id}/clone"), json!({"name": "copy"})).await);
    assert!(scene.has_file(id).await && !scene.has_file(&clone).await);
    scene.assert_hidden().await;
    if has_memory {
        // Memory that another computer continues from has lost the file.
        let body = json!({"name": "memory", "memory": true});
        let snapshot = controller.post(&format!("/computers/{id}/snapshots"), body).await;
        assert_eq!(snapshot.status, 201, "{}", snapshot.body);
        let body = json!({"name": "fork", "snapshot_id": snapshot.body["id"]});
        let fork = id_of(&controller.create(&format!("/computers/{id}/fork"), body).await);
        assert!(scene.has_file(id).await && !scene.has_file(&fork).await);
    }
    scene.sync(&clone, json!({"names": ["PLAIN"]})).await;
    assert_eq!(scene.read(&clone, "PLAIN").await, *plain);
    assert_eq!(scene.read(&clone, "QUOTED").await, "", "only what was named");

    // A boot forgets them, a sync brings the new values, and a file of the user is kept.
    assert!(controller.post(&format!("/computers/{clone}/restart"), json!({})).await.status < 300);
    controller.until_status(&clone, "running").await;
    assert!(!scene.has_file(&clone).await);
    let body = json!({"value": "a new value", "workspace_id": scene.home});
    put(controller, controller.key(), "PLAIN", body).await;
    scene.sync(&clone, json!({"names": ["PLAIN"]})).await;
    assert_eq!(scene.read(&clone, "PLAIN").await, "a new value");
    controller.bash(&clone, "rm /root/.env; echo MINE=1 >/root/.env").await;
    let refused = controller.post(&format!("/computers/{clone}/secrets/sync"), json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("env_file_exists")), "{}", refused.body);
    assert_eq!(scene.read(&clone, "MINE").await, "1");
    let missing = controller.post(&format!("/computers/{id}/secrets/sync"), json!({"names": ["NONE"]})).await;
    assert_eq!((missing.status, &missing.body["code"]), (404, &json!("secret_not_found")));
    assert_eq!(scene.read(id, "PLAIN").await, *plain, "a refused sync changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_a_container_are_in_its_memory_alone() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    secrets_stay_in_memory("", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_of_a_sandbox_are_in_its_memory_alone() {
    let Some(configuration) = gvisor() else { return };
    secrets_stay_in_memory(&configuration, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_typed_secret_arrives_in_a_terminal_and_is_nowhere_else() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let scene = SyncedScene::boot("log = \"trace\"\n").await;
    let (controller, id) = (&scene.controller, &scene.computer);
    // The terminal does not show what it reads, as for a password.
    let program = "stty -echo; cat >/dev/shm/typed";
    let argv = json!(["xterm", "-T", "login", "-e", "sh", "-c", program]);
    let opened = controller.act(id, "launch", json!({"argv": argv, "wait_seconds": 30})).await;
    assert_eq!(opened.status, 200, "{}", opened.body);
    let window = opened.body["window"]["id"].as_str().expect("a window");
    let focused = controller.act(id, &format!("windows/{window}/focus"), json!({})).await;
    assert_eq!(focused.status, 200, "{}", focused.body);
    let value = &scene.values[1].1;
    let typed = controller.request(reqwest::Method::POST, &format!("/computers/{id}/type"));
    let typed = typed.header("Idempotency-Key", "typed-in-a-terminal");
    let typed = typed.json(&json!({"text": "ada:{{secret:PLAIN}}\n", "settle": {}}));
    let typed = crate::harness::caller::fetch_json(typed).await;
    assert_eq!((typed.status, &typed.body["success"]), (200, &json!(true)), "{}", typed.body);
    assert_eq!(typed.body["details"], json!({"confidential": true}));
    assert_eq!(typed.body["effect"]["window_after"]["title"], Value::Null, "{}", typed.body);
    controller.act(id, "key", json!({"key": "ctrl+d"})).await;
    let arrived = wait::until(TYPED_TIMEOUT, || async {
        let text = controller.bash(id, "cat /dev/shm/typed 2>/dev/null; true").await;
        (text == format!("ada:{value}\n")).then_some(())
    });
    assert!(arrived.await.is_some(), "the text did not arrive");
    assert_eq!(scene.files_with(id, value).await, Vec::<String>::new(), "no file of the computer has it");
    let shown = scene.processes(id).await;
    assert!(shown.contains("PATH=") && scene.secrets.find_in_text(&shown).is_empty(), "{shown}");
    let audit = controller.get("/audit?limit=500").await.body.to_string();
    assert!(audit.contains("/computers/{id}/type") && scene.secrets.find_in_text(&audit).is_empty());
    scene.assert_hidden().await;
}
