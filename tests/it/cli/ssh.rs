//! `hotdesk ssh` and the programs of OpenSSH on real computers.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use serde_json::json;

use super::person::{CommandResult, Shell};
use crate::harness::caller::id_of;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, gvisor, skip_reason};
use crate::harness::process::OwnedChild;
use crate::harness::socket::{Client, SocketEvent};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A controller with a computer `one`, and a person with an SSH key who may use it.
struct Scene {
    controller: RunningController,
    workspace: String,
    id: String,
    shell: Shell,
}

impl Scene {
    /// A scene over runc; `None`, with the reason printed, where it cannot run.
    async fn boot() -> Option<Self> {
        if let Some(skip) = skip_reason() {
            skip.report();
            return None;
        }
        Self::on(RunningController::boot().await).await
    }

    async fn on(controller: RunningController) -> Option<Self> {
        for program in ["ssh", "scp", "sftp", "ssh-keygen", "rsync"] {
            if !PathBuf::from(format!("/usr/bin/{program}")).exists() {
                Capability::Ssh.skip(format_args!("{program} is not installed (packaging/dev/deps test)"));
                return None;
            }
        }
        let workspace = controller.workspace("demo").await;
        let id = id_of(&controller.computer(&workspace, "one").await);
        let shell = Shell::with_key(controller.base(), controller.key());
        let scene = Self { controller, workspace, id, shell };
        for name in ["key", "other"] {
            let make = format!("ssh-keygen -q -t ed25519 -N '' -C 'me {name}' -f {name}");
            scene.shell.run_in_bash(&make).await.expect_success();
        }
        Some(scene)
    }

    async fn add_key(&self) {
        self.shell.run(&["ssh-keys", "add", "key.pub"]).await.expect_success();
    }

    /// Runs `hotdesk ssh one` without the configuration of this host's person.
    async fn ssh(&self, arguments: &[&str]) -> CommandResult {
        self.shell.run(&[&SSH[..], &["-i", "key"], arguments].concat()).await
    }

    /// Writes the printed configuration to a file, with the person's key.
    async fn write_config(&self) {
        let block = self.shell.run(&["ssh-config"]).await.expect_success();
        let key = self.shell.file("key");
        std::fs::write(self.shell.file("config"), format!("{block}    IdentityFile {}\n", key.display()))
            .expect("a file");
    }

    /// A connection that runs `line` and has printed `begun`; its errors go to the file `errors`.
    async fn connection(&self, key: &str, line: &str) -> OwnedChild {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
        command.args([&SSH[..], &["-i", "key", line]].concat()).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOTDESK_URL", self.controller.base()).env("HOTDESK_API_KEY", key);
        let errors = std::fs::File::create(self.shell.file("errors")).expect("a file");
        command.current_dir(self.shell.home()).stdin(Stdio::null()).stderr(errors);
        OwnedChild::spawn_until_ready(&mut command, TIMEOUT, |line| (line == "begun").then_some(())).await.0
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.shell.file("errors")).expect("a file")
    }

    async fn host_key(&self, computer: &str) -> String {
        self.shell.run(&["ssh-known-hosts", computer]).await.expect_success()
    }
}

/// No configuration of this host's person, and no other keys than the given one.
const SSH: [&str; 6] = ["ssh", "one", "-F", "none", "-o", "IdentitiesOnly=yes"];

async fn exit_code(child: &mut OwnedChild) -> Option<i32> {
    let status = wait::until(TIMEOUT, || std::future::ready(child.0.try_wait().expect("a child")));
    status.await.expect("the connection must end").code()
}

#[tokio::test(flavor = "multi_thread")]
async fn ssh_has_exact_streams_and_ends_as_the_command_did() {
    let Some(scene) = Scene::boot().await else { return };
    let refused = scene.ssh(&["true"]).await;
    assert_eq!(refused.code, 255, "{refused:?}");
    assert!(refused.err.contains("hotdesk ssh-keys add") && refused.err.contains("ssh_key_missing"));
    let private = scene.shell.run(&["ssh-keys", "add", "key"]).await;
    private.expect_failure(1, &["is a private key", "add key.pub"]);
    let added = scene.shell.run(&["ssh-keys", "add", "key.pub"]).await.expect_success();
    let fingerprint =
        scene.shell.run_in_bash("ssh-keygen -lf key.pub | cut -d' ' -f2").await.expect_success();
    assert_eq!(added, format!("Added SSH key me key ({}).\n", fingerprint.trim()));
    let listed = scene.shell.run(&["ssh-keys", "list"]).await.expect_success();
    assert!(listed.contains("me key") && listed.contains(fingerprint.trim()), "{listed}");

    let ended = scene.ssh(&["echo out; echo err >&2; exit 7"]).await;
    assert_eq!((ended.code, &*ended.out, &*ended.err), (7, "out\n", "err\n"));
    let bytes = "head -c 3000000 /dev/urandom >sent && hotdesk ssh one -F none -i key 'tee /tmp/copy' <sent >back \
                 && cmp sent back && sha256sum <sent";
    let digest = scene.shell.run_in_bash(bytes).await.expect_success();
    assert_eq!(scene.ssh(&["sha256sum </tmp/copy"]).await.expect_success(), digest);

    let terminal = scene.ssh(&["-tt", "test -t 0 && test -t 1 && tty; exit 4"]).await;
    assert!(terminal.code == 4 && terminal.out.starts_with("/dev/pts/"), "{terminal:?}");
    // A session is one of the desktop, and belongs to the same user as every other command.
    let desktop =
        "echo $DISPLAY $XAUTHORITY $DBUS_SESSION_BUS_ADDRESS $HOME $LANG; id -u; xdotool getdisplaygeometry";
    let by_api = scene.controller.bash(&scene.id, desktop).await;
    assert_eq!(scene.ssh(&[desktop]).await.expect_success(), by_api);

    // The second key of this host was not added.
    let wrong = scene.shell.run(&[&SSH[..], &["-i", "other", "true"]].concat()).await;
    assert_eq!(wrong.code, 255);
    assert!(wrong.err.contains("Permission denied (publickey)"), "{wrong:?}");
    scene.shell.run(&["ssh", "nobody", "true"]).await.expect_failure(255, &["no computer \"nobody\""]);

    // A deleted key opens no further connection, and does not end open ones.
    scene.shell.run(&["ssh-keys", "add", "other.pub"]).await.expect_success();
    let line = "echo begun; until [ -e /tmp/go ]; do sleep 0.1; done; exit 9";
    let mut open = scene.connection(scene.controller.key(), line).await;
    scene.shell.run(&["ssh-keys", "delete", "me key"]).await.expect_success();
    let refused = scene.ssh(&["true"]).await;
    assert!(refused.code == 255 && refused.err.contains("Permission denied"), "{refused:?}");
    scene.controller.bash(&scene.id, "touch /tmp/go").await;
    assert_eq!(exit_code(&mut open).await, Some(9));

    scene.controller.bash(&scene.id, "mv /usr/sbin/sshd /usr/sbin/sshd.away").await;
    let missing = scene.shell.run(&["ssh", "one", "true"]).await;
    missing.expect_failure(255, &["apt-get install openssh-server", "ssh_not_installed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_openssh_reach_computers_by_the_printed_configuration() {
    let Some(scene) = Scene::boot().await else { return };
    scene.add_key().await;
    scene.write_config().await;
    let run = async |line: &str| scene.shell.run_in_bash(line).await;
    run("head -c 300000 /dev/urandom >sent; mkdir -p tree/a; echo 1 >tree/a/b; echo 'ä' >'tree/ü x'").await;
    run("scp -q -F config sent one.hotdesk:/tmp/sent && scp -q -F config one.hotdesk:/tmp/sent back && cmp sent back")
        .await
        .expect_success();
    let sftp =
        "printf 'put sent /tmp/by-sftp\\nget /tmp/by-sftp again\\n' | sftp -q -F config -b - one.hotdesk";
    run(&format!("{sftp} && cmp sent again")).await.expect_success();
    let sync = "rsync -a -e 'ssh -F config'";
    run(&format!(
        "{sync} tree/ one.hotdesk:/tmp/tree/ && {sync} one.hotdesk:/tmp/tree/ copy/ && diff -r tree copy"
    ))
    .await
    .expect_success();

    // A server in the computer, reached through the connection.
    let serve = "cd /tmp && (setsid python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &) ; \
                 until curl -so /dev/null http://127.0.0.1:8123/; do sleep 0.1; done";
    scene.controller.bash(&scene.id, serve).await;
    let forward = "ssh -F config -o ExitOnForwardFailure=yes -f -N -M -S control -L $PWD/port:127.0.0.1:8123 one.hotdesk \
                   && curl -s --unix-socket port http://x/sent | cmp sent - && ssh -F config -S control -O exit one.hotdesk";
    run(forward).await.expect_success();

    // Another host key than the computer's is refused, whatever the person's files say.
    let other = run("cut -d' ' -f1,2 other.pub").await.expect_success();
    let line = format!("ssh -F config -o 'KnownHostsCommand=/bin/echo * {}' one.hotdesk true", other.trim());
    let refused = run(&line).await;
    assert!(refused.code == 255 && refused.err.contains("Host key verification failed"), "{refused:?}");
    let one = scene.shell.run(&["ssh-config", "one"]).await.expect_success();
    assert!(
        one.starts_with("Host one.hotdesk\n") && one.contains(&format!("ssh-proxy {}\n", scene.id)),
        "{one}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn t28_host_keys_belong_to_one_computer() {
    let Some(scene) = Scene::boot().await else { return };
    scene.add_key().await;
    let image = scene.controller.bash(&scene.id, "ls /etc/ssh | grep -c host_ || true").await;
    assert_eq!(image, "0\n", "the image must not have host keys");
    // Two first requests at once make one key.
    let (first, same) = tokio::join!(scene.host_key("one"), scene.host_key("one.hotdesk"));
    assert!(first.starts_with("* ssh-ed25519 ") && first == same, "{first}{same}");
    let own = scene.controller.bash(&scene.id, "cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub").await;
    assert_eq!(first, format!("* {own}"));
    assert_eq!(scene.controller.act(&scene.id, "restart", json!({})).await.status, 200);
    assert_eq!(scene.host_key("one").await, first, "a restart keeps the key");
    let cloned =
        scene.controller.post(&format!("/computers/{}/clone", scene.id), json!({"name": "two"})).await;
    assert_eq!(cloned.status, 201, "{}", cloned.body);
    assert_ne!(scene.host_key("two").await, first);
    // A new computer with the name of an earlier one is no attack.
    assert_eq!(scene.ssh(&["true"]).await.code, 0);
    assert_eq!(scene.controller.delete(&format!("/computers/{}", scene.id)).await.status, 200);
    scene.controller.computer(&scene.workspace, "one").await;
    let again = scene.ssh(&["true"]).await;
    assert_eq!((again.code, &*again.err), (0, ""));
    assert_ne!(scene.host_key("one").await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_with_its_credential_and_its_computer() {
    let Some(scene) = Scene::boot().await else { return };
    scene.add_key().await;
    let created = scene.controller.create("/keys", json!({"name": "laptop"})).await;
    let key = created["key"].as_str().expect("a key").to_owned();
    let line = "echo begun; exec sleep 1234";
    let mut open = scene.connection(&key, line).await;
    let held = async || {
        let record = scene.controller.get(&format!("/computers/{}", scene.id)).await.body;
        let holds = record["auto_stop"]["held_by"].as_array().cloned().unwrap_or_default();
        holds.iter().any(|hold| hold["kind"] == "ssh").then_some(())
    };
    let patched =
        scene.controller.patch(&format!("/computers/{}/auto-stop", scene.id), json!({"minutes": 30})).await;
    assert_eq!(patched.status, 200, "{}", patched.body);
    wait::until(Duration::from_secs(120), held).await.expect("an open connection keeps the computer up");
    assert_eq!(scene.controller.delete(&format!("/keys/{}", id_of(&created))).await.status, 200);
    assert_eq!(exit_code(&mut open).await, Some(255));
    assert!(scene.errors().contains("(4401)"), "{}", scene.errors());

    let mut open = scene.connection(scene.controller.key(), "echo begun; exec sleep 1234").await;
    assert_eq!(scene.controller.act(&scene.id, "stop", json!({})).await.status, 200);
    assert_eq!(exit_code(&mut open).await, Some(255));
    assert!(scene.errors().contains("computer stopping (1001)"), "{}", scene.errors());
    let stopped = scene.shell.run(&["ssh", "one", "true"]).await;
    stopped.expect_failure(255, &["not running"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_have_a_limit_and_leave_nothing_behind() {
    let Some(scene) = Scene::boot().await else { return };
    scene.add_key().await;
    let bearer = format!("Bearer {}", scene.controller.key());
    let path = format!("/api/computers/{}/ssh", scene.id);
    let fields = [("authorization", bearer.as_str())];
    let open = async || Client::open(scene.controller.address(), &path, &fields).await.expect("accepted");
    let mut clients = Vec::new();
    for number in 0..32 {
        let mut client = open().await;
        let first = client.next().await;
        let is_version =
            matches!(&first, SocketEvent::Binary(bytes) if bytes.starts_with(b"SSH-2.0-OpenSSH"));
        assert!(is_version, "connection {number}: {first:?}");
        clients.push(client);
    }
    let SocketEvent::Closed(4500, reason) = open().await.next().await else { panic!("no limit") };
    assert!(reason.contains("32 SSH connections"), "{reason}");
    drop(clients);
    let left = async || {
        let left =
            scene.controller.bash(&scene.id, "pgrep -c sshd; ls /run/hotdesk-agent | grep -c ssh-").await;
        (left == "0\n0\n").then_some(())
    };
    wait::until(TIMEOUT, left).await.expect("servers end with their connections");
    // Text is no SSH.
    let mut client = open().await;
    assert!(matches!(client.next().await, SocketEvent::Binary(_)));
    let text = tokio_tungstenite::tungstenite::Message::text("SSH-2.0-x");
    futures_util::SinkExt::send(&mut client.0, text).await.expect("the socket is open");
    assert!(matches!(client.next().await, SocketEvent::Closed(4500, _)));
}

async fn check_memory_engine(controller: RunningController) {
    let Some(scene) = Scene::on(controller).await else { return };
    scene.add_key().await;
    let ended = scene.ssh(&["-tt", "test -t 0 && tty; exit 6"]).await;
    assert!(ended.code == 6 && ended.out.starts_with("/dev/pts/"), "{ended:?}");
    let bytes = "head -c 300000 /dev/urandom >sent && hotdesk ssh one -F none -i key cat <sent | cmp - sent && echo equal";
    assert_eq!(scene.shell.run_in_bash(bytes).await.expect_success(), "equal\n");
    let mut open = scene.connection(scene.controller.key(), "echo begun; exec sleep 1234").await;
    assert!(scene.controller.act(&scene.id, "suspend", json!({})).await.status < 300);
    assert_eq!(exit_code(&mut open).await, Some(255));
    scene.controller.until_status(&scene.id, "suspended").await;
    // The next connection wakes the computer, whose servers of earlier connections end, with their folders.
    let count = "ls /run/hotdesk-agent | grep -c ssh-";
    let wait = format!("timeout 60 sh -c 'until [ \"$({count})\" = 1 ]; do sleep 0.1; done'; {count}");
    let woken = scene.ssh(&[&wait]).await;
    assert_eq!((woken.code, &*woken.out), (0, "1\n"), "{woken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ssh_wakes_a_computer_over_gvisor() {
    let Some(configuration) = gvisor() else { return };
    check_memory_engine(RunningController::boot_with(&configuration).await).await;
}
