//! File events: one per change below the desktop and download folders, with the documented path.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hotdesk::base::time::UnixMillis;
use hotdesk::domain::desktop::event::EventKind;
use serde_json::{Value, json};

use super::watch::WatchListener;
use crate::display::fixture::TIMEOUT;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        for name in ["Desktop", "Downloads", "elsewhere"] {
            fs::create_dir(home.path().join(name)).expect("a folder");
        }
        Self(home)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    async fn listen(&self) -> WatchListener {
        WatchListener::start(None, self.0.path(), &[EventKind::FileChange, EventKind::DownloadFinished]).await
    }

    fn file_event(&self, action: &str, path: &str) -> Value {
        json!({"path": format!("/home/user/{path}"), "action": action, "real_path": self.path(path)})
    }

    async fn expect(&self, listener: &WatchListener, action: &str, path: &str) {
        listener.expect("file_change", self.file_event(action, path)).await;
    }
}

#[tokio::test]
async fn files_that_are_made_written_and_removed_are_told_once() {
    let home = Home::new();
    fs::write(home.path("Desktop/old"), "1").expect("a file");
    let listener = home.listen().await;
    File::create(home.path("Desktop/new")).expect("a file");
    home.expect(&listener, "created", "Desktop/new").await;
    for at in ["Desktop/old", "Desktop/new"] {
        let mut file = File::options().append(true).open(home.path(at)).expect("a file");
        for _ in 0..100 {
            file.write_all(b"piece").expect("written");
        }
        drop(file);
        home.expect(&listener, "modified", at).await;
    }
    // Opening, reading and changing permissions are not changes.
    fs::read(home.path("Desktop/old")).expect("read");
    fs::set_permissions(home.path("Desktop/old"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("permissions");
    fs::remove_file(home.path("Desktop/old")).expect("removed");
    home.expect(&listener, "deleted", "Desktop/old").await;
    fs::create_dir(home.path("Downloads/folder")).expect("a folder");
    home.expect(&listener, "created", "Downloads/folder").await;
    fs::write(home.path("Downloads/folder/inside"), "not in the folder itself").expect("a file");
    fs::write(home.path("elsewhere/x"), "elsewhere").expect("a file");
    listener.expect_none().await;
    listener.end().await;
}

#[tokio::test]
async fn a_file_that_stays_open_is_told_every_second_and_at_its_end() {
    let home = Home::new();
    let listener = home.listen().await;
    let mut file = File::create(home.path("Downloads/log")).expect("a file");
    home.expect(&listener, "created", "Downloads/log").await;
    let began = Instant::now();
    let mut times = Vec::new();
    while times.len() < 2 {
        assert!(began.elapsed() < TIMEOUT, "reported {} times", times.len());
        file.write_all(b"line\n").expect("written");
        let event = tokio::time::timeout(Duration::from_millis(10), listener.message()).await;
        if let Ok(event) = event {
            let event = &event["event"];
            assert_eq!(
                (&event["type"], &event["data"]),
                (&json!("file_change"), &home.file_event("modified", "Downloads/log"))
            );
            times.push(event["timestamp"].as_str().and_then(UnixMillis::parse_iso8601).expect("a time"));
        }
    }
    assert!(times[1].since(times[0]) >= Some(Duration::from_millis(990)), "reported at {times:?}");
    // Writes since then are reported a second later.
    while tokio::time::timeout(Duration::from_secs(3), listener.next()).await.is_ok() {}
    file.write_all(b"end").expect("written");
    drop(file);
    home.expect(&listener, "modified", "Downloads/log").await;
    listener.expect_none().await;
    listener.end().await;
}

#[tokio::test]
async fn moves_in_out_within_and_over_are_told_by_what_became_true() {
    let home = Home::new();
    fs::write(home.path("elsewhere/a"), "a").expect("a file");
    let listener = home.listen().await;
    let rename = |from: &str, to: &str| fs::rename(home.path(from), home.path(to)).expect("moved");
    rename("elsewhere/a", "Desktop/a");
    home.expect(&listener, "created", "Desktop/a").await;
    rename("Desktop/a", "Desktop/b");
    home.expect(&listener, "deleted", "Desktop/a").await;
    home.expect(&listener, "created", "Desktop/b").await;
    rename("Desktop/b", "Downloads/b");
    home.expect(&listener, "deleted", "Desktop/b").await;
    home.expect(&listener, "created", "Downloads/b").await;
    fs::write(home.path("elsewhere/b"), "another b").expect("a file");
    rename("elsewhere/b", "Downloads/b");
    home.expect(&listener, "modified", "Downloads/b").await;
    rename("Downloads/b", "elsewhere/b");
    home.expect(&listener, "deleted", "Downloads/b").await;
    // The file routes write under a temporary name and rename the file.
    File::create(home.path("Desktop/.hotdesk-upload-1")).expect("a file").write_all(b"1").expect("written");
    rename("Desktop/.hotdesk-upload-1", "Desktop/whole");
    home.expect(&listener, "created", "Desktop/whole").await;
    listener.expect_none().await;
    listener.end().await;
}

#[tokio::test]
async fn a_download_that_is_complete_is_told_as_such() {
    let home = Home::new();
    let listener = home.listen().await;
    fs::write(home.path("Downloads/x.zip.crdownload"), "12345").expect("a file");
    home.expect(&listener, "created", "Downloads/x.zip.crdownload").await;
    home.expect(&listener, "modified", "Downloads/x.zip.crdownload").await;
    fs::rename(home.path("Downloads/x.zip.crdownload"), home.path("Downloads/x.zip")).expect("moved");
    home.expect(&listener, "deleted", "Downloads/x.zip.crdownload").await;
    home.expect(&listener, "created", "Downloads/x.zip").await;
    let complete = json!({"path": "/home/user/Downloads/x.zip", "size_bytes": 5});
    listener.expect("download_finished", complete).await;
    listener.expect_none().await;
    listener.end().await;
}

#[tokio::test]
async fn folders_that_are_removed_replaced_or_made_later_are_watched_again() {
    let home = Home::new();
    fs::write(home.path("Desktop/old"), "1").expect("a file");
    fs::remove_dir(home.path("Downloads")).expect("removed");
    let listener = home.listen().await;
    fs::remove_dir_all(home.path("Desktop")).expect("removed");
    home.expect(&listener, "deleted", "Desktop/old").await;
    for round in 0..5 {
        let name = format!("Desktop/file {round}");
        // The file exists before anybody can watch the folder.
        fs::create_dir(home.path("Desktop")).expect("a folder");
        File::create(home.path(&name)).expect("a file");
        home.expect(&listener, "created", &name).await;
        let later = format!("Desktop/later {round}");
        File::create(home.path(&later)).expect("a file");
        home.expect(&listener, "created", &later).await;
        if round % 2 == 0 {
            fs::remove_dir_all(home.path("Desktop")).expect("removed");
        } else {
            fs::rename(home.path("Desktop"), home.path(&format!("elsewhere/{round}"))).expect("moved");
        }
        let times = [listener.next().await, listener.next().await].map(|(_, data)| data.to_string());
        let gone = [home.file_event("deleted", &name), home.file_event("deleted", &later)]
            .map(|data| data.to_string());
        assert_eq!(BTreeSet::from(times), BTreeSet::from(gone));
    }
    fs::create_dir(home.path("Downloads")).expect("a folder");
    File::create(home.path("Downloads/first")).expect("a file");
    home.expect(&listener, "created", "Downloads/first").await;
    fs::create_dir(home.path("Desktop")).expect("a folder");
    File::create(home.path("Desktop/last")).expect("a file");
    home.expect(&listener, "created", "Desktop/last").await;
    listener.expect_none().await;
    listener.end().await;
}

#[tokio::test]
async fn ten_thousand_files_at_once_are_all_told_or_counted() {
    const FILES: u64 = 10_000;
    let home = Home::new();
    let listener = home.listen().await;
    let folder = home.path("Desktop");
    let making = tokio::task::spawn_blocking(move || {
        for number in 0..FILES {
            File::create(folder.join(number.to_string())).expect("a file");
        }
        File::create(folder.join("last")).expect("a file");
    });
    let (mut names, mut dropped) = (BTreeSet::new(), 0);
    while names.len() as u64 + dropped < FILES + 1 {
        let message = listener.message().await;
        dropped = message["dropped"].as_u64().unwrap_or(dropped);
        let data = &message["event"]["data"];
        assert_eq!(data["action"], "created");
        let path = data["path"].as_str().expect("a path").to_owned();
        assert!(names.insert(path), "reported twice: {data}");
    }
    making.await.expect("made");
    listener.expect_none().await;
    assert_eq!(names.len() as u64 + dropped, FILES + 1);
    println!("{} reported, {dropped} dropped", names.len());
    listener.end().await;
}
