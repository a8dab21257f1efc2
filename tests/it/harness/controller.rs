//! A running controller process on port 0 with its data in a temporary folder; the drop stops it and purges
//! its computers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::caller::{Caller, HttpAnswer, id_of};
use super::check_cleanup;
use super::host::{find_leftover, kill, loop_files, machines_of, names_in};
use super::host_helper::{self, HostHelper};
use super::process::{OwnedChild, end, output_within};
use super::small_disk::SmallDisk;
use crate::harness::capability::{Capability, Skip};
use crate::harness::program::{link_agent, program};

/// Longest time until a controller prints its address, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest time of a purge: the engine waits for up to 240 s for another operation on a machine.
const PURGE_TIMEOUT: Duration = Duration::from_secs(300);
/// Number of log lines that a failed test prints.
const SHOWN_LINES: usize = 40;
/// Longest time of a status change: an emulated machine boots slowly beside other work.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(180);

pub struct RunningController {
    child: OwnedChild,
    /// Its host helper, if it has no privileges.
    pub helper: Option<HostHelper>,
    /// Declared before `folder`: the disk is unmounted before its mount point is removed.
    disk: Option<SmallDisk>,
    folder: TempDir,
    caller: Caller,
}

impl std::ops::Deref for RunningController {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

/// The reason to skip a test that needs real computers, if there is one. The test prints it and returns.
pub fn skip_reason() -> Option<Skip> {
    let image = image();
    if !image.join("rootfs").is_dir() {
        return Some(Skip::new(
            Capability::Runc,
            format!("no guest image at {} (make image-small)", image.display()),
        ));
    }
    if !nix::unistd::geteuid().is_root() {
        return Some(Skip::new(Capability::Runc, "computers need root"));
    }
    None
}

/// The reason to skip a test that needs encrypted folders, if there is one.
pub fn encryption_skip() -> Option<Skip> {
    let missing = !Path::new("/sys/fs/ext4/features/encryption").exists();
    missing.then(|| Skip::new(Capability::Host, "this kernel encrypts no folders (CONFIG_FS_ENCRYPTION)"))
}

/// Path of gVisor's runtime, as `packaging/dev/deps` installs it.
pub fn runsc() -> String {
    let cache = std::env::var("HOTDESK_CACHE").unwrap_or_else(|_| "/var/cache/hotdesk".to_owned());
    format!("{cache}/runsc/usr/bin/runsc")
}

/// Configuration lines for computers on gVisor. Where they cannot run, prints the reason and returns `None`.
pub fn gvisor() -> Option<String> {
    let runtime = runsc();
    let missing = (!Path::new(&runtime).exists()).then(|| {
        Skip::new(Capability::Gvisor, format!("{runtime} does not exist (packaging/dev/deps test)"))
    });
    if let Some(skip) = skip_reason().or(missing) {
        skip.report();
        return None;
    }
    Some(format!("[engines]\noffered = \"sandbox\"\nrunsc = {runtime:?}\n"))
}

/// The guest image of the tests: `HOTDESK_IMAGE`, else the image of `make image-small`.
pub fn image() -> PathBuf {
    let chosen = std::env::var_os("HOTDESK_IMAGE").map(PathBuf::from);
    chosen.unwrap_or_else(|| PathBuf::from("/var/cache/hotdesk/images/small"))
}

/// The full guest image. Without it, prints the reason and returns `None`.
pub fn full_image() -> Option<PathBuf> {
    let full = image().with_file_name("full");
    if full.join("rootfs").is_dir() && skip_reason().is_none() {
        return Some(full);
    }
    Capability::FullImage
        .skip(format_args!("no full guest image at {} (make image), or not root", full.display()));
    None
}

/// The guest image; where there is none, an empty one in `folder`: many tests need a controller and no computer.
fn image_or_empty(folder: &Path) -> PathBuf {
    let image = image();
    if image.join("rootfs").is_dir() {
        return image;
    }
    let empty = folder.join("empty-image");
    std::fs::create_dir_all(empty.join("rootfs")).expect("a folder");
    empty
}

impl RunningController {
    pub async fn boot() -> Self {
        Self::boot_with("").await
    }

    /// A controller with these lines in its configuration file.
    pub async fn boot_with(configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::boot_in(folder, None, configuration).await
    }

    /// A controller with the full image, which has a browser. Without that image, prints the reason and
    /// returns `None`.
    pub async fn boot_full() -> Option<Self> {
        Self::boot_full_with("").await
    }

    /// [`Self::boot_full`] with these lines in the configuration file.
    pub async fn boot_full_with(configuration: &str) -> Option<Self> {
        let full = full_image()?;
        Some(Self::boot_image(&full, configuration).await)
    }

    /// A controller with another image than that of the tests.
    pub async fn boot_image(image: &Path, configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("image"), image.as_os_str().as_encoded_bytes()).expect("a file");
        Self::boot_in(folder, None, configuration).await
    }

    /// A controller whose data folder is a file system of `mib` MiB.
    pub async fn boot_on_disk(mib: u64) -> Self {
        Self::boot_on_disk_with(mib, "").await
    }

    /// [`Self::boot_on_disk`] with these lines in the configuration file.
    pub async fn boot_on_disk_with(mib: u64, configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let disk = SmallDisk::mount(folder.path(), &folder.path().join("data"), mib);
        Self::boot_in(folder, Some(disk), configuration).await
    }

    /// A controller whose data folder is a file system of `mib` MiB that can encrypt folders.
    pub async fn boot_on_encrypting_disk(mib: u64, configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = folder.path().join("data");
        let disk = SmallDisk::mount_with(folder.path(), &at, mib, &["-O", "encrypt"]);
        Self::boot_in(folder, Some(disk), configuration).await
    }

    /// Ends the controller with SIGTERM.
    pub fn stop(&mut self) {
        end(&mut self.child.0);
    }

    /// Looks at the file with its disk while that is unmounted. The controller must have ended, and no computer run.
    pub async fn with_disk_unmounted<T>(&self, look: impl Fn(&Path) -> T) -> T {
        let disk = self.disk.as_ref().expect("its own disk");
        let seen = wait::until(CHANGE_TIMEOUT, || async { disk.unmounted(&look) }).await;
        seen.expect("the disk stays in use")
    }

    /// A controller without privileges, with its host helper and these lines in the configuration file.
    pub async fn boot_beside_helper(configuration: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("hotdesk.toml"), configuration).expect("a configuration");
        host_helper::configure(folder.path());
        let helper = HostHelper::start(folder.path()).await;
        let (child, base, key) = start(folder.path()).await;
        let caller = Caller::new(base, "/api", key.expect("the first start shows a key"));
        Self { child, helper: Some(helper), disk: None, folder, caller }
    }

    /// Ends the controller and starts it on the same data without privileges, beside a host helper.
    pub async fn give_up_privileges(&mut self) {
        end(&mut self.child.0);
        host_helper::configure(self.folder.path());
        self.start_helper().await;
        self.start_again().await;
    }

    /// Starts the host helper, after the earlier one has ended.
    pub async fn start_helper(&mut self) {
        self.helper = None;
        self.helper = Some(HostHelper::start(self.folder.path()).await);
    }

    /// Kills the host helper with SIGKILL and reaps it.
    pub fn kill_helper(&mut self) {
        self.helper.as_mut().expect("a helper").kill();
    }

    async fn boot_in(folder: TempDir, disk: Option<SmallDisk>, configuration: &str) -> Self {
        std::fs::write(folder.path().join("hotdesk.toml"), configuration).expect("a configuration");
        if disk.is_none() {
            link_agent(&folder.path().join("data"));
        }
        let (child, base, key) = start(folder.path()).await;
        let caller = Caller::new(base, "/api", key.expect("the first start shows a key"));
        Self { child, helper: None, disk, folder, caller }
    }

    /// A controller among several, at this address and with the data in `folder`. Its first one shows the key; further ones
    /// get it.
    pub async fn join(folder: TempDir, listen: SocketAddr, configuration: &str, key: Option<String>) -> Self {
        std::fs::write(folder.path().join("listen"), listen.to_string()).expect("a file");
        std::fs::write(folder.path().join("hotdesk.toml"), configuration).expect("a configuration");
        link_agent(&folder.path().join("data"));
        let (child, base, shown) = start(folder.path()).await;
        let caller = Caller::new(base, "/api", shown.or(key).expect("the first start shows a key"));
        Self { child, helper: None, disk: None, folder, caller }
    }

    /// A controller, the id of its workspace and the id of its running computer. Where no computer can run,
    /// prints the reason and returns `None`.
    pub async fn with_a_computer() -> Option<(Self, String, String)> {
        if let Some(skip) = skip_reason() {
            skip.report();
            return None;
        }
        let controller = Self::boot().await;
        let workspace = controller.workspace("demo").await;
        let id = id_of(&controller.computer(&workspace, "one").await);
        Some((controller, workspace, id))
    }

    /// Stops the controller with SIGTERM and starts it again on the same data.
    pub async fn restart(&mut self) {
        end(&mut self.child.0);
        self.start_again().await;
    }

    /// Kills the controller with SIGKILL and reaps it.
    pub fn kill(&mut self) {
        match self.child.0.kill() {
            // A tracer has killed and reaped it.
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => {}
            killed => killed.expect("the controller runs"),
        }
        self.reap();
    }

    /// Reaps a controller that was killed by its process id.
    pub fn reap(&mut self) {
        match self.child.0.wait() {
            // A tracer has reaped it.
            Err(error) if error.raw_os_error() == Some(nix::libc::ECHILD) => {}
            ended => {
                ended.expect("the controller ends");
            }
        }
    }

    /// Simulates a power loss of the host: the disk stops, the controller and its computers end, and the disk
    /// is mounted again. The controller must have its own disk.
    ///
    /// # Errors
    /// The kernel cannot shut the file system down. Only the controller has ended then.
    pub async fn lose_power(&mut self) -> Result<(), String> {
        let cut = self.disk.as_ref().expect("its own disk").cut_power();
        self.kill();
        cut?;
        let data = std::fs::canonicalize(self.folder.path()).expect("a folder").join("data");
        let remounted = wait::until(CHANGE_TIMEOUT, || async {
            machines_of(&data).iter().for_each(|id| kill(id));
            self.disk.as_ref().expect("a disk").remount().then_some(())
        });
        assert!(remounted.await.is_some(), "the disk stays in use");
        Ok(())
    }

    /// Sends SIGTERM. The caller waits with [`RunningController::ended`].
    pub fn terminate(&self) {
        let pid = nix::unistd::Pid::from_raw(self.child.0.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("the controller runs");
    }

    /// Waits for the controller's end and returns its exit status.
    pub async fn ended(&mut self, timeout: Duration) -> std::process::ExitStatus {
        let child = &mut self.child.0;
        let deadline = std::time::Instant::now() + timeout;
        loop {
            if let Some(status) = child.try_wait().expect("a child process") {
                return status;
            }
            assert!(std::time::Instant::now() < deadline, "the controller runs after {timeout:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn start_again(&mut self) {
        let (child, base, key) = start(self.folder.path()).await;
        assert!(key.is_none(), "a key is shown only once");
        (self.child, self.caller.base) = (child, base);
    }

    /// The folder with the configuration, the data and the log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The log since the first start.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).expect("a log")
    }

    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The file of the store.
    pub fn store_file(&self) -> PathBuf {
        let apart = self.data_dir().join("store/hotdesk.db");
        if apart.exists() { apart } else { self.data_dir().join("hotdesk.db") }
    }

    /// `http://ADDR:PORT`.
    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Creates a workspace and returns its id.
    pub async fn workspace(&self, name: &str) -> String {
        id_of(&self.create("/workspaces", json!({ "name": name })).await)
    }

    /// Creates a running computer and returns its record.
    pub async fn computer(&self, workspace: &str, name: &str) -> Value {
        self.create("/computers", json!({ "workspace_id": workspace, "name": name })).await
    }

    /// Performs an action on a computer, for example `click`.
    pub async fn act(&self, id: &str, action: &str, body: Value) -> HttpAnswer {
        self.post(&format!("/computers/{id}/{action}"), body).await
    }

    /// The record of a computer, without the fields that only a GET has.
    pub async fn record(&self, id: &str) -> Value {
        let got = self.get(&format!("/computers/{id}")).await;
        assert_eq!(got.status, 200, "{}", got.body);
        common(got.body)
    }

    /// The machine ids in the engine's folder.
    pub fn machines(&self) -> Vec<String> {
        names_in(&self.data_dir().join("machines"))
    }

    /// The names of the stored blobs of `kind`: `files` or `screenshots`.
    pub fn blobs(&self, kind: &str) -> Vec<String> {
        names_in(&self.data_dir().join("blobs").join(kind))
    }

    /// The engine's folder of a computer.
    pub fn machine(&self, id: &str) -> PathBuf {
        self.data_dir().join("machines").join(id)
    }

    /// The host's process id of process 1 of a running computer.
    pub fn init_pid(&self, id: &str) -> i32 {
        let path = self.data_dir().join("runtime").join(id).join("state.json");
        let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let state: Value = serde_json::from_slice(&text).expect("the runtime's record");
        let pid = state["init_process_pid"].as_i64().expect("a process id");
        i32::try_from(pid).expect("a process id")
    }

    /// Sends raw bytes and reads the response until the close: for requests that no HTTP client sends. The
    /// bytes must contain `Connection: close`.
    pub async fn raw(&self, bytes: &[u8]) -> (u16, String) {
        let mut stream = tokio::net::TcpStream::connect(self.address()).await.expect("a connection");
        stream.write_all(bytes).await.expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no status in {answer:?}")), answer)
    }

    /// [`Self::raw`] for a request line and further header lines; adds the key.
    pub async fn raw_request(&self, line: &str) -> (u16, String) {
        let host = self.address();
        let key = &self.key;
        let head = format!(
            "{line}\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        self.raw(head.as_bytes()).await
    }

    /// Waits until a computer has a status, and returns its record.
    pub async fn until_status(&self, id: &str, status: &str) -> Value {
        let found = wait::until(CHANGE_TIMEOUT, || async {
            let seen = self.get(&format!("/computers/{id}")).await.body;
            (seen["status"] == status).then(|| common(seen))
        });
        let Some(found) = found.await else {
            let seen = self.get(&format!("/computers/{id}")).await.body;
            panic!("computer {id} did not become {status}: {seen}")
        };
        found
    }

    /// Runs a command on a computer and returns its output.
    pub async fn bash(&self, id: &str, command: &str) -> String {
        let ran = self.post(&format!("/computers/{id}/bash"), json!({ "command": command })).await;
        assert_eq!(ran.status, 200, "{}", ran.body);
        ran.body["output"].as_str().expect("output").to_owned()
    }
}

impl Drop for RunningController {
    fn drop(&mut self) {
        end(&mut self.child.0);
        drop(self.helper.take());
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!(
                "the controller's last lines:\n{}",
                lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
            );
        }
        purge(&self.data_dir());
        drop(self.disk.take());
    }
}

/// Removes the computers of a data folder with `hotdesk purge`, in whatever state a test left them. No
/// controller may use the folder. The test fails when anything of the computers remains on the host.
pub fn purge(data: &Path) {
    let machines = names_in(&data.join("machines"));
    let mut purge = Command::new(program());
    remove_test_variables(&mut purge);
    // The purge must work without an image: an operator may have removed it first.
    purge.args(["purge", "--yes", "--image", "/nowhere", "--data-dir"]).arg(data);
    let purged = output_within(&mut purge, PURGE_TIMEOUT);
    let reported = |it: &Output| String::from_utf8_lossy(&it.stdout).contains("Removed ");
    let done = purged.as_ref().is_ok_and(|it| it.status.success() && reported(it));
    check_cleanup(done, || format!("the computers of {} could not be removed: {purged:?}", data.display()));
    let own = format!("{}/", data.display());
    let disk = || loop_files().into_iter().find(|file| file.starts_with(&own));
    let left = machines.iter().find_map(|id| find_leftover(id)).or_else(disk);
    check_cleanup(left.is_none(), || format!("found on the host after the purge: {left:?}"));
}

/// The command `hotdesk serve` with its data in `folder`.
pub fn command(folder: &Path) -> Command {
    command_of("serve", folder)
}

/// The command `hotdesk serve` or `hotdesk host` with its data in `folder`.
pub fn command_of(name: &str, folder: &Path) -> Command {
    let mut command = Command::new(program());
    let listen = std::fs::read_to_string(folder.join("listen")).unwrap_or_else(|_| "127.0.0.1:0".to_owned());
    command.args([name, "--listen", &listen, "--config"]).arg(folder.join("hotdesk.toml"));
    command.arg("--data-dir").arg(folder.join("data"));
    let chosen = std::fs::read_to_string(folder.join("image"));
    command.arg("--image").arg(chosen.map_or_else(|_| image_or_empty(folder), PathBuf::from));
    remove_test_variables(&mut command);
    let file = std::fs::read_to_string(folder.join("hotdesk.toml")).unwrap_or_default();
    if !file.contains("[engines]") {
        command.args(["--isolations", "shared"]);
    }
    if !file.contains("[boot_snapshots]") {
        // A boot in the background takes half of a test machine's processors.
        command.env("HOTDESK_BOOT_SNAPSHOTS__KEEP", "0");
    }
    command
}

/// Variables of the tests, which hotdesk refuses as unknown settings.
const TEST_VARIABLES: [&str; 6] = [
    "HOTDESK_FIGURES",
    "HOTDESK_PICTURES",
    "HOTDESK_PROOF",
    "HOTDESK_SEED",
    "HOTDESK_ROUNDS",
    "HOTDESK_TEST_POSTGRES",
];

/// Removes the variables of the tests from the environment of a program that reads settings from it.
pub fn remove_test_variables(command: &mut Command) {
    for variable in TEST_VARIABLES {
        command.env_remove(variable);
    }
}

async fn start(folder: &Path) -> (OwnedChild, String, Option<String>) {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).expect("a log");
    let mut key = None;
    let find = move |line: &str| {
        if let Some(shown) = line.strip_prefix("account key (shown once): ") {
            key = Some(shown.to_owned());
        }
        line.strip_prefix("listening on ").map(|address| (address.to_owned(), key.take()))
    };
    let (child, (base, key)) =
        OwnedChild::spawn_until_ready(command(folder).stderr(log), START_TIMEOUT, find).await;
    (child, base, key)
}

/// Removes the fields that only a GET of a computer has.
fn common(mut record: Value) -> Value {
    if let Some(fields) = record.as_object_mut() {
        fields.remove("auto_stop");
        fields.remove("billing");
    }
    record
}
