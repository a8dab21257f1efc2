//! Does any secret show anywhere? One controller, every kind of secret that there is, each used and misused; then a look
//! at all that it wrote and shows. (access.md A3, A5, A20; threats.md T24)

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hotdesk::base::secret::Secret;
use hotdesk::store::Store;
use serde_json::Value;

use super::look::{Canaries, is_private};
use super::{machine, people, programs};
use crate::harness::controller::{RunningController, no_computers_here};
use crate::harness::host::processes;

/// Where a secret has to be: what it is, the names of the files below the data folder (as they begin), and why. Nobody but the
/// controller's user reaches them.
const KEPT: [(&str, &str, &str); 6] = [
    ("a computer's password", "hotdesk.db", "it is told again whenever its owner asks (GET vnc-password)"),
    (
        "a computer's former password",
        "hotdesk.db",
        "in the answer to a create, which is told again for a day; it opens nothing",
    ),
    (
        "a computer's token",
        "hotdesk.db",
        "a controller that starts again has to reach the agents of computers that run on",
    ),
    (
        "a computer's former token",
        "hotdesk.db",
        "what the database has overwritten lies there until its page is used; it opens nothing",
    ),
    ("a stream's key", "hotdesk.db", "the computer has to send it to the RTMP server"),
    ("what signs links", "hotdesk.db", "links outlive the controller that made them"),
];
/// Of those, what may be gone by the time of the look: it is no longer in use.
const MAYBE_GONE: [&str; 1] = ["a computer's former token"];

/// Files of the operator's, outside of the data folder.
struct Outside {
    folder: tempfile::TempDir,
    webhook: String,
}

impl Outside {
    fn new(secrets: &mut Canaries) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let random = || Secret::random(40).reveal().to_owned();
        let webhook = secrets.keep("what events are signed with", &random());
        let id = secrets.keep("the id of S3's key", &random());
        let key = secrets.keep("S3's key", &random());
        let outside = Self { folder, webhook };
        outside.write("webhook", &format!("{}\n", outside.webhook));
        outside.write("s3", &format!("access_key_id = \"{id}\"\nsecret_access_key = \"{key}\"\n"));
        outside
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("written");
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o600)).expect("private");
    }

    /// The configuration that uses all of it, and logs whatever there is to log.
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

/// Whether a file may hold a secret.
fn may_hold(file: &Path, what: &str) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    KEPT.iter().any(|(kept, begins, _)| *kept == what && name.starts_with(begins))
}

/// What the service tells later on to somebody who may know everything: nothing that was to be shown once.
async fn told_later(house: &RunningController, secrets: &Canaries, workspace: &str) {
    let members = format!("/workspaces/{workspace}/members");
    for path in
        ["/keys", "/v1/accounts", "/stream/connections", "/user/profile", "/audit?limit=500", &members]
    {
        let told = house.get(path).await;
        assert_eq!(told.status, 200, "{path}: {}", told.body);
        let shown = secrets.shown_in(&told.body.to_string());
        assert!(shown.is_empty(), "{path} shows {shown:?}: {}", told.body);
    }
}

/// That the log tells all of this at its loudest, and no secret.
fn look_at_the_log(house: &RunningController, secrets: &Canaries) {
    let log = house.log();
    for sign in ["DEBUG", "/oauth/token", "a refresh token was used twice", "/claim/{code}", "/cli/auth/poll"]
    {
        assert!(log.contains(sign), "the log is at its loudest: no {sign}");
    }
    let shown = log.lines().find_map(|line| Some((secrets.shown_in(line).first().copied()?, line)));
    assert!(shown.is_none(), "the log shows {shown:?}");
}

/// That the data folder holds no more than it must, and that to nobody else.
fn look_at_the_disk(house: &RunningController, secrets: &Canaries) {
    let data = house.data_dir();
    assert!(data.join("hotdesk.db-wal").exists(), "the store's log of changes is looked at too");
    let found = secrets.kept_below(&data);
    let leaks: Vec<_> = found.iter().filter(|(file, what)| !may_hold(file, what)).collect();
    assert!(leaks.is_empty(), "{leaks:?}");
    for (file, what) in &found {
        assert!(is_private(file, &data), "others reach {}, which holds {what}", file.display());
    }
    // The look is a look: it finds what is there.
    for (what, begins, why) in KEPT {
        let exists = secrets.all().any(|(kept, _)| kept == what);
        let there = found.iter().any(|(_, held)| *held == what);
        assert!(there || !exists || MAYBE_GONE.contains(&what), "{what} is not in {begins} ({why})");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_a5_a20_no_secret_is_anywhere_but_where_it_must_be() {
    let mut secrets = Canaries::default();
    let outside = Outside::new(&mut secrets);
    let house = RunningController::boot_with(&outside.configuration()).await;
    let store = Store::open(&house.data_dir().join("hotdesk.db")).await.expect("the store");
    let signing = store.keep("link_signing_secret", String::new).await.expect("the store");
    secrets.keep("what signs links", &signing);
    secrets.keep("the operator's key", house.key());
    let workspace = house.workspace("home").await;

    let person = people::operator(&house, &mut secrets).await;
    people::guest(&house, &mut secrets, &workspace).await;
    people::device(&house, &mut secrets, &person).await;
    people::connection(&house, &mut secrets, &person, &workspace).await;
    programs::keys(&house, &mut secrets, &workspace).await;
    let code = programs::agent(&house, &mut secrets).await;
    people::claim(&person, &code).await;
    programs::event(&house, &mut secrets, &outside.webhook).await;
    programs::connection(&house, &mut secrets).await;
    programs::link(&house, &mut secrets, &workspace).await;
    let computer = match no_computers_here() {
        Some(reason) => {
            println!("without a computer: {reason}");
            None
        }
        None => Some(machine::used(&house, &store, &mut secrets, &workspace).await),
    };

    let echoed = programs::misused(&house, &secrets).await;
    assert!(echoed.is_empty(), "{echoed:#?}");
    told_later(&house, &secrets, &workspace).await;
    for (path, text) in people::pages(&person, &workspace).await {
        let shown = secrets.shown_in(&text);
        // Every page with a form carries its session's token.
        assert!(shown.iter().all(|what| *what == "a form's token"), "{path} shows {shown:?}");
    }
    if let Some(id) = &computer {
        let shown = secrets.shown_in(&machine::seen_inside(&house, id).await);
        assert!(shown.is_empty(), "the guest sees {shown:?}");
        assert!(processes(id).len() > 2, "the computer's processes are among those that are looked at");
    }
    let (shown, looked_at) = secrets.shown_by_processes();
    assert!(shown.is_empty(), "{shown:#?}");
    assert!(looked_at > 2 && !environment(house.pid()).is_empty(), "the controller is one of them");
    look_at_the_log(&house, &secrets);
    look_at_the_disk(&house, &secrets);
    // The audit log told of what happened, all the same.
    let audit = house.get("/audit?limit=500").await.body;
    let routes: Vec<&Value> =
        audit["entries"].as_array().expect("entries").iter().map(|it| &it["route"]).collect();
    assert!(routes.iter().any(|route| **route == "/keys"), "{routes:?}");
}

/// The environment that a process shows.
fn environment(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/environ")).expect("it lives")
}
