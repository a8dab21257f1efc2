//! Computers over gVisor that begin from the memory of their template: identity, programs, public port and egress policy of a
//! launch, and where the value of its secret is. T3, T10 (docs/security.md).

use std::net::{Ipv4Addr, TcpListener};

use hotdesk::base::hex::hex;
use hotdesk::base::secret::Secret;
use hotdesk::base::wait;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::builds::{build, launch};
use super::services::{TIMEOUT, service, services, status};
use crate::boot_snapshots;
use crate::harness;
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::capability::Capability;
use crate::harness::controller::{RunningController, gvisor};
use crate::harness::network::TestNetwork;
use crate::secrets::Canaries;

/// Port of the servers that a policy permits or refuses.
const PORT: u16 = 8080;
/// A name that the policy permits.
const NAME: &str = "known.test";

/// Prints the trace of the hooks, facts about the file of the secrets, and the SHA-256 of the secret in both of its places. No
/// command line has the value.
const LOOK: &str = "cat /root/trace; stat -L -c '%a %U' /root/.env; stat -f -L -c %T /root/.env; \
    (. /root/.env; printf %s \"$API_KEY\") | sha256sum; cat /opt/token | sha256sum";

/// Prints for each name whether the name server refuses it; `none` without a name server.
const ASK: &str = r#"
import socket, struct, sys
servers = [line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver")]
for name in sys.argv[1:] if servers else []:
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.settimeout(60)
    link.connect((servers[0], 53))
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    link.send(struct.pack(">6H", 7, 256, 1, 0, 0, 0) + labels + b"\0\0\1\0\1")
    print(name, "refused" if link.recv(1500)[3] & 15 == 5 else "answered")
if not servers:
    print("none")
"#;

/// A template of one layer, whose build boots twice: for the layer, and to check its service with the secret.
fn content(network: &TestNetwork) -> String {
    format!(
        "secrets: [{{name: api_key}}]\n\
         files: [{{to: /opt/token, from: 'secret://api_key'}}]\n\
         hooks:\n  on_first_boot: echo first >>/root/trace\n  on_every_boot: echo every >>/root/trace\n  \
         on_resume: echo resumed >>/root/trace\n\
         egress_policy: {{mode: allow, rules: [{NAME}, {}/32]}}\n\
         apps:\n  - name: web\n    ports: [{{internal: 3000, protocol: http, public: true}}]\n    services:\n      \
         - {{name: site, cwd: /srv, run: exec python3 -m http.server 3000}}\n",
        network.public
    )
}

/// Two launches of one template, and what they may reach.
struct Scene {
    controller: RunningController,
    network: TestNetwork,
    /// At an address of the policy, and at another one.
    _servers: [TcpListener; 2],
    secrets: Canaries,
    /// Expected output of [`LOOK`].
    look: String,
    launches: [String; 2],
}

impl Scene {
    async fn boot(configuration: &str) -> Self {
        let settings = format!("log = \"trace\"\n{configuration}{}", boot_snapshots::ON);
        let controller = RunningController::boot_with(&settings).await;
        let network = TestNetwork::new();
        let servers = [network.public, network.more[0]].map(|address| network.listens(address, PORT));
        let mut secrets = Canaries::default();
        let value = secrets.record("the secret of a template", Secret::random(24).reveal());
        let digest = hex(&Sha256::digest(&value));
        let look = format!("first\nevery\n600 root\ntmpfs\n{digest}  -\n{digest}  -\n");
        let stored = controller.request(Method::PUT, "/secrets/API_KEY").json(&json!({ "value": value }));
        assert!(fetch_json(stored).await.status < 300);

        let built = build(&controller, "lab@1.0.0", &content(&network)).await;
        assert_eq!(built["status"], "ready", "{built}");
        boot_snapshots::until_there_is_one(&controller).await;
        let workspace = controller.workspace("w").await;
        let [one, two] = [
            launch(&controller, &workspace, "one", "lab@1.0.0").await,
            launch(&controller, &workspace, "two", "lab@1.0.0").await,
        ];
        assert_eq!((one.status, two.status), (201, 201), "{} {}", one.body, two.body);
        boot_snapshots::expect_begun(&controller, 2).await;
        let launches = [id_of(&one.body), id_of(&two.body)];
        Self { controller, network, _servers: servers, secrets, look, launches }
    }

    /// What identifies a computer to its programs and to clients.
    async fn identity(&self, id: &str) -> Vec<String> {
        let printed = self.controller.bash(id, &boot_snapshots::IDENTITY.join("; echo ,; ")).await;
        let mut identity: Vec<String> = printed.split(",\n").map(str::to_owned).collect();
        assert_eq!(identity.len(), boot_snapshots::IDENTITY.len(), "{printed}");
        let record = self.controller.record(id).await;
        identity.extend(["vnc_password", "instance_id", "ip"].map(|own| record[own].to_string()));
        identity
    }

    /// Asserts that the programs of a launch run, and that anybody reaches its public port.
    async fn check_programs(&self, id: &str) {
        services(&self.controller, id, |list| status(list, "site") == "running").await;
        assert_eq!(self.controller.bash(id, LOOK).await, self.look);
        let client = harness::client();
        let url = format!("{}/api/computers/{id}/ports/3000/", self.controller.base());
        let page = wait::until(TIMEOUT, || async {
            let answer = client.get(&url).send().await.expect("an answer");
            if answer.status() == 200 { answer.text().await.ok() } else { None }
        });
        let page = page.await.expect("the service answers without a key");
        assert!(page.contains("Directory listing"), "{page}");
    }

    /// Whether a computer connects to an address.
    async fn reaches(&self, id: &str, address: Ipv4Addr) -> bool {
        let connect = format!(
            "python3 -c 'import socket; socket.create_connection((\"{address}\", {PORT}), 60)' 2>/dev/null && echo yes || echo no"
        );
        self.controller.bash(id, &connect).await == "yes\n"
    }

    /// Asserts that a launch has the policy of its template. `engines/egress.rs` has the addresses of names.
    async fn check_policy(&self, id: &str) {
        assert!(self.reaches(id, self.network.public).await, "an address of the policy");
        assert!(!self.reaches(id, self.network.more[0]).await, "another address");
        let ask = format!("python3 - {NAME} other.test <<'END'{ASK}END");
        let answers = self.controller.bash(id, &ask).await;
        if answers == "none\n" {
            return Capability::Host.skip("this host has no name server for its computers");
        }
        assert_eq!(answers, format!("{NAME} answered\nother.test refused\n"));
    }

    /// Asserts that neither the service nor the host has the secret: in layers, the memory of the template, disks, store, log
    /// and processes. In the computers no process has it in its environment or its arguments.
    async fn check_secret(&self) {
        let (controller, secrets) = (&self.controller, &self.secrets);
        for id in &self.launches {
            let shown =
                "sync; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; true";
            let shown = controller.bash(id, shown).await;
            assert!(shown.contains("PATH=") && secrets.find_in_text(&shown).is_empty(), "{shown}");
        }
        assert_eq!(controller.machines().len(), 3, "the third one has the memory of the template");
        assert_eq!(secrets.find_in_files(&controller.data_dir()), []);
        assert!(secrets.find_in_text(&controller.log()).is_empty(), "the log has the secret");
        let (shown, searched) = secrets.find_in_processes();
        assert!(shown.is_empty() && searched > 2, "{shown:#?}");
    }

    /// Asserts that a snapshot with memory has what the memory had, and that its launch gets the secret anew.
    async fn check_saved_memory(&self) {
        let (controller, one) = (&self.controller, &self.launches[0]);
        let made = controller.act(one, "snapshots", json!({"name": "saved", "memory": true})).await;
        assert_eq!(made.status, 201, "{}", made.body);
        let (found, own) = (self.secrets.find_in_files(&controller.data_dir()), controller.machine(one));
        assert!(!found.is_empty() && found.iter().all(|(path, _)| path.starts_with(&own)), "{found:?}");
        let forked = controller.act(one, "fork", json!({"snapshot_id": made.body["id"]})).await;
        assert_eq!(forked.status, 201, "{}", forked.body);
        assert_eq!(controller.bash(&id_of(&forked.body), LOOK).await, self.look);
    }

    /// Asserts that services go on after a wake, under their supervisor, and that the hook of the wake runs.
    async fn check_wake(&self) {
        let (controller, one) = (&self.controller, &self.launches[0]);
        let before = services(controller, one, |list| status(list, "site") == "running").await;
        let pid = &service(&before, "site")["pid"];
        for verb in ["suspend", "resume"] {
            let done = controller.act(one, verb, json!({})).await;
            assert_eq!(done.status, 200, "{verb}: {}", done.body);
        }
        let woken = services(controller, one, |list| {
            let hooks = list["hooks"].as_array().map(Vec::as_slice).unwrap_or_default();
            hooks.iter().any(|hook| hook["name"] == "on_resume" && hook["status"] == "succeeded")
        })
        .await;
        assert_eq!(&service(&woken, "site")["pid"], pid);
        assert_eq!(controller.bash(one, "cat /root/trace").await, "first\nevery\nresumed\n");
        // The supervisor still sees that a program ends.
        controller.bash(one, &format!("kill -9 {pid}")).await;
        services(controller, one, |list| {
            status(list, "site") == "running" && &service(list, "site")["pid"] != pid
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t10_launches_from_the_memory_of_a_template_are_computers_of_their_own() {
    let Some(configuration) = gvisor() else { return };
    let scene = Scene::boot(&configuration).await;
    let [one, two] = &scene.launches;
    for (own, other) in scene.identity(one).await.iter().zip(&scene.identity(two).await) {
        assert!(!own.trim().is_empty() && own != "null" && own != other, "{own} and {other}");
    }
    for id in [one, two] {
        scene.check_programs(id).await;
        scene.check_policy(id).await;
    }
    scene.check_secret().await;
    scene.check_saved_memory().await;
    scene.check_wake().await;
    // It was the policy that refused the address.
    let path = format!("/computers/{two}/egress-policy");
    let without = json!({"egress_policy": Value::Null});
    let removed = fetch_json(scene.controller.request(Method::PUT, &path).json(&without)).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert!(scene.reaches(two, scene.network.more[0]).await, "without a policy");
}
