//! `hotdesk up`: a service that runs, and one that is started.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::signal::Signal;

use super::demo::DetachedService;
use super::person::Shell;
use super::{KEY, one_computer};
use crate::harness::controller::{image, skip_reason};
use crate::harness::host_helper::USER;
use crate::harness::ports::free_port;
use crate::harness::process::gone;
use crate::harness::simulation::Simulation;

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_runs_is_not_started_again() {
    let controller = Simulation::boot().await;
    let shell = Shell::with_key(&controller.base, controller.key());
    let ended = shell.run(&["up", "--print"]).await;
    assert_eq!(ended.err, format!("hotdesk runs at {}.\n", controller.base));
    assert!(ended.expect_success().starts_with(&format!("{}/sign-in/link#token=", controller.base)));
    assert!(!shell.file(".hotdesk").exists(), "no key was made");
}

#[tokio::test]
async fn nothing_is_started_where_another_program_or_another_host_is_meant() {
    let (server, shell) = one_computer().await;
    shell.run(&["up"]).await.expect_failure(1, &["is it another program?", "--url"]);
    assert_eq!(server.lines(), ["GET /api/health"]);
    let elsewhere = Shell::with_key("http://127.0.0.1:1/desk", KEY);
    let ended = elsewhere.run(&["up"]).await;
    ended.expect_failure(1, &["http://127.0.0.1:1/desk/api", "refused", "only on this host"]);
    Shell::new().run(&["up", "--url", "nowhere"]).await.expect_failure(2, &["nowhere"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_started_once_and_again_after_its_end() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let folder = tempfile::tempdir().expect("a folder");
    // The service's user reaches its store.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).expect("a mode");
    let service = DetachedService { data: folder.path().join("data") };
    let url = format!("http://127.0.0.1:{}", free_port());
    // A key of another service in the environment, which the new one does not know.
    let shell = Shell::with_key(&url, KEY).env("HOTDESK_HOST__USER", &USER.to_string());
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (data, image) = (text(&service.data), text(&image()));
    let up = ["up", "--print", "--isolations", "shared", "--data-dir", &data, "--image", &image];
    let first = shell.run(&up).await;
    let told = first.err.clone();
    assert!(told.contains("stored in profile default") && !told.contains("sk_live_"), "{told}");
    let link = first.expect_success();
    assert!(link.starts_with(&format!("{url}/sign-in/link#token=")), "{link}");
    let (controller, helper) = (service.service_pid(), service.helper_pid());
    let (controller, helper) = (controller.expect("a controller"), helper.expect("a helper"));
    assert!(told.contains(&format!("kill {controller} {helper} ")), "{told}");

    let credentials = std::fs::read(shell.file(".hotdesk/credentials.json")).expect("a profile");
    let stored: serde_json::Value = serde_json::from_slice(&credentials).expect("JSON");
    let key = stored["profiles"]["default"]["apiKey"].as_str().expect("a key");
    let log = std::fs::read_to_string(service.data.join("hotdesk.log")).expect("a log");
    assert!(!log.contains(key), "the log must not contain the key");
    for pid in [&controller, &helper] {
        for file in ["cmdline", "environ"] {
            let content = std::fs::read(format!("/proc/{pid}/{file}")).expect("a process");
            let content = String::from_utf8_lossy(&content);
            assert!(!content.contains(key) && !content.contains(KEY), "{file} of {pid} has a key");
        }
    }

    let owner = Shell::with_key(&url, key);
    let again = owner.run(&up).await;
    assert_eq!(again.err, format!("hotdesk runs at {url}.\n"));
    again.expect_success();
    DetachedService::signal(&controller, Signal::SIGTERM);
    assert!(gone(&controller).await);
    let owner = owner.env("HOTDESK_HOST__USER", &USER.to_string());
    let third = owner.run(&up).await;
    assert!(third.err.contains("Starting hotdesk") && !third.err.contains("stored in profile"), "{third:?}");
    third.expect_success();
    assert_eq!(service.helper_pid(), Some(helper), "the helper goes on");
    assert_ne!(service.service_pid(), Some(controller));
}
