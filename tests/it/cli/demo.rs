//! The demo: a working computer, and a second run over its data.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use serde_json::json;

use super::person::Shell;
use crate::harness::controller::{image, purge, skip_reason};
use crate::harness::host_helper::USER;
use crate::harness::ports::free_port;
use crate::harness::process::{alive, gone};
use crate::vnc::puppet::PythonDriver;

/// Longest time for the service to end, including the requests that it still serves.
const END_TIMEOUT: Duration = Duration::from_secs(25);

/// The service that the demo leaves running. Dropping it ends the service and its computers.
pub(super) struct DetachedService {
    pub(super) data: PathBuf,
}

impl DetachedService {
    /// Pid of the process that serves the data folder.
    pub(super) fn service_pid(&self) -> Option<String> {
        self.holder("store/lock")
    }

    /// Pid of the process that makes the computers.
    pub(super) fn helper_pid(&self) -> Option<String> {
        self.holder("host.lock")
    }

    /// The process that holds a lock; the pid in a stale lock file may belong to another one.
    fn holder(&self, lock: &str) -> Option<String> {
        let pid = std::fs::read_to_string(self.data.join(lock)).ok()?.trim().to_owned();
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        String::from_utf8_lossy(&arguments).contains(self.data.to_str()?).then_some(pid)
    }

    pub(super) fn signal(pid: &str, signal: Signal) {
        if let Err(error) = kill(Pid::from_raw(pid.parse().expect("a pid")), signal) {
            eprintln!("the process {pid} could not be ended: {error}");
        }
    }
}

impl Drop for DetachedService {
    fn drop(&mut self) {
        // Each uses the folder until it has ended; the service needs the helper to end.
        for pid in [self.service_pid(), self.helper_pid()].into_iter().flatten() {
            Self::signal(&pid, Signal::SIGTERM);
            let until = Instant::now() + END_TIMEOUT;
            while alive(&pid) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        purge(&self.data);
    }
}

/// Opens the link that ends the demo's output: the console appears without a password, with a live picture of
/// the computer. The link works once.
fn check_link(output: &str) {
    let Some(mut browser) = PythonDriver::chromium() else { return };
    let link = output.lines().last().expect("a link");
    browser.run("open", json!({"url": link}));
    let shown = "(card => (card?.querySelector('img')?.naturalWidth ?? 0) > 0)\
        ([...document.querySelectorAll('main li')].find(it => it.textContent.includes('first-light')))";
    browser.run("wait", json!({"script": shown, "seconds": 60}));
    let address = browser.run("look", json!({"script": "location.href"}));
    assert!(address.as_str().is_some_and(|it| it.ends_with("/console")), "{address}");
    browser.run("open", json!({"url": link}));
    let refused = "document.body.innerText.includes('This link was used or has expired')";
    browser.run("wait", json!({"script": refused}));
    // The sign-in remains.
    let (service, _) = link.split_once("/sign-in/").expect("a link");
    browser.run("open", json!({"url": format!("{service}/settings")}));
    browser.run(
        "wait",
        json!({"script": "document.body.innerText.includes('Signed in as operator@localhost')"}),
    );
    assert_eq!(browser.run("complaints", json!({})), json!([]), "violations of the content security policy");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_types_reads_back_and_runs_again() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let folder = tempfile::tempdir().expect("a folder");
    // The service's user reaches its store.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).expect("a mode");
    std::os::unix::fs::symlink(image(), folder.path().join("full")).expect("a link to the image");
    let service = DetachedService { data: folder.path().join("data") };
    let path_text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let shell = Shell::new()
        .env("HOTDESK_DATA_DIR", &path_text(&service.data))
        .env("HOTDESK_LISTEN", &format!("127.0.0.1:{}", free_port()))
        .env("HOTDESK_IMAGE_DIR", &path_text(folder.path()))
        .env("TMPDIR", &path_text(folder.path()))
        .env("HOTDESK_HOST__USER", &USER.to_string());
    let demo = format!("{}/packaging/demo/run hotdesk", env!("CARGO_MANIFEST_DIR"));
    let first = shell.run_in_bash(&demo).await;
    let messages = first.err.clone();
    let first = first.expect_success();
    assert!(
        messages.contains("Created workspace demo") && messages.contains("first-light is running"),
        "{messages}"
    );
    check_link(&first);
    let shot = std::fs::read(folder.path().join("hotdesk-first-light.png")).expect("a screenshot");
    assert!(shot.len() > 1000, "{} bytes", shot.len());
    let key = first.lines().find_map(|line| line.strip_prefix("key ")).expect("the key is shown").trim();
    assert!(key.starts_with("sk_live_") && !messages.contains(key));
    let log = std::fs::read_to_string(service.data.join("hotdesk.log")).expect("a log");
    assert!(!log.contains(key), "the log must not contain the key");
    let service_pid = service.service_pid().expect("the service runs");
    let helper_pid = service.helper_pid().expect("the helper runs");
    let user_of = |pid: &str| std::fs::metadata(format!("/proc/{pid}")).expect("a process").uid();
    assert_eq!([user_of(&service_pid), user_of(&helper_pid)], [USER, 0]);
    let arguments = std::fs::read(format!("/proc/{service_pid}/cmdline")).expect("the arguments");
    assert!(!String::from_utf8_lossy(&arguments).contains(key));
    let stop = first.lines().find(|line| line.starts_with("stop ")).expect("the command that stops it");
    assert!(stop.contains(&format!("{service_pid} ")) && stop.contains(&format!("{helper_pid} ")), "{stop}");

    // A further run replaces a helper that has died, and uses the service that runs.
    DetachedService::signal(&helper_pid, Signal::SIGKILL);
    assert!(gone(&helper_pid).await);
    let again = shell.run_in_bash(&demo).await;
    assert!(
        again.err.contains("hotdesk runs at") && again.err.contains("Starting its helper"),
        "{}",
        again.err
    );
    assert!(!again.err.contains("Created"), "{}", again.err);
    assert!(service.helper_pid().is_some_and(|pid| pid != helper_pid), "another helper runs");
    assert!(again.expect_success().contains(key), "the second run must print the same key");
    assert_eq!(service.service_pid().as_ref(), Some(&service_pid));

    DetachedService::signal(&service_pid, Signal::SIGTERM);
    assert!(gone(&service_pid).await);
    let third = shell.run_in_bash(&demo).await;
    assert!(third.err.contains("Starting hotdesk") && !third.err.contains("Created"), "{}", third.err);
    third.expect_success();
    std::fs::remove_dir_all(shell.file(".hotdesk")).expect("the profile is removed");
    shell.run_in_bash(&demo).await.expect_failure(1, &["is shown once"]);
}
