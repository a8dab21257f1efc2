//! How is the OCI runtime called? `create`, `start`, `state`, `delete`, by its command line.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::command::{self, host_error, judge, run, run_patiently, tool};
use super::gvisor;
use super::kernel;
use super::layout::Folder;
use crate::{EngineError, EngineResult};
use hotdesk_base::ids::ComputerId;

/// How much of the runtime's log goes into an error: its last message.
const KEPT_LOG: u64 = 4096;

/// What a guest's system calls meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The host's kernel, behind namespaces (`runc` and its like).
    Shared,
    /// A kernel of the guest's own in user space, whose memory can be kept (`runsc`).
    Gvisor,
}

/// An OCI runtime and where it keeps its records.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    program: String,
    root: PathBuf,
    kind: Kind,
}

/// What the runtime says of a container.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct State {
    /// `creating`, `created`, `running`, `paused` or `stopped`.
    pub(super) status: String,
    /// Its first process on the host; 0 when it has none.
    #[serde(default, deserialize_with = "process")]
    pub(super) pid: u32,
    /// The labels of its configuration.
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

impl Runtime {
    /// Asks the program which kind it is. One that does not answer is told by the first call that needs it.
    pub(super) fn new(program: &str, root: PathBuf) -> Self {
        let mut this = Self { program: program.to_owned(), root, kind: Kind::Shared };
        if this.version().is_ok_and(|version| version.starts_with("runsc ")) {
            this.kind = Kind::Gvisor;
        }
        this
    }

    /// What a guest's system calls meet.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// A call of the runtime, up to its verb.
    pub(super) fn call(&self) -> Command {
        let mut command = tool(&self.program);
        command.arg("--root").arg(&self.root);
        if self.kind == Kind::Gvisor {
            command.args(gvisor::FLAGS);
        }
        command
    }

    /// Makes the container of the machine's bundle, paused before its first process, with `handed`, if anything, as that
    /// process's descriptor 3. Call it where the bundle's mounts are in place.
    pub(super) fn create(&self, folder: &Folder, handed: Option<OwnedFd>) -> EngineResult<()> {
        const STEP: &str = "create the container";
        let log = folder.runtime_log();
        // The container inherits these three: null cannot fill a disk, block, or end.
        let mut create = self.call();
        create.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&log)
            .map_err(host_error(STEP, &log))?;
        create
            .arg("--log")
            .arg(&log)
            .args(["--log-format", "text", "create", "--bundle"])
            .arg(folder.bundle());
        if handed.is_some() {
            create.args(["--preserve-fds", "1"]);
        }
        create.arg(folder.id.to_string());
        kernel::hand_over(&mut create, handed);
        let mut child = command::spawn(STEP, &mut create)?;
        let status = command::finish(STEP, &mut child, command::TIMEOUT)?;
        judge(STEP, status, &tail(&log))
    }

    /// Lets the container's first process go.
    pub(super) fn start(&self, id: ComputerId) -> EngineResult<()> {
        const STEP: &str = "start the container";
        let mut start = self.call();
        start.arg("start").arg(id.to_string());
        match self.kind {
            Kind::Shared => run(STEP, start).map(drop),
            Kind::Gvisor => gvisor::run_where_networks_are_told_apart(STEP, start, command::TIMEOUT),
        }
    }

    /// What is known of a machine's container; `None` when there is none.
    pub(super) fn state(&self, id: ComputerId) -> EngineResult<Option<State>> {
        const STEP: &str = "ask for the container's state";
        let mut state = self.call();
        state.arg("state").arg(id.to_string());
        let (status, answer, complaint) = run_patiently(STEP, &mut state, None, command::TIMEOUT)?;
        if !status.success() && (says_absent(&complaint) || self.record_is_damaged(id)) {
            return Ok(None);
        }
        judge(STEP, status, &complaint)?;
        serde_json::from_str(&answer).map(Some).map_err(|error| EngineError::failed(STEP, error))
    }

    /// Removes the container's record, in whatever state. What of it runs is in the machine's control groups and ends with them.
    pub(super) fn delete(&self, id: ComputerId) -> EngineResult<()> {
        const STEP: &str = "delete the container";
        if self.kind == Kind::Gvisor {
            // Its own verb waits for seconds until the host's first process has taken note of every end.
            return gvisor::remove_record(&self.root, id).map_err(host_error(STEP, &self.root));
        }
        let record = self.root.join(id.to_string());
        let mut delete = self.call();
        delete.args(["delete", "--force"]).arg(id.to_string());
        let (status, _, complaint) = run_patiently(STEP, &mut delete, None, command::TIMEOUT)?;
        if !says_absent(&complaint) && !self.record_is_damaged(id) {
            judge(STEP, status, &complaint)?;
        }
        // A create that was killed leaves a record that the runtime itself does not take for one.
        match fs::remove_dir_all(&record) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(host_error(STEP, &record)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Whether the record of a machine is not what the runtime wrote: runtimes do not bring theirs to the disk, and after a
    /// power cut they are found empty.
    fn record_is_damaged(&self, id: ComputerId) -> bool {
        let id = id.to_string();
        let own = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let record = if name == id { entry.path().join("state.json") } else { entry.path() };
            (name == id || name.contains(&id) && name.ends_with(".state")).then_some(record)
        };
        let records = fs::read_dir(&self.root).into_iter().flatten().flatten().filter_map(own);
        let is_whole = |text: Vec<u8>| serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
        records.filter_map(|path| fs::read(path).ok()).any(|text| !is_whole(text))
    }

    /// The runtime's name and version, in its own words.
    pub(super) fn version(&self) -> EngineResult<String> {
        let mut version = tool(&self.program);
        version.arg("--version");
        run("ask the OCI runtime for its version", version)
            .map(|text| text.lines().next().unwrap_or_default().to_owned())
    }
}

/// A process's number; `runsc` says -1 where it has none.
fn process<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    i64::deserialize(from).map(|number| u32::try_from(number).unwrap_or(0))
}

fn says_absent(complaint: &str) -> bool {
    complaint.contains("does not exist") || complaint.contains("file does not exist")
}

fn tail(log: &std::path::Path) -> String {
    use std::io::{Seek, SeekFrom};
    let read = || -> std::io::Result<String> {
        let mut file = fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(KEPT_LOG)))?;
        let mut text = Vec::new();
        file.take(KEPT_LOG).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    read().unwrap_or_else(|error| format!("{} cannot be read: {error}", log.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_a_power_cut_emptied_is_none() {
        let root = tempfile::tempdir().unwrap();
        let (runtime, id) = (Runtime::new("false", root.path().to_owned()), ComputerId::random());
        let record = root.path().join(id.to_string());
        fs::create_dir(&record).unwrap();
        fs::write(record.join("state.json"), "{}").unwrap();
        runtime.state(id).expect_err("the runtime has another reason");
        runtime.delete(id).expect_err("the runtime has another reason");
        fs::write(record.join("state.json"), "").unwrap();
        assert!(runtime.state(id).unwrap().is_none());
        runtime.delete(id).unwrap();
        assert!(!record.exists());
    }
}
