//! TLS of the server: real clients, renewed certificates, and clients that speak something else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hotdesk::base::wait;

use crate::harness::controller::{RunningController, remove_test_variables, skip_reason};
use crate::harness::program::program;

/// Longest time until a renewed certificate is noticed, or a client without a handshake is disconnected, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn openssl(folder: &Path, arguments: &str) -> String {
    let mut command = Command::new("openssl");
    let done = command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null()).output();
    let done = done.expect("openssl is installed");
    assert!(done.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

fn make_authority(folder: &Path) {
    openssl(folder, &format!("req -x509 {KEY} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"));
    std::fs::write(folder.join("extensions"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        .expect("a file");
}

/// Makes a certificate and its key, and puts both in the place of the present ones.
fn renew(folder: &Path) {
    openssl(folder, &format!("req {KEY} -keyout fresh.key -out request.pem -subj /CN=desk"));
    openssl(
        folder,
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out fresh.pem",
    );
    std::fs::rename(folder.join("fresh.pem"), folder.join("certificate.pem")).expect("renamed");
    std::fs::rename(folder.join("fresh.key"), folder.join("key.pem")).expect("renamed");
}

/// Whether the server shows the certificate of the file to a client that trusts the authority.
fn shows(folder: &Path, address: &str) -> bool {
    let shown = openssl(folder, &format!("s_client -connect {address} -CAfile ca.pem -verify_return_error"));
    let certificate = std::fs::read_to_string(folder.join("certificate.pem")).expect("a certificate");
    shown.contains(certificate.trim())
}

async fn boot(folder: &Path) -> RunningController {
    make_authority(folder);
    renew(folder);
    let at = folder.display();
    RunningController::boot_with(&format!(
        "public_url = \"https://desk.example.org\"\n\
         [tls]\ncertificate_file = \"{at}/certificate.pem\"\nkey_file = \"{at}/key.pem\"\n"
    ))
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_works_over_tls_and_trusts_nobody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let controller = boot(folder.path()).await;
    assert!(controller.base().starts_with("https://127.0.0.1:"), "{}", controller.base());
    let run = |authority: &str, arguments: &[&str], input: &[u8]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotdesk"));
        command.args(arguments).env_clear().env("HOME", folder.path());
        command.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", controller.key());
        command.env("SSL_CERT_FILE", authority).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command");
        // The pipe takes all of it at once; a command that does not read ends all the same.
        let _unread = child.stdin.take().expect("piped").write_all(input);
        let done = child.wait_with_output().expect("the command");
        (done.status.success(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    let ours = folder.path().join("ca.pem");
    let ours = ours.to_str().expect("text");
    let created = run(ours, &["workspaces", "create", "demo"], b"");
    assert!(created.0, "{}", created.1);
    let refused = run("/etc/ssl/certs/ca-certificates.crt", &["workspaces", "list"], b"");
    assert!(!refused.0 && refused.1.contains("certificate"), "{}", refused.1);
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let created = run(ours, &["computers", "create", "one", "-w", "demo"], b"");
    assert!(created.0, "{}", created.1);
    // A live channel: the upgrade and the frames go through TLS.
    assert_eq!(
        run(ours, &["shell", "-T", "one"], b"echo over a socket\n"),
        (true, "over a socket\n".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_used_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let controller = boot(folder.path()).await;
    let address = controller.base().trim_start_matches("https://").to_owned();
    assert!(shows(folder.path(), &address));

    let good = std::fs::read(folder.path().join("certificate.pem")).expect("a certificate");
    std::fs::write(folder.path().join("certificate.pem"), "no certificate").expect("written");
    let noticed = wait::until(TIMEOUT, || async {
        controller.log().contains("the earlier one stays in use").then_some(())
    });
    noticed.await.expect("the broken certificate is logged");
    std::fs::write(folder.path().join("certificate.pem"), good).expect("written");
    assert!(shows(folder.path(), &address), "the earlier certificate stays");

    renew(folder.path());
    let renewed = wait::until(TIMEOUT, || async { shows(folder.path(), &address).then_some(()) });
    renewed.await.expect("the renewed certificate is used");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_speaks_no_tls_is_disconnected() {
    let folder = tempfile::tempdir().expect("a folder");
    let controller = boot(folder.path()).await;
    let address = controller.base().trim_start_matches("https://").to_owned();
    let connect = || {
        let stream = TcpStream::connect(&address).expect("connected");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        stream
    };
    let mut silent = connect();
    let mut plain = connect();
    plain.write_all(b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").expect("written");
    let mut answer = Vec::new();
    // An alert, then the end; the kernel may turn the end into a reset.
    let _reset = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(silent.read(&mut [0; 1]).expect("an end, no timeout"), 0);
    assert!(shows(folder.path(), &address));
}

#[test]
fn a_start_that_would_send_keys_unencrypted_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(program());
    remove_test_variables(&mut command);
    let data = folder.path().join("data");
    let refused = command.args(["serve", "--listen", "0.0.0.0:0", "--data-dir"]).arg(data).output();
    let refused = refused.expect("the program");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("set [tls]") && said.contains("plain_http"), "{said}");
}
