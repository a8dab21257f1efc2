//! Is every change of the desktop's and the downloads' files told, once, by the specification's path?

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hotdesk::base::clock::parse_iso8601;
use hotdesk::domain::event::Kind;
use serde_json::{Value, json};

use super::watch::Hearing;
use crate::display::desk::TIMEOUT;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        for name in ["Desktop", "Downloads", "elsewhere"] {
            fs::create_dir(home.path().join(name)).expect("a folder");
        }
        Self(home)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    async fn hear(&self) -> Hearing {
        Hearing::begin(None, self.0.path(), &[Kind::FileChange, Kind::DownloadFinished]).await
    }

    fn told(&self, action: &str, path: &str) -> Value {
        json!({"path": format!("/home/user/{path}"), "action": action, "real_path": self.at(path)})
    }

    async fn expect(&self, hearing: &Hearing, action: &str, path: &str) {
        hearing.expect("file_change", self.told(action, path)).await;
    }
}

#[tokio::test]
async fn files_that_are_made_written_and_removed_are_told_once() {
    let home = Home::new();
    fs::write(home.at("Desktop/old"), "1").expect("a file");
    let hearing = home.hear().await;
    File::create(home.at("Desktop/new")).expect("a file");
    home.expect(&hearing, "created", "Desktop/new").await;
    for at in ["Desktop/old", "Desktop/new"] {
        let mut file = File::options().append(true).open(home.at(at)).expect("a file");
        for _ in 0..100 {
            file.write_all(b"piece").expect("written");
        }
        drop(file);
        home.expect(&hearing, "modified", at).await;
    }
    // Opened, looked at and made executable: nothing of it is a change.
    fs::read(home.at("Desktop/old")).expect("read");
    fs::set_permissions(home.at("Desktop/old"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("permissions");
    fs::remove_file(home.at("Desktop/old")).expect("removed");
    home.expect(&hearing, "deleted", "Desktop/old").await;
    fs::create_dir(home.at("Downloads/folder")).expect("a folder");
    home.expect(&hearing, "created", "Downloads/folder").await;
    fs::write(home.at("Downloads/folder/inside"), "not in the folder itself").expect("a file");
    fs::write(home.at("elsewhere/x"), "elsewhere").expect("a file");
    hearing.quiet().await;
    hearing.end().await;
}

#[tokio::test]
async fn a_file_that_stays_open_is_told_every_second_and_at_its_end() {
    let home = Home::new();
    let hearing = home.hear().await;
    let mut file = File::create(home.at("Downloads/log")).expect("a file");
    home.expect(&hearing, "created", "Downloads/log").await;
    let began = Instant::now();
    let mut told = Vec::new();
    while told.len() < 2 {
        assert!(began.elapsed() < TIMEOUT, "told {} times", told.len());
        file.write_all(b"line\n").expect("written");
        let heard = tokio::time::timeout(Duration::from_millis(10), hearing.message()).await;
        if let Ok(heard) = heard {
            let event = &heard["event"];
            assert_eq!(
                (&event["type"], &event["data"]),
                (&json!("file_change"), &home.told("modified", "Downloads/log"))
            );
            told.push(event["timestamp"].as_str().and_then(parse_iso8601).expect("a time"));
        }
    }
    assert!(told[1] - told[0] >= 990, "told at {told:?}");
    // What was written since then is told a second later.
    while tokio::time::timeout(Duration::from_secs(3), hearing.next()).await.is_ok() {}
    file.write_all(b"end").expect("written");
    drop(file);
    home.expect(&hearing, "modified", "Downloads/log").await;
    hearing.quiet().await;
    hearing.end().await;
}

#[tokio::test]
async fn moves_in_out_within_and_over_are_told_by_what_became_true() {
    let home = Home::new();
    fs::write(home.at("elsewhere/a"), "a").expect("a file");
    let hearing = home.hear().await;
    let mv = |from: &str, to: &str| fs::rename(home.at(from), home.at(to)).expect("moved");
    mv("elsewhere/a", "Desktop/a");
    home.expect(&hearing, "created", "Desktop/a").await;
    mv("Desktop/a", "Desktop/b");
    home.expect(&hearing, "deleted", "Desktop/a").await;
    home.expect(&hearing, "created", "Desktop/b").await;
    mv("Desktop/b", "Downloads/b");
    home.expect(&hearing, "deleted", "Desktop/b").await;
    home.expect(&hearing, "created", "Downloads/b").await;
    fs::write(home.at("elsewhere/b"), "another b").expect("a file");
    mv("elsewhere/b", "Downloads/b");
    home.expect(&hearing, "modified", "Downloads/b").await;
    mv("Downloads/b", "elsewhere/b");
    home.expect(&hearing, "deleted", "Downloads/b").await;
    // As the files' routes write: under a name of theirs, then renamed.
    File::create(home.at("Desktop/.hotdesk-upload-1")).expect("a file").write_all(b"1").expect("written");
    mv("Desktop/.hotdesk-upload-1", "Desktop/whole");
    home.expect(&hearing, "created", "Desktop/whole").await;
    hearing.quiet().await;
    hearing.end().await;
}

#[tokio::test]
async fn a_download_that_is_complete_is_told_as_such() {
    let home = Home::new();
    let hearing = home.hear().await;
    fs::write(home.at("Downloads/x.zip.crdownload"), "12345").expect("a file");
    home.expect(&hearing, "created", "Downloads/x.zip.crdownload").await;
    home.expect(&hearing, "modified", "Downloads/x.zip.crdownload").await;
    fs::rename(home.at("Downloads/x.zip.crdownload"), home.at("Downloads/x.zip")).expect("moved");
    home.expect(&hearing, "deleted", "Downloads/x.zip.crdownload").await;
    home.expect(&hearing, "created", "Downloads/x.zip").await;
    let whole = json!({"path": "/home/user/Downloads/x.zip", "size_bytes": 5});
    hearing.expect("download_finished", whole).await;
    hearing.quiet().await;
    hearing.end().await;
}

#[tokio::test]
async fn folders_that_are_removed_replaced_or_made_later_are_watched_again() {
    let home = Home::new();
    fs::write(home.at("Desktop/old"), "1").expect("a file");
    fs::remove_dir(home.at("Downloads")).expect("removed");
    let hearing = home.hear().await;
    fs::remove_dir_all(home.at("Desktop")).expect("removed");
    home.expect(&hearing, "deleted", "Desktop/old").await;
    for round in 0..5 {
        let name = format!("Desktop/file {round}");
        // At once: the file is there before anybody can watch the folder.
        fs::create_dir(home.at("Desktop")).expect("a folder");
        File::create(home.at(&name)).expect("a file");
        home.expect(&hearing, "created", &name).await;
        let later = format!("Desktop/later {round}");
        File::create(home.at(&later)).expect("a file");
        home.expect(&hearing, "created", &later).await;
        if round % 2 == 0 {
            fs::remove_dir_all(home.at("Desktop")).expect("removed");
        } else {
            fs::rename(home.at("Desktop"), home.at(&format!("elsewhere/{round}"))).expect("moved");
        }
        let told = [hearing.next().await, hearing.next().await].map(|(_, data)| data.to_string());
        let gone = [home.told("deleted", &name), home.told("deleted", &later)].map(|data| data.to_string());
        assert_eq!(BTreeSet::from(told), BTreeSet::from(gone));
    }
    fs::create_dir(home.at("Downloads")).expect("a folder");
    File::create(home.at("Downloads/first")).expect("a file");
    home.expect(&hearing, "created", "Downloads/first").await;
    fs::create_dir(home.at("Desktop")).expect("a folder");
    File::create(home.at("Desktop/last")).expect("a file");
    home.expect(&hearing, "created", "Desktop/last").await;
    hearing.quiet().await;
    hearing.end().await;
}

#[tokio::test]
async fn ten_thousand_files_at_once_are_all_told_or_counted() {
    const FILES: u64 = 10_000;
    let home = Home::new();
    let hearing = home.hear().await;
    let folder = home.at("Desktop");
    let making = tokio::task::spawn_blocking(move || {
        for number in 0..FILES {
            File::create(folder.join(number.to_string())).expect("a file");
        }
        File::create(folder.join("last")).expect("a file");
    });
    let (mut names, mut dropped) = (BTreeSet::new(), 0);
    while names.len() as u64 + dropped < FILES + 1 {
        let message = hearing.message().await;
        dropped = message["dropped"].as_u64().unwrap_or(dropped);
        let data = &message["event"]["data"];
        assert_eq!(data["action"], "created");
        let path = data["path"].as_str().expect("a path").to_owned();
        assert!(names.insert(path), "told twice: {data}");
    }
    making.await.expect("made");
    hearing.quiet().await;
    assert_eq!(names.len() as u64 + dropped, FILES + 1);
    println!("{} told, {dropped} counted", names.len());
    hearing.end().await;
}
