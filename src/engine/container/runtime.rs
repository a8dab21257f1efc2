//! The OCI runtime's command line: `create`, `start`, `state`, `delete`.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::container::{ContainerSettings, runsc};
use crate::host::cgroup::stopped;
use crate::host::command::{self, check_status, host_error, run, run_with_timeout, tool};
use crate::host::{cgroup, process, syscalls};
use crate::state::disk;
use crate::state::layout::Folder;
use crate::{Capabilities, EngineError, EngineResult, Offer};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;

/// The name of the engine of containers.
const ENGINE: &str = "container";

/// For the state of a container, which takes 30 ms, or a second on a busy host.
const STATE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the end of the runtime's log that go into an error text.
const LOG_TAIL: u64 = 4096;

/// The kernel behind a guest's system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuntimeKind {
    /// The host's kernel, behind namespaces (`runc` and similar runtimes).
    Shared,
    /// gVisor's kernel in user space, whose memory can be saved (`runsc`).
    Gvisor,
}

/// An OCI runtime and the folder of its records.
#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    program: String,
    root: PathBuf,
    kind: RuntimeKind,
    /// Whether it leaves the control groups to others.
    ignores_groups: bool,
}

/// The output of `state` for a container.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ContainerState {
    /// `creating`, `created`, `running`, `paused` or `stopped`.
    pub(super) status: String,
    /// Its first process on the host; 0 when it has none.
    #[serde(default, deserialize_with = "pid_or_none")]
    pub(super) pid: u32,
    /// The annotations of its configuration.
    #[serde(default)]
    pub(super) annotations: BTreeMap<String, String>,
}

impl Runtime {
    /// Finds the kind by the program's version. A program that does not start counts as `Shared`; its first
    /// call reports that.
    pub(super) fn new(program: &str, root: PathBuf) -> Self {
        let mut this =
            Self { program: program.to_owned(), root, kind: RuntimeKind::Shared, ignores_groups: false };
        if this.version().is_ok_and(|version| version.starts_with("runsc ")) {
            this.kind = RuntimeKind::Gvisor;
        }
        this
    }

    /// The configured runtime. Its kind is that of the isolation that it must provide, also while it does not start.
    pub(super) fn of(settings: &ContainerSettings, root: PathBuf) -> Self {
        let program = settings.runtime.clone();
        match settings.isolation {
            Some(Isolation::Sandbox) => {
                Self { program, root, kind: RuntimeKind::Gvisor, ignores_groups: false }
            }
            Some(Isolation::Shared) => {
                Self { program, root, kind: RuntimeKind::Shared, ignores_groups: false }
            }
            Some(Isolation::Vm) | None => Self::new(&program, root),
        }
    }

    /// gVisor in an instance of Incus, whose control groups limit it.
    pub(crate) fn in_instance(program: &str, root: PathBuf) -> Self {
        Self { program: program.to_owned(), root, kind: RuntimeKind::Gvisor, ignores_groups: true }
    }

    /// The kernel behind a guest's system calls.
    pub(super) fn kind(&self) -> RuntimeKind {
        self.kind
    }

    /// What the engine offers with this runtime.
    pub(super) fn offer(&self) -> Offer {
        let own_kernel = self.kind == RuntimeKind::Gvisor;
        let capabilities = Capabilities {
            suspend: own_kernel,
            live_cpu: true,
            live_ram: !own_kernel,
            live_disk: !own_kernel && disk::grows_live(),
            // gVisor caches no file content: it writes through the host's descriptors.
            copy_while_running: true,
            memory_snapshot: own_kernel,
            boot_snapshot: own_kernel,
            evict: own_kernel,
            // The host's file system decides (`Offers::with_encryption`).
            encrypt: false,
            replicate: false,
        };
        Offer { isolation: self.isolation(), engine: ENGINE, capabilities }
    }

    /// The isolation of its guests.
    pub(super) fn isolation(&self) -> Isolation {
        match self.kind {
            RuntimeKind::Shared => Isolation::Shared,
            RuntimeKind::Gvisor => Isolation::Sandbox,
        }
    }

    /// The command line up to the subcommand.
    pub(crate) fn call(&self) -> Command {
        let mut command = tool(&self.program);
        command.arg("--root").arg(&self.root);
        if self.kind == RuntimeKind::Gvisor {
            command.args(runsc::FLAGS);
        }
        if self.ignores_groups {
            command.arg("--ignore-cgroups");
        }
        command
    }

    /// Creates the container of the machine's bundle without running its first process, which gets `passed`,
    /// if any, as descriptor 3. Must run in the mount namespace with the bundle's mounts, on a thread that ends afterwards.
    pub(crate) fn create(&self, folder: &Folder, passed: Option<OwnedFd>) -> EngineResult<()> {
        const STEP: &str = "create the container";
        let log = folder.runtime_log();
        // The container inherits these streams: /dev/null cannot fill a disk or block.
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
        if passed.is_some() {
            create.args(["--preserve-fds", "1"]);
        }
        create.arg(folder.id.to_string());
        syscalls::pass_fd(&mut create, passed);
        if self.kind == RuntimeKind::Gvisor {
            runsc::coalesce_timers_of_children(STEP)?;
        }
        let mut child = command::spawn(STEP, &mut create)?;
        let status = command::finish(STEP, &mut child, command::TIMEOUT)?;
        check_status(STEP, status, &tail(&log))
    }

    /// Runs the container's first process.
    pub(crate) fn start(&self, id: ComputerId) -> EngineResult<()> {
        const STEP: &str = "start the container";
        let mut start = self.call();
        start.arg("start").arg(id.to_string());
        match self.kind {
            RuntimeKind::Shared => run(STEP, start).map(drop),
            RuntimeKind::Gvisor => runsc::run_with_guest_network(STEP, start, command::TIMEOUT),
        }
    }

    /// The state of a machine's container; `None` when there is none. It is the recorded one while the first process on the
    /// host runs, because a question to the runtime takes 20 to 50 ms. For gVisor it says `running`, unlike `runsc`, while a
    /// kernel whose process 1 has ended still exits, and `created` while a start has not recorded its end.
    pub(super) fn state(&self, id: ComputerId) -> EngineResult<Option<ContainerState>> {
        const STEP: &str = "read the container's state";
        if let Some(recorded) = self.recorded_state(id) {
            return Ok(Some(recorded));
        }
        let mut state = self.call();
        state.arg("state").arg(id.to_string());
        let (status, answer, complaint) = run_with_timeout(STEP, &mut state, None, STATE_TIMEOUT)?;
        if !status.success() && (is_absent(&complaint) || self.record_is_damaged(id)) {
            return Ok(None);
        }
        check_status(STEP, status, &complaint)?;
        serde_json::from_str(&answer).map(Some).map_err(|error| EngineError::failed(STEP, error))
    }

    /// The runtime's record of a container whose first process on the host runs; `None` for any other, and while the record
    /// is being written.
    fn recorded_state(&self, id: ComputerId) -> Option<ContainerState> {
        let state = match self.kind {
            RuntimeKind::Shared => runc_record(&self.root.join(id.to_string()), stopped::is_frozen(id))?,
            RuntimeKind::Gvisor => {
                let record = runsc::record(&self.root, id).ok().flatten()?;
                let (status, annotations) = (record.status, record.spec.annotations);
                ContainerState { status, pid: record.sandbox.pid, annotations }
            }
        };
        let first = process::open(state.pid).ok().flatten()?;
        // An ended process keeps its group until the host's process 1 has reaped it.
        let runs = cgroup::contains(id, state.pid) && !process::wait_exit(&first, Instant::now()).ok()?;
        runs.then_some(state)
    }

    /// Removes the container's record in any state. Its processes end with the machine's control groups.
    pub(super) fn delete(&self, id: ComputerId) -> EngineResult<()> {
        const STEP: &str = "delete the container";
        if self.kind == RuntimeKind::Gvisor {
            // `runsc delete` waits for seconds until the host's process 1 has reaped every process.
            return runsc::remove_record(&self.root, id).map_err(host_error(STEP, &self.root));
        }
        let record = self.root.join(id.to_string());
        // A first start has nothing to delete.
        if !record.exists() {
            return Ok(());
        }
        let mut delete = self.call();
        delete.args(["delete", "--force"]).arg(id.to_string());
        let (status, _, complaint) = run_with_timeout(STEP, &mut delete, None, command::TIMEOUT)?;
        if !is_absent(&complaint) && !self.record_is_damaged(id) {
            check_status(STEP, status, &complaint)?;
        }
        // A killed create leaves a record that the runtime does not recognize.
        match fs::remove_dir_all(&record) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(host_error(STEP, &record)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Whether the record of a machine is damaged: runtimes do not sync their records, so a power cut leaves
    /// empty files.
    fn record_is_damaged(&self, id: ComputerId) -> bool {
        let id = id.to_string();
        let own = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let record = if name == id { entry.path().join("state.json") } else { entry.path() };
            (name == id || name.contains(&id) && name.ends_with(".state")).then_some(record)
        };
        let records = fs::read_dir(&self.root).into_iter().flatten().flatten().filter_map(own);
        let is_json = |text: Vec<u8>| serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
        records.filter_map(|path| fs::read(path).ok()).any(|text| !is_json(text))
    }

    /// The first line of the runtime's `--version`.
    pub(crate) fn version(&self) -> EngineResult<String> {
        command::version("read the OCI runtime's version", &self.program)
    }
}

/// The beginning of `runc`'s record of a container (`State` of libcontainer).
#[derive(Deserialize)]
struct RuncRecord {
    init_process_pid: u32,
    config: RuncConfig,
}

#[derive(Deserialize)]
struct RuncConfig {
    /// The annotations, each as `name=value`.
    labels: Vec<String>,
}

/// `runc`'s record in a folder, with the status that `runc state` gives while the first process runs: `paused` in frozen
/// groups, and `created` as long as there is a pipe on which that process waits. `None` when it cannot be read.
fn runc_record(folder: &Path, is_frozen: bool) -> Option<ContainerState> {
    let text = fs::read(folder.join("state.json")).ok()?;
    let RuncRecord { init_process_pid: pid, config } = serde_json::from_slice(&text).ok()?;
    let status = if is_frozen {
        "paused"
    } else if folder.join("exec.fifo").exists() {
        "created"
    } else {
        "running"
    };
    let labels = config.labels.iter().filter_map(|label| label.split_once('='));
    let annotations = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Some(ContainerState { status: status.to_owned(), pid, annotations })
}

/// Reads a pid; `runsc` writes -1 for none.
fn pid_or_none<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    i64::deserialize(from).map(|number| u32::try_from(number).unwrap_or(0))
}

fn is_absent(complaint: &str) -> bool {
    complaint.contains("does not exist") || complaint.contains("file does not exist")
}

fn tail(log: &Path) -> String {
    use std::io::{Seek, SeekFrom};
    let read = || -> std::io::Result<String> {
        let mut file = fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)))?;
        let mut text = Vec::new();
        file.take(LOG_TAIL).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    read().unwrap_or_else(|error| format!("{} cannot be read: {error}", log.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_runc_has_the_first_process_and_the_annotations() {
        let folder = tempfile::tempdir().unwrap();
        let read = |is_frozen| runc_record(folder.path(), is_frozen);
        assert!(read(false).is_none());
        let record = r#"{"id": "x", "init_process_pid": 7, "created": "2026-01-01T00:00:00Z",
            "config": {"rootfs": "/r", "labels": ["a.b=c=d", "empty=", "bundle=/x"]}, "rootless": false}"#;
        fs::write(folder.path().join("state.json"), record).unwrap();
        let state = read(false).unwrap();
        let annotation = |name: &str| state.annotations.get(name).map(String::as_str);
        assert_eq!((state.pid, &*state.status), (7, "running"));
        assert_eq!(["a.b", "empty", "none"].map(annotation), [Some("c=d"), Some(""), None]);
        fs::write(folder.path().join("exec.fifo"), "").unwrap();
        assert_eq!([false, true].map(|is_frozen| read(is_frozen).unwrap().status), ["created", "paused"]);
        fs::write(folder.path().join("state.json"), &record[..record.len() / 2]).unwrap();
        assert!(read(false).is_none());
    }

    #[test]
    fn an_empty_record_counts_as_absent() {
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
