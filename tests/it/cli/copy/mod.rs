//! `hotdesk cp` on a real computer: files of any size, folders, streams, and connections that break.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::person::Shell;
use crate::harness::controller::RunningController;
use relay::{Fault, Relay, kill_at, run_at};

mod folders;
pub(super) mod relay;

const MIB: u64 = 1024 * 1024;
/// Size of a copy that is interrupted.
const SIZE: u64 = 48 * MIB;

fn noise(file: &std::path::Path) -> Vec<u8> {
    let mut content = vec![0; SIZE as usize];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").expect("a device"), &mut content)
        .expect("noise");
    std::fs::write(file, &content).expect("a file");
    content
}

#[tokio::test(flavor = "multi_thread")]
async fn files_folders_and_streams_are_copied_to_any_path_and_back() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let write = |name: &str, text: &str| std::fs::write(shell.file(name), text).expect("a file");
    write("ä b.txt", "Grüße");
    write("run", "#!/bin/sh\necho ran\n");
    std::fs::set_permissions(shell.file("run"), PermissionsExt::from_mode(0o755)).expect("a file");
    std::fs::create_dir_all(shell.file("tree/in/empty")).expect("a folder");
    write("tree/in/c", "c");
    symlink("in/c", shell.file("tree/link")).expect("a link");

    let out = shell.run(&["cp", "ä b.txt", "one:"]).await.expect_success();
    assert_eq!(out, "one:/root/Desktop/ä b.txt\n");
    let out = shell.run(&["cp", "ä b.txt", "run", "one:/opt"]).await.expect_success();
    assert_eq!(out, "one:/opt/ä b.txt\none:/opt/run\n");
    assert_eq!(shell.run(&["bash", "one", "/opt/run"]).await.expect_success(), "ran\n");
    assert_eq!(shell.run(&["cp", "run", "one:new.sh"]).await.expect_success(), "one:/root/new.sh\n");
    for target in ["one:", "one:Desktop", "one:/opt/run"] {
        shell.run(&["cp", "-n", "ä b.txt", target]).await.expect_failure(1, &["already_exists"]);
    }
    write("ä b.txt", "second");
    shell.run(&["cp", "ä b.txt", "one:Desktop/"]).await.expect_success();
    shell.run(&["cp", "one:Desktop/ä b.txt", "one:/opt/run", "."]).await.expect_success();
    assert_eq!(std::fs::read_to_string(shell.file("ä b.txt")).expect("copied"), "second");
    assert_eq!(std::fs::metadata(shell.file("run")).expect("copied").permissions().mode() & 0o111, 0o111);
    shell.run(&["cp", "-n", "one:/opt/run", "run"]).await.expect_failure(1, &["not replaced"]);
    shell.run(&["cp", "run", "one:/nowhere/run"]).await.expect_failure(1, &["request"]);
    shell.run(&["cp", "one:/nowhere", "x"]).await.expect_failure(1, &["request"]);
    shell.run(&["cp", "run", "run", "one:new.sh"]).await.expect_failure(2, &["not a folder"]);
    shell.run(&["cp", "-", "one:Desktop"]).await.expect_failure(2, &["no name"]);

    let out = shell.run(&["cp", "tree", "one:/srv"]).await.expect_success();
    assert_eq!(out, "one:/srv/tree\n");
    shell.run(&["cp", "-r", "tree", "one:/srv/copy"]).await.expect_success();
    shell.run(&["cp", "-r", "one:/srv/copy", "back"]).await.expect_success();
    shell.run(&["cp", "one:/srv/tree", "back"]).await.expect_success();
    for copy in ["back", "back/tree"] {
        assert!(shell.file(copy).join("in/empty").is_dir());
        assert_eq!(std::fs::read_to_string(shell.file(copy).join("link")).expect("a link"), "c");
        assert!(shell.file(copy).join("link").is_symlink());
    }
    shell.run(&["cp", "-n", "one:/srv/copy", "."]).await.expect_success();
    shell.run(&["cp", "-n", "one:/srv/copy", "."]).await.expect_failure(1, &["already"]);

    let ended = shell.run_with_input(&["cp", "-", "one:/tmp/input"], "from a pipe").await;
    assert_eq!(ended.expect_success(), "one:/tmp/input\n");
    assert_eq!(shell.run(&["cp", "one:/tmp/input", "-"]).await.expect_success(), "from a pipe");
    shell.run(&["cp", "one:/tmp/input", "/dev/null"]).await.expect_success();
    assert!(!std::fs::metadata("/dev/null").expect("a device").is_file());
    assert_eq!(shell.run(&["cp", "one:/etc/hostname", "-", "--json"]).await.code, 0);
    let stored = shell.run(&["cp", "run", "one:/tmp/run", "--json"]).await.json();
    assert_eq!((&stored["path"], &stored["outcome"]), (&"/tmp/run".into(), &"created".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_continues_after_its_connection_broke() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let content = noise(&shell.file("sent"));
    for arguments in [["cp", "sent", "one:/tmp/there"], ["cp", "one:/tmp/there", "back"]] {
        let relay = Relay::start(controller.base(), Some((Fault::Cut, SIZE / 2))).await;
        let ended = run_at(&relay.url, &shell, &arguments).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        // What was under way when the connection broke is sent again.
        assert!(relay.carried() < SIZE + SIZE / 3, "{} bytes for {SIZE}", relay.carried());
    }
    assert!(std::fs::read(shell.file("back")).expect("copied") == content);
    assert!(std::fs::read_dir(shell.file(".hotdesk/uploads")).expect("a folder").next().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_command_continues_a_copy_that_was_killed() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let content = noise(&shell.file("sent"));
    for arguments in [["cp", "sent", "one:/tmp/there"], ["cp", "one:/tmp/there", "back"]] {
        kill_at(&controller, &shell, &arguments, SIZE / 2).await;
        let relay = Relay::start(controller.base(), None).await;
        let ended = run_at(&relay.url, &shell, &arguments).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(relay.carried() < SIZE * 7 / 8, "{} bytes of {SIZE}", relay.carried());
    }
    assert!(std::fs::read(shell.file("back")).expect("copied") == content);
    let names: Vec<_> = std::fs::read_dir(shell.home())
        .expect("a folder")
        .map(|it| it.expect("an entry").file_name())
        .collect();
    assert_eq!(names.len(), 3, "no part may stay: {names:?}");
}
