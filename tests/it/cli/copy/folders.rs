//! Copies of folders that are interrupted and continue.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::relay::{Fault, Relay, kill_at, run_at};
use crate::cli::person::Shell;
use crate::harness::controller::RunningController;

const KIB: usize = 1024;
const MIB: u64 = 1024 * 1024;
/// Nearly the size of [`make_tree`]: batches of small files, and a large file that is a part of its own.
const SIZE: u64 = 64 * MIB;

/// Sets the time of modification in Unix seconds.
fn set_modified(path: &Path, seconds: u64) {
    let file = fs::File::options().append(true).open(path).expect("a file");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
}

/// A folder with a large file, 300 small ones, links, empty folders and unusual names.
fn make_tree(root: &Path) {
    let noise = |path: &Path, length: usize| {
        let mut content = vec![0; length];
        let mut random = fs::File::open("/dev/urandom").expect("a device");
        std::io::Read::read_exact(&mut random, &mut content).expect("noise");
        fs::write(path, content).expect("a file");
        set_modified(path, 1_000_000_000);
    };
    fs::create_dir_all(root.join("empty/inside")).expect("a folder");
    fs::create_dir(root.join("a")).expect("a folder");
    noise(&root.join("a/large"), 24 * KIB * KIB);
    fs::set_permissions(root.join("a/large"), fs::Permissions::from_mode(0o750)).expect("a file");
    for folder in ["ä b", "deep/er", "z\\"] {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        for number in 0..100 {
            noise(&folder.join(format!("名前 {number}")), 136 * KIB);
        }
        symlink("名前 1", folder.join("link")).expect("a link");
    }
    fs::set_permissions(root.join("deep"), fs::Permissions::from_mode(0o700)).expect("a folder");
    symlink("/nowhere", root.join("dangling")).expect("a link");
}

/// Entries of a folder: kind and permissions, time of modification of a file, and the content or the link's target.
fn entries(root: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let metadata = fs::symlink_metadata(&path).expect("an entry");
            let content = if metadata.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if metadata.is_symlink() {
                fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).expect("a file")
            };
            let inside = path.strip_prefix(root).expect("inside").to_owned();
            let modified = if metadata.is_file() { metadata.mtime() } else { 0 };
            found.insert(inside, (metadata.permissions().mode(), modified, content));
        }
    }
    found
}

#[track_caller]
fn assert_same(copy: &Path, original: &Path) {
    let (copy, original) = (entries(copy), entries(original));
    let names = |of: &BTreeMap<PathBuf, _>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&copy), names(&original));
    for (path, entry) in &original {
        assert!(
            &copy[path] == entry,
            "{} is not the same: {:o}, {}",
            path.display(),
            copy[path].0,
            copy[path].1
        );
    }
}

/// Names in a folder of the computer, hidden ones too.
async fn listed(shell: &Shell, folder: &str) -> String {
    shell.run(&["bash", "one", &format!("ls -A {folder}")]).await.expect_success()
}

#[track_caller]
fn assert_no_leftovers(shell: &Shell, expected: &[&str]) {
    let mut names: Vec<String> = fs::read_dir(shell.home())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    assert_eq!(names, expected);
    let records = fs::read_dir(shell.file(".hotdesk/uploads")).expect("a folder").count();
    assert_eq!(records, 0, "no record may stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_folder_continues_after_its_connection_broke() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    make_tree(&shell.file("tree"));
    for arguments in [["cp", "tree", "one:/srv/there"], ["cp", "one:/srv/there", "back"]] {
        let relay = Relay::start(controller.base(), Some((Fault::Cut, SIZE * 5 / 8))).await;
        let ended = run_at(&relay.url, &shell, &arguments).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        // What did not arrive as a whole is sent again: here a half of a batch.
        assert!(relay.carried() < SIZE + SIZE / 4, "{} bytes for {SIZE}", relay.carried());
    }
    assert_same(&shell.file("back"), &shell.file("tree"));
    assert_eq!(listed(&shell, "/srv").await, "there\n");
    assert_no_leftovers(&shell, &[".hotdesk", "back", "tree"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_command_continues_a_copy_of_a_folder_that_was_killed() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    make_tree(&shell.file("tree"));
    for arguments in [["cp", "-n", "tree", "one:/srv/there"], ["cp", "-n", "one:/srv/there", "back"]] {
        kill_at(&controller, &shell, &arguments, SIZE * 3 / 4).await;
        assert!(!shell.file("back").exists());
        let relay = Relay::start(controller.base(), None).await;
        let ended = run_at(&relay.url, &shell, &arguments).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(relay.carried() < SIZE / 2, "{} bytes of {SIZE}", relay.carried());
    }
    assert_same(&shell.file("back"), &shell.file("tree"));
    assert_eq!(listed(&shell, "/srv").await, "there\n");
    assert_no_leftovers(&shell, &[".hotdesk", "back", "tree"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_continued_download_of_a_folder_misses_no_change() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    make_tree(&shell.file("tree"));
    shell.run(&["cp", "tree", "one:/srv"]).await.expect_success();
    let download = ["cp", "one:/srv/tree", "back"];
    // The first file has not arrived when the command is killed, the second one has.
    for (changed, fewest, most) in [("ä b/名前 5", 0, SIZE / 2), ("deep/er/名前 5", SIZE * 7 / 8, 2 * SIZE)]
    {
        kill_at(&controller, &shell, &download, SIZE * 3 / 4).await;
        let original = shell.file("tree").join(changed);
        fs::write(&original, "new").expect("a file");
        set_modified(&original, 1_100_000_000);
        let change =
            format!("printf new > '/srv/tree/{changed}'; touch -d @1100000000 '/srv/tree/{changed}'");
        shell.run(&["bash", "one", &change]).await.expect_success();
        let relay = Relay::start(controller.base(), None).await;
        let ended = run_at(&relay.url, &shell, &download).await;
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!((fewest..most).contains(&relay.carried()), "{changed}: {} bytes", relay.carried());
        assert_same(&shell.file("back"), &shell.file("tree"));
        assert_no_leftovers(&shell, &[".hotdesk", "back", "tree"]);
        fs::remove_dir_all(shell.file("back")).expect("a folder");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_continued_upload_of_a_folder_misses_no_change() {
    let Some((controller, _, _)) = RunningController::with_a_computer().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    make_tree(&shell.file("tree"));
    let upload = ["cp", "tree", "one:/srv"];
    // Of a copy that did not end, nothing has its name.
    kill_at(&controller, &shell, &upload, SIZE / 2).await;
    assert!(!listed(&shell, "/srv").await.contains("tree\n"));
    // What the computer lost is sent again.
    let lose = "until rm -r /srv/.*.hotdesk-part; do sleep 0.1; done";
    shell.run(&["bash", "one", lose]).await.expect_success();
    shell.run(&upload).await.expect_success();
    let count = shell.run(&["bash", "one", "find /srv/tree | wc -l; rm -r /srv/tree"]).await.expect_success();
    assert_eq!(count.trim(), (entries(&shell.file("tree")).len() + 1).to_string());

    // So is what has changed.
    kill_at(&controller, &shell, &upload, SIZE / 2).await;
    fs::remove_file(shell.file("tree/ä b/名前 3")).expect("a file");
    fs::write(shell.file("tree/ä b/名前 5"), "new").expect("a file");
    let copied = shell.run(&upload).await.expect_success();
    assert_eq!(copied, "one:/srv/tree\n");
    shell.run(&["cp", "one:/srv/tree", "back"]).await.expect_success();
    assert_same(&shell.file("back"), &shell.file("tree"));

    // Into the existing folder it is merged, also when the connection breaks; without replacing, nothing is changed.
    let marks = "cd /srv/tree && echo mine > mine && echo old > 'ä b/名前 5'";
    shell.run(&["bash", "one", marks]).await.expect_success();
    shell.run(&["cp", "-n", "tree", "one:/srv"]).await.expect_failure(1, &["already_exists"]);
    let read = ["bash", "one", "cat /srv/tree/mine '/srv/tree/ä b/名前 5'"];
    assert_eq!(shell.run(&read).await.expect_success(), "mine\nold\n");
    let relay = Relay::start(controller.base(), Some((Fault::Cut, SIZE / 2))).await;
    let merged = run_at(&relay.url, &shell, &["cp", "--json", "tree", "one:/srv"]).await.json();
    assert_eq!((&merged["path"], &merged["files"]), (&"/srv/tree".into(), &300.into()));
    assert_eq!(shell.run(&read).await.expect_success(), "mine\nnew");
    shell.run(&["cp", "tree", "one:/nowhere/tree"]).await.expect_failure(1, &["/nowhere", "no such file"]);
    assert_eq!(listed(&shell, "/srv").await, "tree\n");
    assert_no_leftovers(&shell, &[".hotdesk", "back", "tree"]);
}
