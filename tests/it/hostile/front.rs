//! A server in front of the controller, which obeys fields of answers: T2 (docs/security.md).

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use hotdesk::base::wait;
use tempfile::TempDir;

use crate::harness;
use crate::harness::capability::Capability;
use crate::harness::fake_agent::FakeAgent;
use crate::harness::port_program;
use crate::harness::ports::free_port;
use crate::harness::process::OwnedChild;
use crate::harness::simulation::Simulation;

const NGINX: &str = "/usr/sbin/nginx";
/// Longest time until the server listens.
const TIMEOUT: Duration = Duration::from_secs(20);
/// A file that only the server in front may read.
const SECRET: &str = "a file of the server in front";
/// Fields that servers obey (nginx, Apache and lighttpd, LiteSpeed, Perlbal).
const STEERING: [&str; 4] = ["x-accel-redirect", "x-sendfile", "x-litespeed-location", "x-reproxy-url"];

/// nginx before a controller at `/`, and before a program that no controller protects at `/direct`.
struct Front {
    base: String,
    folder: TempDir,
    _unprotected: FakeAgent,
    _child: OwnedChild,
}

impl Front {
    /// Without nginx, prints the reason and returns `None`.
    async fn before(controller: &str, answer: &str) -> Option<Self> {
        if !Path::new(NGINX).exists() {
            Capability::Rtmp.skip("no nginx (make deps-test)");
            return None;
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().display();
        std::fs::create_dir(folder.path().join("files")).expect("a folder");
        std::fs::write(folder.path().join("files/secret"), SECRET).expect("a file");
        let unprotected = FakeAgent::at(&folder.path().join("direct.sock"), answer);
        let configuration = format!(
            "daemon off; master_process off; user root; pid {at}/pid; error_log {at}/log info;\n\
             events {{ worker_connections 64; }}\n\
             http {{ access_log off; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;\n\
               server {{ listen {address};\n\
                 location / {{ proxy_pass http://{controller}; proxy_set_header Host $http_host; }}\n\
                 location /direct {{ proxy_pass http://unix:{at}/direct.sock:/; }}\n\
                 location /internal/ {{ internal; alias {at}/files/; }}\n\
             }} }}\n"
        );
        let file = folder.path().join("nginx.conf");
        std::fs::write(&file, configuration).expect("a configuration");
        let mut command = Command::new(NGINX);
        command.arg("-c").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = OwnedChild(command.spawn().expect("nginx"));
        let listens = || async { TcpStream::connect(address).is_ok().then_some(()) };
        let log = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        wait::until(TIMEOUT, listens).await.unwrap_or_else(|| panic!("nginx does not listen: {}", log()));
        Some(Self { base: format!("http://{address}"), folder, _unprotected: unprotected, _child: child })
    }

    async fn get(&self, path: &str, key: &str) -> reqwest::Response {
        let request = harness::client().get(format!("{}{path}", self.base)).bearer_auth(key);
        request.send().await.unwrap_or_else(|error| {
            panic!("{error}: {}", std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default())
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_a_server_in_front_obeys_no_program_and_no_agent() {
    let fields: String = STEERING.iter().map(|name| format!("{name}: /internal/secret\r\n")).collect();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n{fields}\r\nown");
    let redirects = async || (STEERING.map(|name| (name, "/internal/secret")), "own");
    let routes = Router::new().route("/windows", get(redirects));
    let routes = routes.merge(port_program::answering(answer.clone(), true));
    let controller = Simulation::boot_with(routes).await;
    let computer = controller.computer(&controller.workspace("demo").await, "desk").await;
    let Some(front) = Front::before(controller.address(), &answer).await else { return };
    let obeyed = front.get("/direct", "none").await.text().await.expect("a text");
    assert_eq!(obeyed, SECRET, "nginx obeys what nobody filters");
    assert_eq!(front.get("/internal/secret", "none").await.status(), 404, "and has the file for nobody else");
    for path in
        [format!("/api/computers/{computer}/ports/3000/"), format!("/api/desktops/{computer}/proxy/windows")]
    {
        let answered = front.get(&path, controller.key()).await;
        assert_eq!(answered.status(), 200, "{path}");
        assert!(STEERING.iter().all(|name| !answered.headers().contains_key(*name)), "{path}: {answered:?}");
        assert_eq!(answered.text().await.expect("a text"), "own", "{path}");
    }
}
