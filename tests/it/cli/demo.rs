//! Does the demo show a working computer, and may it be run again?

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hotdesk::base::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::person::Person;
use crate::harness::controller::{image, no_computers_here, purge};
use crate::harness::process::{alive, gone};

/// How long the service may take to end: it waits for what it was asked.
const END_TIMEOUT: Duration = Duration::from_secs(25);

/// The service that the demo leaves behind; dropped, it ends with its computers.
struct Left {
    data: PathBuf,
}

impl Left {
    /// The process that serves the data folder; a number in a lock file may be somebody else's by now.
    fn service(&self) -> Option<String> {
        let pid = std::fs::read_to_string(self.data.join("lock")).ok()?.trim().to_owned();
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        String::from_utf8_lossy(&arguments).contains(self.data.to_str()?).then_some(pid)
    }

    fn end(&self) {
        let pid = self.service().and_then(|pid| pid.parse().ok());
        if let Some(pid) = pid.map(Pid::from_raw)
            && let Err(error) = kill(pid, Signal::SIGTERM)
        {
            eprintln!("the service {pid} could not be ended: {error}");
        }
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let service = self.service();
        self.end();
        // It holds the folder until it has ended.
        let until = Instant::now() + END_TIMEOUT;
        while service.as_ref().is_some_and(|pid| alive(pid)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        purge(&self.data);
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

#[tokio::test]
async fn the_demo_types_reads_back_and_runs_again() {
    if let Some(why) = no_computers_here() {
        return println!("{why}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(image(), folder.path().join("full")).expect("a link to the image");
    let left = Left { data: folder.path().join("data") };
    let at = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let person = Person::new()
        .with("HOTDESK_DATA_DIR", &at(&left.data))
        .with("HOTDESK_LISTEN", &format!("127.0.0.1:{}", free_port()))
        .with("HOTDESK_IMAGE_DIR", &at(folder.path()))
        .with("TMPDIR", &at(folder.path()));
    let demo = format!("{}/packaging/demo/run hotdesk", env!("CARGO_MANIFEST_DIR"));
    let first = person.runs_in_bash(&demo).await;
    let said = first.err.clone();
    let first = first.well();
    assert!(said.contains("Made workspace demo") && said.contains("first-light is running"), "{said}");
    let shot = std::fs::read(folder.path().join("hotdesk-first-light.png")).expect("a screenshot");
    assert!(shot.len() > 1000, "{} bytes", shot.len());
    let key = first.lines().find_map(|line| line.strip_prefix("key ")).expect("the key is shown").trim();
    assert!(key.starts_with("sk_live_") && !said.contains(key));
    let log = std::fs::read_to_string(left.data.join("hotdesk.log")).expect("a log");
    assert!(!log.contains(key), "the key is not in the log");
    let arguments = std::fs::read(format!("/proc/{}/cmdline", left.service().expect("it runs")));
    assert!(!String::from_utf8_lossy(&arguments.expect("its arguments")).contains(key));

    let again = person.runs_in_bash(&demo).await;
    assert!(again.err.contains("hotdesk runs at") && !again.err.contains("Made"), "{}", again.err);
    assert!(again.well().contains(key), "the same key");

    let service = left.service().expect("it runs");
    left.end();
    assert!(
        wait::until(Duration::from_secs(20), || async { gone(&service).await.then_some(()) }).await.is_some()
    );
    let third = person.runs_in_bash(&demo).await;
    assert!(third.err.contains("starting hotdesk") && !third.err.contains("Made"), "{}", third.err);
    third.well();
    std::fs::remove_dir_all(person.file(".hotdesk")).expect("the profile goes");
    person.runs_in_bash(&demo).await.badly(1, &["is shown once"]);
}
