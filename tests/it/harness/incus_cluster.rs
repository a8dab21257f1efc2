//! Incus cluster in network namespaces of this machine (`packaging/dev/incus-cluster`); the drop ends it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::capability::{Capability, Skip};
use super::check_cleanup;
use super::controller::{RunningController, image, remove_test_variables, runsc, skip_reason};
use super::program::program;
use crate::floors::root;

/// Programs of the packages that `packaging/dev/deps test` installs.
const PROGRAMS: [&str; 4] =
    ["/usr/libexec/incus/incusd", "/usr/bin/incus", "/usr/sbin/dnsmasq", "/usr/bin/btrfs"];

/// How a controller reaches the cluster.
#[derive(Clone, Copy, Debug)]
pub enum Route {
    /// By the unix socket of the first member.
    Socket,
    /// By TLS with certificates, to the first member.
    Tls,
}

pub struct IncusCluster {
    folder: TempDir,
}

impl IncusCluster {
    /// Starts a cluster; where that is not possible, prints the reason and returns `None`.
    pub fn start(members: usize) -> Option<Self> {
        Self::begin("up", &[&members.to_string()])
    }

    /// Starts one server without a cluster and without a bridge for computers, under the same conditions.
    pub fn start_alone() -> Option<Self> {
        Self::begin("alone", &[])
    }

    fn begin(verb: &str, arguments: &[&str]) -> Option<Self> {
        let missing = PROGRAMS.into_iter().find(|program| !Path::new(program).exists());
        let missing = missing.map(|program| {
            Skip::new(Capability::Incus, format!("{program} does not exist (packaging/dev/deps test)"))
        });
        if let Some(skip) = skip_reason().or(missing) {
            skip.report();
            return None;
        }
        let this = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        this.run(verb, arguments);
        Some(this)
    }

    /// Runs a command of the script; returns its output.
    pub fn run(&self, verb: &str, arguments: &[&str]) -> String {
        let output = self.script(verb, arguments).output().expect("the script runs");
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(output.status.success(), "{verb}: {text} {}", String::from_utf8_lossy(&output.stderr));
        text
    }

    fn script(&self, verb: &str, arguments: &[&str]) -> Command {
        let mut script = Command::new(root().join("packaging/dev/incus-cluster"));
        script.arg(self.folder.path()).arg(verb).args(arguments);
        script
    }

    /// The unix socket of the first member.
    pub fn socket(&self) -> PathBuf {
        self.file("m1/unix.socket")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Configuration lines of a controller.
    pub fn configuration(&self, route: Route) -> String {
        let server = match route {
            Route::Socket => format!("url = {:?}\n", self.socket()),
            Route::Tls => {
                let (certificate, key) = (self.file("client.crt"), self.file("client.key"));
                let mut openssl = Command::new("openssl");
                openssl
                    .args([
                        "req",
                        "-x509",
                        "-newkey",
                        "ec",
                        "-pkeyopt",
                        "ec_paramgen_curve:prime256v1",
                        "-nodes",
                    ])
                    .args(["-days", "2", "-subj", "/CN=hotdesk", "-keyout"])
                    .arg(&key)
                    .arg("-out")
                    .arg(&certificate);
                let made = openssl.output().expect("openssl");
                assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
                self.run("add-client", &[&certificate.to_string_lossy()]);
                format!(
                    "url = {:?}\ncertificate_file = {certificate:?}\nkey_file = {key:?}\nfingerprint = {:?}\n",
                    self.run("address", &[]),
                    self.run("fingerprint", &[]),
                )
            }
        };
        format!(
            "[engines]\noffered = \"shared\"\n[engines.incus]\npool = \"local\"\nnetwork = \"desk0\"\n{server}"
        )
    }

    /// [`Self::configuration`] of a controller whose computers may run under gVisor, which is their default. Where that is
    /// missing, prints the reason and returns `None`.
    pub fn sandbox_configuration(&self, route: Route) -> Option<String> {
        let runtime = find_runsc()?;
        let offered = format!("offered = \"sandbox, shared\"\nrunsc = {runtime:?}\n");
        Some(self.configuration(route).replacen("offered = \"shared\"\n", &offered, 1))
    }

    /// Publishes the image of the tests with the configuration of a controller.
    pub fn publish(&self, controller: &RunningController) {
        self.hotdesk(controller, &["image", "publish"], &image());
    }

    /// Runs an operator's command with the configuration of a controller and this image; returns its output and its progress.
    pub fn hotdesk(&self, controller: &RunningController, words: &[&str], image: &Path) -> (String, String) {
        let output = self.command(controller, words, image).output().expect("hotdesk");
        let [text, progress] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(output.status.success(), "{words:?}: {text} {progress}");
        (text, progress)
    }

    /// An operator's command with the configuration of a controller and this image.
    pub fn command(&self, controller: &RunningController, words: &[&str], image: &Path) -> Command {
        let mut command = Command::new(program());
        command.args(words).arg("--config").arg(controller.folder().join("hotdesk.toml"));
        command.arg("--data-dir").arg(controller.data_dir()).arg("--image").arg(image);
        remove_test_variables(&mut command);
        command
    }

    /// The members whose pool has an unpacked image, in ascending order; a member occurs for each image.
    pub fn image_members(&self) -> Vec<String> {
        let list = ["1", "storage", "volume", "list", "local", "type=image", "-f", "csv", "-c", "L"];
        let listed = self.run("incus", &list);
        let mut members: Vec<String> = listed.lines().map(str::to_owned).collect();
        members.sort();
        members
    }

    /// The volumes with guest images as `name,member`, in ascending order.
    pub fn base_volumes(&self) -> Vec<String> {
        let list = ["1", "storage", "volume", "list", "local", "type=custom", "-f", "csv", "-c", "nL"];
        let listed = self.run("incus", &list);
        let mut volumes: Vec<String> = listed.lines().map(str::to_owned).collect();
        volumes.sort();
        volumes
    }

    /// A column of the instances, for each of them: `n` is the name, `s` the status, `L` the member.
    pub fn instances(&self, column: &str) -> Vec<String> {
        let listed = self.run("incus", &["1", "list", "-f", "csv", "-c", column]);
        listed.lines().map(str::to_owned).collect()
    }
}

/// Path of gVisor's runtime. Where it is missing, prints the reason and returns `None`.
pub fn find_runsc() -> Option<String> {
    let runtime = runsc();
    if Path::new(&runtime).exists() {
        return Some(runtime);
    }
    let why = format!("{runtime} does not exist (packaging/dev/deps test)");
    Skip::new(Capability::Gvisor, why).report();
    None
}

impl Drop for IncusCluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.file("m1.log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!(
                "the first member's last lines:\n{}",
                lines[lines.len().saturating_sub(20)..].join("\n")
            );
        }
        let ended = self.script("down", &[]).output();
        let done = ended.as_ref().is_ok_and(|output| output.status.success());
        check_cleanup(done, || format!("the cluster did not end: {ended:?}"));
    }
}
