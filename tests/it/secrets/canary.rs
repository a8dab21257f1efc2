//! Canary test of all kinds of secrets: one controller, each secret used and misused, and then a search of
//! everything that it wrote and shows. A3, A5, A20 (docs/authentication-rules.md), T24 (docs/security.md).

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use hotdesk::base::secret::Secret;
use hotdesk::store::Store;
use serde_json::Value;

use super::look::{Canaries, is_private};
use super::{machine, people, programs};
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::host::processes;

/// The key in the key file, which is the only secret below the data folder.
const SEALING_KEY: &str = "the key that seals secrets";

/// Files of the operator outside of the data folder.
struct OperatorFiles {
    folder: tempfile::TempDir,
    webhook: String,
}

impl OperatorFiles {
    fn new(secrets: &mut Canaries) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let random = || Secret::random(40).reveal().to_owned();
        let webhook = secrets.record("the secret that signs events", &random());
        let id = secrets.record("the id of S3's key", &random());
        let key = secrets.record("S3's key", &random());
        let operator_files = Self { folder, webhook };
        operator_files.write("webhook", &format!("{}\n", operator_files.webhook));
        operator_files.write("s3", &format!("access_key_id = \"{id}\"\nsecret_access_key = \"{key}\"\n"));
        operator_files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o600)).expect("private");
    }

    /// A configuration that uses all of the files and has the most verbose log.
    fn configuration(&self) -> String {
        format!(
            "log = \"trace\"\n[limits]\nwrong_keys_per_minute = 100000\n[agent_accounts]\nenabled = true\n\
             [billing]\nwebhook_secret_file = {:?}\n[storage]\nurl = \"s3://hotdesk/states\"\n\
             endpoint = \"http://127.0.0.1:1\"\ncredentials_file = {:?}\n",
            self.path("webhook"),
            self.path("s3")
        )
    }
}

/// Later reads of the API show no secret that is shown only once.
async fn check_reads(controller: &RunningController, secrets: &Canaries, workspace: &str) {
    let members = format!("/workspaces/{workspace}/members");
    for path in [
        "/keys",
        "/secrets",
        "/v1/accounts",
        "/stream/connections",
        "/user/profile",
        "/audit?limit=500",
        &members,
    ] {
        let answer = controller.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let shown = secrets.find_in_text(&answer.body.to_string());
        assert!(shown.is_empty(), "{path} shows {shown:?}: {}", answer.body);
    }
}

/// Asserts that the log is at its most verbose level, covers all actions, and contains no secret.
fn check_log(controller: &RunningController, secrets: &Canaries) {
    let log = controller.log();
    for sign in ["DEBUG", "/oauth/token", "a refresh token was used twice", "/claim/{code}", "/cli/auth/poll"]
    {
        assert!(log.contains(sign), "the log must be verbose: no {sign}");
    }
    let shown = log.lines().find_map(|line| Some((secrets.find_in_text(line).first().copied()?, line)));
    assert!(shown.is_none(), "the log contains {shown:?}");
}

/// Asserts that the data folder contains no secret in plain text: those that must be read again are sealed. The search
/// works: it finds the key in its file.
fn check_disk(controller: &RunningController, secrets: &mut Canaries) {
    let data = controller.data_dir();
    assert!(data.join("hotdesk.db-wal").exists(), "the search must cover the store's write-ahead log");
    let key_file = data.join("hotdesk.key");
    assert!(is_private(&key_file, &key_file), "others can read the key that seals secrets");
    let key = std::fs::read_to_string(&key_file).expect("the key file");
    secrets.record(SEALING_KEY, key.trim());
    let found = secrets.find_in_files(&data);
    assert_eq!(found, [(key_file, SEALING_KEY)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_a5_a20_no_secret_is_anywhere_but_where_it_must_be() {
    let mut secrets = Canaries::default();
    let operator_files = OperatorFiles::new(&mut secrets);
    let controller = RunningController::boot_with(&operator_files.configuration()).await;
    let store = Store::open(&controller.data_dir().join("hotdesk.db")).await.expect("the store");
    let signing = store.installation_secret("link_signing_secret", || panic!("the controller made it")).await;
    secrets.record("the secret that signs links", signing.expect("the store").reveal());
    secrets.record("the operator's key", controller.key());
    let workspace = controller.workspace("home").await;

    let person = people::operator(&controller, &mut secrets).await;
    people::sign_in_links(&controller, &mut secrets).await;
    people::guest(&controller, &mut secrets, &workspace).await;
    people::device(&controller, &mut secrets, &person).await;
    people::connection(&controller, &mut secrets, &person, &workspace).await;
    programs::keys(&controller, &mut secrets, &workspace).await;
    let code = programs::agent(&controller, &mut secrets).await;
    people::claim(&person, &code).await;
    programs::event(&controller, &mut secrets, &operator_files.webhook).await;
    programs::connection(&controller, &mut secrets).await;
    programs::vault(&controller, &mut secrets, &workspace).await;
    programs::link(&controller, &mut secrets, &workspace).await;
    let computer = match skip_reason() {
        Some(skip) => {
            skip.report();
            None
        }
        None => Some(machine::use_computer(&controller, &store, &mut secrets, &workspace).await),
    };

    let leaks = programs::misuse(&controller, &secrets).await;
    assert!(leaks.is_empty(), "{leaks:#?}");
    check_reads(&controller, &secrets, &workspace).await;
    for (path, text) in people::pages(&person, &workspace).await {
        let shown = secrets.find_in_text(&text);
        // Every page with a form contains the CSRF token of its session.
        assert!(shown.iter().all(|what| *what == "a form's token"), "{path} shows {shown:?}");
    }
    if let Some(id) = &computer {
        let shown = secrets.find_in_text(&machine::visible_inside(&controller, id).await);
        assert!(shown.is_empty(), "the guest sees {shown:?}");
        assert!(processes(id).len() > 2, "the search covers the computer's processes");
    }
    let (shown, searched) = secrets.find_in_processes();
    assert!(shown.is_empty(), "{shown:#?}");
    assert!(searched > 2 && !environment(controller.pid()).is_empty(), "the search covers the controller");
    check_log(&controller, &secrets);
    check_disk(&controller, &mut secrets);
    // The audit log has the actions nevertheless.
    let audit = controller.get("/audit?limit=500").await.body;
    let routes: Vec<&Value> =
        audit["entries"].as_array().expect("entries").iter().map(|it| &it["route"]).collect();
    assert!(routes.iter().any(|route| **route == "/keys"), "{routes:?}");
}

/// The environment of a process.
fn environment(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/environ")).expect("the process runs")
}
