//! The program under test without its debug symbols.
//!
//! Every controller hashes its program and copies it for its guests, and emulated computers read it. Debug symbols are more
//! than half of it.

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

/// File beside the stripped program: the name that engines give it (`src/engine/state/agent_binary.rs`).
const AGENT_NAME: &str = "agent-name";

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
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(&copy).expect("the copy")).expect("the copy is read");
        let name: String = hasher.finalize().to_hex().chars().take(32).collect();
        fs::write(folder.join(AGENT_NAME), name).expect("the name is written");
    });
    folder.join("hotdesk")
});

/// Path of the stripped program.
pub fn program() -> &'static str {
    STRIPPED.to_str().expect("text")
}

/// Links the program into a state folder whose engine is not open, as the executable of its agents. Otherwise the engine copies
/// and syncs it, a hundred megabytes, as it does where the folder is on another file system.
pub fn link_agent(state: &Path) {
    let _copied_otherwise = fs::hard_link(program(), agent_in(state, ""));
}

/// Links the disk with the program, from which virtual machines boot, into a state folder; before an engine has made one, from
/// the state folder for others. So one engine of all tests makes it.
pub fn share_agent_disk(state: &Path) {
    let (own, shared) = (agent_in(state, ".ext4"), STRIPPED.with_file_name("agent.ext4"));
    let _made_otherwise = fs::hard_link(&shared, &own).or_else(|_| fs::hard_link(&own, &shared));
}

/// Path of the agent's executable in a state folder, in the form that `suffix` says. Makes its folder.
fn agent_in(state: &Path, suffix: &str) -> PathBuf {
    let folder = state.join("agent");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).expect("a folder");
    let name = fs::read_to_string(STRIPPED.with_file_name(AGENT_NAME)).expect("the name of the agent");
    folder.join(name + suffix)
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
