//! Verification of e-mail addresses by a real mail server. A90 (docs/authentication-rules.md), T29 (docs/security.md).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;
use hotdesk::controller::config::{Config, SmtpSettings, SmtpTls};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::python;
use crate::harness::browser::{Browser, PASSWORD, person};
use crate::harness::capability::Capability;
use crate::harness::process::OwnedChild;
use crate::harness::simulation::Simulation;

/// Longest time until a mail arrives or a server is ready, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
const USER: &str = "desk";
const MAIL_PASSWORD: &str = "a password of the mail server";

/// A mail server and its mails.
struct MailServer {
    _process: OwnedChild,
    folder: TempDir,
    port: u16,
}

impl MailServer {
    /// Starts a server; `None` where Python's mail server is missing.
    async fn start(options: &[&str]) -> Option<Self> {
        let python = python()?;
        let installed = Command::new(&python).args(["-c", "import aiosmtpd"]).stderr(Stdio::null()).status();
        if !installed.is_ok_and(|status| status.success()) {
            Capability::Python.skip("no mail server (make deps-test)");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(python);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/smtp_server.py")).arg(folder.path());
        command.args(options).stdin(Stdio::piped());
        let find = |line: &str| line.trim().parse::<u16>().ok();
        let (process, port) = OwnedChild::spawn_until_ready(&mut command, TIMEOUT, find).await;
        Some(Self { _process: process, folder, port })
    }

    /// The settings of a controller that uses it, unencrypted.
    fn settings(&self) -> SmtpSettings {
        SmtpSettings {
            host: "127.0.0.1".to_owned(),
            port: self.port,
            tls: SmtpTls::None,
            from: "hotdesk <desk@desk.example>".to_owned(),
            ..SmtpSettings::default()
        }
    }

    /// The mail with this number, once it arrived.
    async fn mail(&self, number: u32) -> Value {
        let path = self.folder.path().join(format!("{number}.json"));
        let read = wait::until(TIMEOUT, || std::future::ready(fs::read(&path).ok())).await;
        serde_json::from_slice(&read.unwrap_or_else(|| panic!("no mail {number}"))).expect("JSON")
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.folder.path()).expect("the folder").next().is_none()
    }
}

/// Path and query of the link in a mail, which must lead to the public URL.
fn link(mail: &Value) -> String {
    let text = mail["text"].as_str().expect("a text");
    let line =
        text.lines().find(|line| line.contains("/verify-email")).unwrap_or_else(|| panic!("no link: {text}"));
    line.trim().strip_prefix("http://desk.example").expect("the public URL").to_owned()
}

fn token(link: &str) -> &str {
    link.split_once("token=").expect("a token").1
}

async fn boot(smtp: SmtpSettings) -> Simulation {
    Simulation::boot_configured(Config {
        public_url: "http://desk.example".to_owned(),
        smtp,
        ..Config::default()
    })
    .await
}

async fn invite(controller: &Simulation, workspace: &str, email: &str) -> String {
    let body = json!({"email": email, "permission": "viewer"});
    let answer = controller.post(&format!("/workspaces/{workspace}/invite"), body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["token"].as_str().expect("a token").to_owned()
}

/// Makes an account by an invitation and returns its browser.
async fn join_anew(controller: &Simulation, token: &str) -> Browser {
    let mut browser = Browser::new(&controller.base);
    let fields = [("token", token), ("full_name", "N"), ("password", PASSWORD)];
    let entered = browser.send("/invitation/account", &fields).await;
    assert_eq!(entered.status, 303, "{}", entered.text);
    browser.adopt_session(&entered).await;
    browser
}

async fn members(controller: &Simulation, workspace: &str) -> Value {
    controller.get(&format!("/workspaces/{workspace}/members")).await.body["members"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a90_an_address_counts_once_its_mailed_link_was_opened_by_its_account() {
    let Some(server) = MailServer::start(&["--busy", "1"]).await else { return };
    let controller = boot(server.settings()).await;
    let (home, other) = (controller.workspace("home").await, controller.workspace("other").await);
    let first = invite(&controller, &home, "new@x.example").await;
    let open = Browser::new(&controller.base).get(&format!("/invitation?token={first}")).await;
    assert!(open.text.contains("is then mailed"), "{}", open.text);
    let new = join_anew(&controller, &first).await;
    // The server refused the first attempt.
    let mail = server.mail(0).await;
    assert_eq!((&mail["to"], &mail["refused"]), (&json!(["new@x.example"]), &json!(1)));
    assert_eq!(mail["from"], "desk@desk.example");
    let link = link(&mail);

    // Who made the account may use what it was invited to, and nothing that the address gives.
    assert_eq!(members(&controller, &home).await[1]["email_verified"], json!(false));
    let second = invite(&controller, &other, "new@x.example").await;
    let page = new.get(&format!("/invitation?token={second}")).await;
    assert!(page.text.contains("not confirmed yet") && !page.text.contains(">Join<"), "{}", page.text);
    let refused = new.post("/invitation", &[("token", &second)]).await;
    assert!(refused.status == 403 && refused.text.contains("not confirmed"), "{}", refused.text);
    assert!(new.get("/settings").await.text.contains("Send the link again"));
    assert!(new.get(&format!("/settings/workspaces/{home}")).await.text.contains("address not confirmed"));

    // The link works only for its account, only by a form, and once.
    let stranger = Browser::new(&controller.base).get(&link).await;
    assert_eq!((stranger.status, stranger.location().starts_with("/sign-in?next=")), (303, true));
    person(&controller.store().await, "eve@x.example").await;
    let eve = Browser::signed_in(&controller.base, "eve@x.example").await;
    assert!(eve.get(&link).await.text.contains("another account"));
    assert_eq!(eve.post("/verify-email", &[("token", token(&link))]).await.status, 404);
    assert_eq!(new.get(&link).await.status, 200);
    assert_eq!(new.send("/verify-email", &[("token", token(&link))]).await.status, 403, "no CSRF token");
    assert_eq!(members(&controller, &home).await[1]["email_verified"], json!(false), "nothing was spent");
    assert_eq!(new.post("/verify-email", &[("token", token(&link))]).await.status, 303);
    assert_eq!(new.post("/verify-email", &[("token", token(&link))]).await.status, 404);
    assert_eq!(members(&controller, &home).await[1]["email_verified"], json!(true));
    assert!(new.get("/settings").await.text.contains("The address is confirmed"));
    assert_eq!(new.post("/invitation", &[("token", &second)]).await.status, 303);
    // A confirmed address gets no more mail.
    assert_eq!(new.post("/settings/email", &[]).await.status, 303);
    let stored = fs::read(controller.store_file()).expect("the store");
    let log = fs::read(controller.store_file().with_extension("db-wal")).unwrap_or_default();
    let shown = |bytes: &[u8]| bytes.windows(43).any(|window| window == token(&link).as_bytes());
    assert!(!shown(&stored) && !shown(&log), "the store must only have the digest of the token");
}

#[tokio::test(flavor = "multi_thread")]
async fn a90_links_end_with_their_time_and_the_next_and_mails_are_few() {
    let Some(server) = MailServer::start(&[]).await else { return };
    let controller = boot(server.settings()).await;
    let home = controller.workspace("home").await;
    let new = join_anew(&controller, &invite(&controller, &home, "new@x.example").await).await;
    let first = link(&server.mail(0).await);
    let limited = new.post("/settings/email", &[]).await;
    assert_eq!(limited.status, 429, "{}", limited.text);
    controller.sql("UPDATE email_verifications SET created_at = created_at - 61000").await;
    assert_eq!(new.post("/settings/email", &[]).await.location(), "/settings?mailed=true");
    let second = link(&server.mail(1).await);
    assert_eq!(new.get(&first).await.status, 404, "replaced");
    controller.sql("UPDATE email_verifications SET expires_at = 1").await;
    assert_eq!(new.get(&second).await.status, 404, "expired");
    assert_eq!(new.post("/verify-email", &[("token", token(&second))]).await.status, 404);
    controller.sql("UPDATE email_verifications SET created_at = created_at - 61000, sent = 5").await;
    assert_eq!(new.post("/settings/email", &[]).await.status, 429, "five a day");
}

#[tokio::test(flavor = "multi_thread")]
async fn a90_without_a_mail_server_the_pages_say_so_and_invitations_work_as_before() {
    let controller = Simulation::boot().await;
    let (home, other) = (controller.workspace("home").await, controller.workspace("other").await);
    let token = invite(&controller, &home, "new@x.example").await;
    let open = Browser::new(&controller.base).get(&format!("/invitation?token={token}")).await;
    assert!(open.text.contains("nobody checks that the address is yours"), "{}", open.text);
    let new = join_anew(&controller, &token).await;
    let settings = new.get("/settings").await.text;
    assert!(settings.contains("sends no mail") && !settings.contains("[smtp]"), "{settings}");
    let second = invite(&controller, &other, "new@x.example").await;
    assert_eq!(new.post("/invitation", &[("token", &second)]).await.status, 303);
    let profile = controller.request(Method::GET, "/user/profile").send().await.expect("an answer");
    assert_eq!(profile.json::<Value>().await.expect("JSON")["email_verified"], json!(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_goes_encrypted_with_a_password_to_the_server_that_the_authority_names() {
    let folder = tempfile::tempdir().expect("a folder");
    certificate(folder.path());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (pem, key) = (at("mail.pem"), at("mail.key"));
    let Some(server) = MailServer::start(&["--tls", &pem, &key, USER, MAIL_PASSWORD]).await else { return };
    let password_file = folder.path().join("password");
    fs::write(&password_file, format!("{MAIL_PASSWORD}\n")).expect("written");
    fs::set_permissions(&password_file, fs::Permissions::from_mode(0o600)).expect("private");
    let settings = SmtpSettings {
        host: "localhost".to_owned(),
        tls: SmtpTls::Starttls,
        user: USER.to_owned(),
        password_file,
        ..server.settings()
    };
    // Another authority: nothing is sent.
    let unknown = boot(settings.clone()).await;
    let home = unknown.workspace("home").await;
    let browser = join_anew(&unknown, &invite(&unknown, &home, "lost@x.example").await).await;
    let known = boot(SmtpSettings { ca_file: folder.path().join("ca.pem"), ..settings }).await;
    let home = known.workspace("home").await;
    let _browser = join_anew(&known, &invite(&known, &home, "new@x.example").await).await;
    let mail = server.mail(0).await;
    assert_eq!((&mail["to"], &mail["encrypted"]), (&json!(["new@x.example"]), &json!(true)));
    // A failed mail does not fail its request.
    assert!(browser.get("/settings").await.text.contains("Send the link again"));
    unknown.end().await;
    assert!(!server.is_empty() && !server.folder.path().join("1.json").exists());
}

/// Makes an authority, and a certificate of `localhost` by it.
fn certificate(folder: &Path) {
    fs::write(folder.join("extensions"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        .expect("a file");
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for arguments in [
        &*format!("req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"),
        &*format!("req {key} -keyout mail.key -out request.pem -subj /CN=mail"),
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out mail.pem",
    ] {
        let done = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output();
        let done = done.expect("openssl is installed");
        assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    }
}
