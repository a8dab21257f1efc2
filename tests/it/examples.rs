//! Do the README's examples of live channels run as they stand, with a client library that we did not write?

use std::path::Path;
use std::process::{Command, Output};

use crate::clients::python;
use crate::harness::controller::RunningController;

/// The Python program below a heading of the README.
fn example(heading: &str) -> String {
    let readme = include_str!("../../README.md");
    let section = readme.split("\n## ").find(|section| section.starts_with(heading)).expect("the section");
    let lines = section.lines().skip_while(|line| !line.starts_with("    import "));
    let program = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    program.map(|line| format!("{}\n", line.get(4..).unwrap_or_default())).collect()
}

async fn run(python: &Path, folder: &Path, heading: &str, arguments: &[&str]) -> Output {
    let mut client = Command::new(python);
    client.arg("-c").arg(example(heading)).args(arguments).current_dir(folder);
    tokio::task::spawn_blocking(move || client.output()).await.expect("run").expect("it starts")
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_heard_as_the_readme_says() {
    let Some(python) = python() else { return println!("skipped: no Python environment (make deps-test)") };
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let got = house.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password");
    let url = format!("ws://{}/desktops/{id}/ws/events?token={password}", house.address());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arguments = [url.as_str()];
    let client = run(&python, folder.path(), "Events", &arguments);
    // It ends with the first event; nobody is told when it has subscribed.
    let causes = async {
        for number in 0.. {
            house.bash(&id, &format!("touch ~/Desktop/file-{number}; sleep 0.2")).await;
        }
    };
    let ran = tokio::select! {
        ran = client => ran,
        () = causes => unreachable!("causes do not end"),
    };
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{complained}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, r#"{"type":"subscribed","message":"ok"}"#), "{said}");
    assert!(lines[1].starts_with(r#"{"type":"event","event":{"timestamp":""#), "{said}");
    assert!(lines[1].contains("/Desktop/file-"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_and_the_sound_are_reached_as_the_readme_says() {
    let Some(python) = python() else { return println!("skipped: no Python environment (make deps-test)") };
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let got = house.get(&format!("/computers/{id}/vnc-password")).await;
    let password = got.body["password"].as_str().expect("a password").to_owned();
    let url = |channel| format!("ws://{}/desktops/{id}/ws/{channel}?token={password}", house.address());
    let folder = tempfile::tempdir().expect("a temporary folder");

    let ran = run(&python, folder.path(), "Terminal", &[&url("terminal")]).await;
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{complained}");
    assert!(said.contains("Grüße aus /root/Desktop\r\n"), "{said}");
    assert!(said.ends_with("{'type': 'exit', 'code': 7}"), "{said}");

    let ran = run(&python, folder.path(), "Audio", &[&url("audio")]).await;
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{complained}");
    assert!(said.contains(r#"{"type":"started","sample_rate":24000,"channels":1}"#), "{said}");
    let heard = std::fs::metadata(folder.path().join("heard.wav")).expect("it was written").len();
    assert_eq!(heard, 44 + 5 * 24_000 * 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screen_is_reached_by_a_ticket_as_the_readme_says() {
    let Some(python) = python() else { return println!("skipped: no Python environment (make deps-test)") };
    let Some((house, _, id)) = RunningController::with_a_computer().await else { return };
    let computer = format!("{}/api/computers/{id}", house.base());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = run(&python, folder.path(), "VNC and the viewer", &[&computer, house.key()]).await;
    let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{complained}");
    assert!(said.contains("/view?screen=default#ticket="), "{said}");
    // 1280 by 720 pixels, and the name at the end.
    assert!(said.contains(r"b'\x05\x00\x02\xd0") && said.ends_with("hotdesk'\n"), "{said}");
}
