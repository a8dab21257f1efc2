//! Files of definitions that come from elsewhere: beside the definition file, from repositories of git, by HTTP, and from
//! buckets of S3.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use hotdesk::base::wait;
use reqwest::Method;
use serde_json::json;

use super::builds::{build, controller, launch};
use super::services::TIMEOUT;
use crate::cli::person::Shell;
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;
use crate::harness::network::TestNetwork;
use crate::harness::process::OwnedChild;
use crate::harness::simulation::Simulation;

/// Text that a definition would change: a reference, an escape and a variable of the shell.
const TEXT: &str = "${var.none} $${var.x} ${HOME}\n\ttab \"quoted\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_publishes_texts_beside_the_definition_file() {
    let Some(controller) = controller().await else { return };
    let shell = Shell::with_key(controller.base(), controller.key());
    let path = shell.file("lab.yaml");
    let folder = path.parent().expect("a folder");
    fs::create_dir(folder.join("assets")).expect("a folder");
    fs::write(folder.join("assets/motd.txt"), TEXT).expect("a file");
    let write = |from: &str| {
        let text = format!(
            "api_version: hotdesk/v1\nname: lab@1.0.0\nvars: {{name: motd}}\nfiles: [{{to: /opt/motd, from: '{from}', mode: '0600'}}]\n"
        );
        fs::write(&path, text).expect("a file");
    };
    let file = path.to_str().expect("a path");
    write("assets/${var.name}.txt");
    let valid = shell.run(&["templates", "validate", file]).await.expect_success();
    assert!(valid.contains("is valid: default/lab@1.0.0"), "{valid}");
    shell.run(&["templates", "publish", file, "--build"]).await.expect_success();
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    assert_eq!(controller.bash(&id, "cat /opt/motd; stat -c %a /opt/motd").await, format!("{TEXT}600\n"));

    fs::write(folder.join("assets/logo.png"), b"\x89PNG\r\n\0\x01").expect("a file");
    fs::write(folder.join("assets/large.txt"), "x".repeat(262_145)).expect("a file");
    fs::write(folder.join("assets/braces.txt"), "${".repeat(100_000)).expect("a file");
    std::os::unix::fs::symlink("/etc/hostname", folder.join("assets/out.txt")).expect("a link");
    nix::unistd::mkfifo(&folder.join("assets/fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    for (from, parts) in [
        ("assets/logo.png", [":4:31: files[0].from: names assets/logo.png, which is no text", "write a URL"]),
        ("assets/large.txt", ["has more than 262144 bytes", "has at most 262144 bytes: write a URL"]),
        ("assets/braces.txt", ["has more than 262144 bytes", "each ${ counts as $${"]),
        ("assets/none.txt", ["names assets/none.txt, which cannot be read", "No such file"]),
        (
            "assets/out.txt",
            ["names assets/out.txt, which leads out of the folder", "copy the file into the folder"],
        ),
        ("assets/fifo", ["names assets/fifo, which is no regular file", ""]),
    ] {
        write(from);
        for command in ["validate", "publish"] {
            shell.run(&["templates", command, file]).await.expect_failure(1, &parts);
        }
    }
    // Errors of the file are reported with all others.
    let text =
        "api_version: hotdesk/v1\nname: lab@1.0.0\ncpu: 3\nfiles: [{to: /opt/motd, from: assets/none.txt}]\n";
    fs::write(&path, text).expect("a file");
    let both = shell.run(&["templates", "validate", file]).await;
    both.expect_failure(
        1,
        &[":3:6: cpu: must be 1, 2, 4, 8 or 16", ":4:31: files[0].from: names assets/none.txt"],
    );
    // Small files are too large for a document together.
    let parts: Vec<String> = (0..5).map(|n| format!("{{to: /opt/{n}, from: assets/part.txt}}")).collect();
    fs::write(folder.join("assets/part.txt"), "x".repeat(250_000)).expect("a file");
    let text = format!("api_version: hotdesk/v1\nname: lab@1.0.0\nfiles: [{}]\n", parts.join(", "));
    fs::write(&path, text).expect("a file");
    for command in ["validate", "publish"] {
        let parts = ["at most 1048576 bytes", "for large files write a URL"];
        shell.run(&["templates", command, file]).await.expect_failure(1, &parts);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_beside_the_definition_is_no_part_of_a_document_over_http() {
    let controller = Simulation::boot().await;
    let document =
        "api_version: hotdesk/v1\nname: lab@1.0.0\nfiles: [{to: /opt/motd, from: assets/motd.txt}]\n";
    for path in ["/templates/validate", "/templates"] {
        let refused = fetch_json(controller.request(Method::POST, path).body(document)).await;
        let error = &refused.body["errors"][0];
        assert_eq!(
            (refused.status, &error["code"]),
            (422, &json!("unsupported")),
            "{path}: {}",
            refused.body
        );
        assert_eq!(
            (&error["field"], &error["line"]),
            (&json!("files[0].from"), &json!(3)),
            "{path}: {error}"
        );
        let hint = error["hint"].as_str().unwrap_or_default();
        assert!(hint.contains("write it inline or give a URL"), "{path}: {error}");
    }
}

/// Runs git in a folder.
fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"];
    let ran = Command::new("git").arg("-C").arg(folder).args(identity).args(arguments).output().expect("git");
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// A program in a network that serves a port at its public address.
async fn serve(network: &TestNetwork, port: u16, command: &mut Command) -> OwnedChild {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = OwnedChild(network.inside(|| command.spawn().expect("a server")));
    let listens =
        wait::until(TIMEOUT, || async { tokio::net::TcpStream::connect((network.public, port)).await.ok() });
    listens.await.expect("the server listens");
    child
}

/// A server of the repositories in a folder.
async fn serve_git(network: &TestNetwork, folder: &Path) -> OwnedChild {
    let mut command = Command::new("git");
    command
        .args(["daemon", "--export-all", "--reuseaddr", "--verbose"])
        .arg(format!("--base-path={}", folder.display()));
    command.arg(format!("--listen={}", network.public)).arg(folder);
    serve(network, 9418, &mut command).await
}

/// Name of the bucket's server, as a build makes it of `s3://lab-1`.
const BUCKET_HOST: &str = "lab-1.s3.amazonaws.com";
/// Serves a folder at an address, by HTTPS if it has a certificate.
const FILE_SERVER: &str = "import http.server, ssl, sys
address, port, *certificate = sys.argv[1:]
server = http.server.ThreadingHTTPServer((address, int(port)), http.server.SimpleHTTPRequestHandler)
if certificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()";

/// Servers of the files in a folder: by HTTP, and as a bucket of S3 by HTTPS. The folder gets the bucket's certificate.
async fn serve_files(network: &TestNetwork, folder: &Path) -> [OwnedChild; 2] {
    let mut openssl = Command::new("openssl");
    openssl.args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split(' '));
    openssl.args(["-subj", "/CN=bucket", "-addext", &format!("subjectAltName=DNS:{BUCKET_HOST}")]);
    openssl.args(["-keyout", "key.pem", "-out", "bucket.pem"]).current_dir(folder);
    let made = openssl.output().expect("openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let server = |port: &str| {
        let mut command = Command::new("python3");
        command.args(["-c", FILE_SERVER, &network.public.to_string(), port]).current_dir(folder);
        command
    };
    let plain = serve(network, 80, &mut server("80")).await;
    let bucket = serve(network, 443, server("443").args(["bucket.pem", "key.pem"])).await;
    [plain, bucket]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_takes_files_from_repositories_urls_and_buckets() {
    let Some(controller) = RunningController::boot_full().await else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let repository = folder.path().join("app");
    fs::create_dir(&repository).expect("a folder");
    git(&repository, &["init", "-q"]);
    for (name, branch) in [("one", None), ("two", Some("side"))] {
        if let Some(branch) = branch {
            git(&repository, &["checkout", "-q", "-b", branch]);
        }
        fs::write(repository.join(name), name).expect("a file");
        git(&repository, &["add", "."]);
        git(&repository, &["commit", "-q", "-m", name]);
    }
    git(&repository, &["tag", "v1"]);
    git(&repository, &["checkout", "-q", "main"]);
    let network = TestNetwork::new();
    let _repositories = serve_git(&network, folder.path()).await;
    let files = folder.path().join("files");
    fs::create_dir_all(files.join("a")).expect("a folder");
    fs::write(files.join("a/file.txt"), "from elsewhere").expect("a file");
    let _files = serve_files(&network, &files).await;
    let (url, page) = (format!("git://{}/app", network.public), format!("http://{}/a", network.public));
    // The bucket's name leads to the test's server.
    let curlrc = format!("cacert = /opt/bucket.pem\nresolve = {BUCKET_HOST}:443:{}\n", network.public);
    let content = serde_json::json!([
        {"to": "/opt/main", "from": url, "owner": "games", "mode": "0750"},
        {"to": "~/side", "from": format!("{url}#side")},
        {"to": "/opt/tag", "from": format!("{url}#v1")},
        {"to": "/opt/bucket.pem", "inline": fs::read_to_string(files.join("bucket.pem")).expect("a certificate")},
        {"to": "~/.curlrc", "inline": curlrc},
        {"to": "/opt/page", "from": format!("{page}/file.txt")},
        {"to": "/opt/new/object", "from": "s3://lab-1/a/file.txt", "mode": "0640", "group": "adm"},
    ]);
    let content = format!("files: {content}");
    let built = build(&controller, "lab@1.0.0", &content).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    assert_eq!(
        controller
            .bash(&id, "ls /opt/main ~/side /opt/tag; stat -c '%a %U' /opt/main; stat -c %U /opt/main/one")
            .await,
        "/opt/main:\none\n\n/opt/tag:\none\ntwo\n\n/root/side:\none\ntwo\n750 games\ngames\n"
    );
    assert_eq!(
        controller.bash(&id, "cat /opt/page /opt/new/object; stat -c ' %a %G' /opt/new/object").await,
        "from elsewherefrom elsewhere 640 adm\n"
    );
    for (name, from, code) in
        [("branch@1.0.0", format!("{url}#none"), "1"), ("page@1.0.0", format!("{page}/none"), "22:")]
    {
        let missing = build(&controller, name, &format!("files: [{{to: /opt/x, from: '{from}'}}]")).await;
        let error = missing["error"].as_str().unwrap_or_default();
        let expected = format!("files ended with exit code {code}");
        assert!(missing["status"] == "failed" && error.contains(&expected), "{missing}");
    }
}
