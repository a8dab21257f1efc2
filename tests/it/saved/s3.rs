//! Copies on a real S3 server, and the secrecy of its credentials.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::controller::config::StorageSettings;
use serde_json::json;

use super::TIMEOUT;
use crate::clients::python;
use crate::harness::capability::Capability;
use crate::harness::process::{OwnedChild, end};
use crate::harness::simulation::Setup;
use crate::suspension::{Scene, assert_refused};

/// Longest start of the server: Python and its packages, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A server with a bucket, and its origin. Without the package, prints the reason and returns `None`.
async fn server() -> Option<(OwnedChild, String)> {
    let python = python()?;
    let installed = Command::new(&python).args(["-c", "import moto.server"]).stderr(Stdio::null()).status();
    if !installed.is_ok_and(|status| status.success()) {
        Capability::S3.skip("no S3 server (make deps-test)");
        return None;
    }
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/s3_server.py")).arg("hotdesk");
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let find = |line: &str| line.starts_with("http://").then(|| line.to_owned());
    Some(OwnedChild::spawn_until_ready(&mut command, START_TIMEOUT, find).await)
}

/// The names of the bucket's objects.
async fn keys(origin: &str) -> Vec<String> {
    let listed = reqwest::get(format!("{origin}/hotdesk?list-type=2")).await.expect("an answer");
    let text = listed.text().await.expect("a text");
    let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
    keys.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_goes_to_s3_and_comes_back() {
    let Some((mut server, origin)) = server().await else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let credentials = folder.path().join("credentials");
    std::fs::write(&credentials, "access_key_id = \"an-id\"\nsecret_access_key = \"hunter2\"\n")
        .expect("written");
    std::fs::set_permissions(&credentials, std::fs::Permissions::from_mode(0o600)).expect("private");
    let storage = StorageSettings {
        url: "s3://hotdesk/some/prefix".to_owned(),
        endpoint: origin.clone(),
        region: "eu-central-1".to_owned(),
        credentials_file: credentials,
        local_quota_mb: Some(0),
        ..StorageSettings::default()
    };
    let mut scene = Scene::boot_with(Setup { storage, ..Setup::default() }).await;
    let mut note = vec![0_u8; 6 << 20];
    rand::fill(&mut note[..]);
    std::fs::write(scene.controller.disk(&scene.id).join("note"), &note).expect("a file");
    assert_eq!(scene.count().await, 1);
    scene.controller.until_status(&scene.id, "running").await;
    let suspended = scene.ask("suspend").await;
    assert_eq!(suspended.status, 200, "{}", suspended.body);
    // The copy may be complete already; otherwise the response has this form.
    if let Some(storage) = suspended.body.get("storage") {
        assert_eq!(storage, &json!({"state": "saving", "region": "eu-central-1"}));
    }
    let disk = scene.controller.disk(&scene.id);
    let evicted = wait::until(TIMEOUT, || async { (!disk.exists()).then_some(()) });
    assert!(evicted.await.is_some(), "{:?}", keys(&origin).await);
    let found = keys(&origin).await;
    assert!(found.len() >= 4 && found.iter().all(|key| key.starts_with("some/prefix/")), "{found:?}");
    assert!(found.iter().all(|key| key.contains(&format!("/{}/1-", scene.id))), "{found:?}");

    scene.controller.restart().await;
    let woken = scene.ask("resume").await;
    assert_eq!((woken.status, &woken.body["waking"]), (202, &json!(true)), "{}", woken.body);
    assert_eq!(scene.count().await, 2);
    assert!(std::fs::read(disk.join("note")).expect("a file") == note);
    let gone = wait::until(TIMEOUT, || async { keys(&origin).await.is_empty().then_some(()) });
    assert!(gone.await.is_some(), "{:?}", keys(&origin).await);

    // Without its store, the computer stays suspended. Only the log has the reason.
    let again = wait::until(TIMEOUT, || async { (scene.ask("suspend").await.status == 200).then_some(()) });
    assert!(again.await.is_some(), "suspended again");
    let evicted = wait::until(TIMEOUT, || async { (!disk.exists()).then_some(()) });
    assert!(evicted.await.is_some(), "evicted again");
    end(&mut server.0);
    let answer = scene.ask("resume").await;
    assert_refused(&answer, 503, Some("wake_failed"), "Computer could not be woken");
    assert!(!answer.body.to_string().contains("hunter2"));
    scene.assert_status("suspended").await;
}
