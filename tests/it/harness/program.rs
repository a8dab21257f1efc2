//! The program under test without its debug symbols.
//!
//! Every controller hashes its program and copies it for its guests, and emulated computers read it. Debug symbols are more
//! than half of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

static STRIPPED: LazyLock<PathBuf> = LazyLock::new(|| {
    let original = Path::new(env!("CARGO_BIN_EXE_hotdesk"));
    let folder = made_once("program", last_change(original), |folder| {
        let copy = folder.join("hotdesk");
        let done = Command::new("strip")
            .arg("-o")
            .arg(&copy)
            .arg(original)
            .status()
            .expect("binutils are installed");
        assert!(done.success(), "strip: {done}");
    });
    folder.join("hotdesk")
});

/// Path of the stripped program.
pub fn program() -> &'static str {
    STRIPPED.to_str().expect("text")
}

/// A folder that all tests of a build share, each a process of its own. `make` fills it when its inputs, which changed last
/// at `changed`, are newer than those of the folder that is there.
pub fn made_once(name: &str, changed: SystemTime, make: impl FnOnce(&Path)) -> PathBuf {
    let age = changed.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos();
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&parent).expect("a folder");
    let lock = File::open(&parent).expect("the folder");
    flock(&lock, FlockOperation::LockExclusive).expect("the lock");
    let folder = parent.join(age.to_string());
    if !folder.exists() {
        for old in fs::read_dir(&parent).expect("the folder") {
            fs::remove_dir_all(old.expect("an entry").path()).expect("removed");
        }
        let part = parent.join("part");
        fs::create_dir(&part).expect("a folder");
        make(&part);
        fs::rename(&part, &folder).expect("renamed");
    }
    folder
}

/// The time of the latest change of a file, or of the files in a folder.
pub fn last_change(path: &Path) -> SystemTime {
    let metadata = path.metadata().expect("an input");
    let own = metadata.modified().expect("a time");
    if !metadata.is_dir() {
        return own;
    }
    let entries = fs::read_dir(path).expect("a folder");
    entries.map(|entry| last_change(&entry.expect("an entry").path())).fold(own, SystemTime::max)
}
