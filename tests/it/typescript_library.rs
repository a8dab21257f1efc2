//! TypeScript library `@hotdesk/client`: packed as for a release, installed by npm, compiled strictly, and
//! used on real computers and in Chromium.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, Uri, header};
use axum::response::IntoResponse;
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::http::serve::{BoundListener, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::chat::scene;
use crate::examples::blocks;
use crate::floors::root;
use crate::harness::caller::id_of;
use crate::harness::controller::{RunningController, skip_reason};
use crate::harness::models::ScriptedModels;
use crate::harness::network::TestNetwork;
use crate::harness::program::{last_change, made_once};
use crate::harness::rtmp::{RtmpServer, probe};
use crate::openapi::clients::{assert_png, command, installed, run};
use crate::packages::succeed;
use crate::vnc::puppet::PythonDriver;

/// A fixed time of the sources: 2026-01-01.
const SOURCE_DATE: &str = "1767225600";
/// Name of the tarball, as npm would choose it.
const TARBALL: &str = concat!("hotdesk-client-", env!("CARGO_PKG_VERSION"), ".tgz");
/// What the tarball and its users are made from.
const INPUTS: [&str; 6] = [
    "src/clients/typescript",
    "docs/clients/typescript.md",
    "packaging/npm",
    "packaging/openapi.json",
    "packaging/dev/novnc",
    "tests/typescript",
];
/// The pages with samples, which become programs in this order.
const PAGES: [&str; 2] = ["src/clients/typescript/README.md", "docs/clients/typescript.md"];
/// The programs of `tests/typescript` that use the library.
const PROGRAMS: [&str; 5] =
    ["client.ts", "client_chat.ts", "client_recordings.ts", "client_retries.ts", "client_streams.ts"];
/// Longest time until a click in Chromium reaches a program, on a busy machine.
const CLICK_TIMEOUT: Duration = Duration::from_secs(30);
/// Lifetime of tickets in seconds: longer than Chromium takes to start on a busy machine.
const TICKET_SECONDS: u32 = 600;
/// Width of the element in the README's sample, in CSS pixels.
const SHOWN_WIDTH: f64 = 960.0;
/// Width of a new computer's screen, in pixels.
const SCREEN_WIDTH: f64 = 1280.0;

/// The folder with the compiler and that with Node, which has `WebSocket`. Where one is missing, prints the
/// reason and returns `None`.
fn tools() -> Option<(PathBuf, PathBuf)> {
    let compiler = installed("client-typescript/node_modules")?;
    Some((compiler, installed("openapi-tools/node_modules/.bin")?))
}

/// Packs the library of a source tree into a folder.
fn pack(tree: &Path, folder: &Path, mask: &str) -> PathBuf {
    let mut pack = Command::new("bash");
    pack.args(["-e", "-c", r#"umask "$1"; "$2/packaging/npm" "$3""#, "pack", mask]).arg(tree).arg(folder);
    succeed(pack.env("SOURCE_DATE_EPOCH", SOURCE_DATE));
    folder.join(TARBALL)
}

/// The samples of a page in one language.
fn samples_of(page: &str, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).expect("a page");
    let found = blocks(&text).into_iter().filter(|block| block.language == language);
    found.map(|block| block.text).collect()
}

/// The samples of all pages that are programs.
fn samples() -> Vec<String> {
    PAGES.iter().flat_map(|page| samples_of(page, "ts")).collect()
}

/// A folder in which the library is installed from its tarball, without the network, and its users are
/// compiled with `tsc --strict`: the programs of `tests/typescript`, samples of the pages (`sample_0.js`).
fn installation(compiler: &Path, bin: &Path) -> PathBuf {
    let changed = INPUTS.iter().map(|input| last_change(&root().join(input))).max().expect("inputs");
    made_once("typescript-library", changed, |folder| {
        let tarball = pack(root(), folder, "022");
        let dependency = |name: &str| format!("file:{}", compiler.join(name).display());
        let package = json!({"type": "module", "private": true, "dependencies": {
            "@hotdesk/client": format!("file:{}", tarball.display()),
            "openapi-fetch": dependency("openapi-fetch"),
            "openapi-typescript-helpers": dependency("openapi-typescript-helpers"),
        }});
        std::fs::write(folder.join("package.json"), package.to_string()).expect("a file");
        let mut install = Command::new("npm");
        install.args(["install", "--offline", "--ignore-scripts", "--no-fund", "--no-audit", "--silent"]);
        install.args(["--no-package-lock", "--install-links=false", "--cache"]).arg(folder.join("npm"));
        succeed(install.current_dir(folder));
        for program in PROGRAMS {
            std::fs::copy(root().join("tests/typescript").join(program), folder.join(program))
                .expect("a copy");
        }
        let samples = samples();
        for (number, sample) in samples.iter().enumerate() {
            std::fs::write(folder.join(format!("sample_{number}.ts")), sample).expect("a file");
        }
        let mut compile = command(bin, "node");
        compile.arg(compiler.join("typescript/lib/tsc.js")).args(["--strict", "--target", "es2022"]);
        compile.args(["--module", "nodenext", "--types", "node", "--typeRoots"]).arg(compiler.join("@types"));
        compile.args(PROGRAMS);
        compile.args((0..samples.len()).map(|number| format!("sample_{number}.ts")));
        succeed(compile.current_dir(folder));
    })
}

/// A compiled program of the installation, with Node.
fn program(bin: &Path, installation: &Path, name: &str) -> Command {
    let mut program = command(bin, "node");
    program.arg(installation.join(name)).env_remove("HOTDESK_URL").env_remove("HOTDESK_API_KEY");
    program
}

#[test]
fn the_tarball_has_the_program_s_version_and_the_same_bytes_in_any_folder() {
    let Some((compiler, bin)) = tools() else { return };
    let package = root().join("src/clients/typescript/package.json");
    let package: Value =
        serde_json::from_str(&std::fs::read_to_string(package).expect("a file")).expect("JSON");
    assert_eq!(package["version"], env!("CARGO_PKG_VERSION"));
    let first = installation(&compiler, &bin).join(TARBALL);
    let folder = tempfile::tempdir().expect("a folder");
    let tree = folder.path().join("another/tree");
    std::fs::create_dir_all(&tree).expect("a folder");
    for part in ["src/clients", "packaging", "LICENSE-MIT", "LICENSE-APACHE"] {
        succeed(Command::new("cp").args(["-r", "--parents", part]).arg(&tree).current_dir(root()));
    }
    let second = pack(&tree, &folder.path().join("out"), "077");
    let read = |path: &Path| std::fs::read(path).expect("a tarball");
    assert!(read(&first) == read(&second), "{} and {} differ", first.display(), second.display());
    let listed = succeed(Command::new("tar").arg("-tzf").arg(&first));
    for file in [
        "dist/index.d.ts",
        "dist/api.d.ts",
        "dist/parts/chat.js",
        "dist/screen.js",
        "dist/novnc/core/rfb.js",
        "LICENSE-MIT",
    ] {
        assert!(listed.lines().any(|line| line == format!("package/{file}")), "{file}: {listed}");
    }
}

#[test]
fn requests_are_repeated_under_one_key_and_failures_are_typed() {
    let Some((compiler, bin)) = tools() else { return };
    let mut client = program(&bin, &installation(&compiler, &bin), "client_retries.js");
    assert_eq!(succeed(&mut client), "all retries passed\n");
}

#[test]
fn streams_are_read_piece_by_piece_and_closed_when_they_are_left() {
    let Some((compiler, bin)) = tools() else { return };
    let mut client = program(&bin, &installation(&compiler, &bin), "client_streams.js");
    assert_eq!(succeed(&mut client), "all streams passed\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_types_a_file_and_hears_events_a_terminal_and_sound() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let Some((compiler, bin)) = tools() else { return };
    let installation = installation(&compiler, &bin);
    let controller = RunningController::boot().await;
    let folder = tempfile::tempdir().expect("a folder");
    let (file, picture) = (folder.path().join("typed.txt"), folder.path().join("shot.png"));
    let mut client = program(&bin, &installation, "client.js");
    client.arg(&file).arg(&picture);
    client.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", controller.key());
    run(client).await;
    assert_eq!(std::fs::read_to_string(file).expect("a file"), "Grüße: 1 < 2 && 'done'\n");
    assert_png(&picture);
    assert!(controller.machines().is_empty(), "the end of the block deletes the computer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_follows_runs_of_models_and_their_threads() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let Some((compiler, bin)) = tools() else { return };
    let installation = installation(&compiler, &bin);
    let models = ScriptedModels::start(scene::library_turns()).await;
    let controller = RunningController::boot_with(&scene::configuration(&models)).await;
    let mut client = program(&bin, &installation, "client_chat.js");
    client.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", controller.key());
    run(client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_records_and_streams_a_screen() {
    let Some((compiler, bin)) = tools() else { return };
    let settings = "[streaming]\nallow_private = true\n";
    let Some(controller) = RunningController::boot_full_with(settings).await else { return };
    let network = TestNetwork::new();
    let Some(server) = RtmpServer::in_network(&network).await else { return };
    let installation = installation(&compiler, &bin);
    let folder = tempfile::tempdir().expect("a folder");
    let video = folder.path().join("screen.mp4");
    let mut client = program(&bin, &installation, "client_recordings.js");
    client.arg(&video).arg(server.url("live"));
    client.env("HOTDESK_URL", controller.base()).env("HOTDESK_API_KEY", controller.key());
    run(client).await;
    assert_eq!(probe(&video), (vec!["h264".to_owned()], 1280, 720));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_samples_of_the_pages_run() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let Some((compiler, bin)) = tools() else { return };
    let installation = installation(&compiler, &bin);
    // One sample lets a model work.
    let models = ScriptedModels::start(scene::sample_turns()).await;
    let controller = RunningController::boot_with(&scene::configuration(&models)).await;
    let count = samples().len();
    assert!(count > 9, "{count} samples");
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..count {
        let mut sample = program(&bin, &installation, &format!("sample_{number}.js"));
        sample
            .env("HOTDESK_URL", format!("{}/api/", controller.base()))
            .env("HOTDESK_API_KEY", controller.key())
            .current_dir(folder.path());
        run(sample).await;
    }
}

/// Answers a request for a file of a folder.
async fn file(folder: PathBuf, uri: Uri) -> impl IntoResponse {
    let path = folder.join(uri.path().trim_start_matches('/'));
    let kind = if path.extension().is_some_and(|it| it == "js") { "text/javascript" } else { "text/html" };
    tokio::fs::read(path)
        .await
        .map(|bytes| ([(header::CONTENT_TYPE, kind)], bytes))
        .map_err(|_| StatusCode::NOT_FOUND)
}

/// A script that says whether a pixel of the element has the terminal's colour: red, green, blue, opacity.
fn pixel_script(x: i64, y: i64) -> String {
    format!(
        "(() => {{ const root = document.querySelector('hotdesk-screen').shadowRoot; \
         const drawn = root.querySelector('canvas').getContext('2d').getImageData({x}, {y}, 1, 1); \
         return String(drawn.data) === '18,171,52,255'; }})()"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_screen_element_of_the_readme_shows_a_screen_and_passes_a_click() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let Some((compiler, bin)) = tools() else { return };
    let Some(mut browser) = PythonDriver::chromium() else { return };
    let installation = installation(&compiler, &bin);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    let controller = RunningController::boot_with(&format!("[web]\nallowed_origins = \"{origin}\"\n")).await;
    let id = id_of(&controller.computer(&controller.workspace("demo").await, "desk").await);

    // A terminal of one colour that reports the first press of a mouse button: ESC [ M, button, column, row.
    let reading = r"stty raw -echo; printf '\033[?1000h'; head -c 6 >/tmp/clicked; sleep 600";
    let colours = ["-bg", "#12ab34", "-fg", "#12ab34", "-cr", "#12ab34", "-geometry", "60x10+100+100"];
    let argv: Vec<&str> = ["xterm"].into_iter().chain(colours).chain(["-e", "bash", "-c", reading]).collect();
    let launched = controller.act(&id, "launch", json!({"argv": argv, "wait_seconds": 60})).await;
    let window = &launched.body["window"];
    let field = |name: &str| window[name].as_i64().unwrap_or_else(|| panic!("{name}: {}", launched.body));
    let (x, y) = (field("x") + field("width") / 2, field("y") + field("height") / 2);

    let tickets = format!("/computers/{id}/stream-tickets");
    let control = json!({"mode": "control", "ttl_seconds": TICKET_SECONDS});
    let ticket = controller.create(&tickets, control).await;
    let url = ticket["url"].as_str().expect("a URL");
    let sample = samples_of(PAGES[0], "html").concat();
    assert!(sample.contains("TICKET_URL"), "{sample}");
    let site = tempfile::tempdir().expect("a folder");
    let page = format!("<!doctype html>\n{}", sample.replace("TICKET_URL", url));
    std::fs::write(site.path().join("index.html"), page).expect("a page");
    std::os::unix::fs::symlink(installation.join("node_modules"), site.path().join("node_modules"))
        .expect("a link");
    let folder = site.path().to_owned();
    let tasks = Tasks::new();
    let (router, own) = (Router::new().fallback(move |uri: Uri| file(folder.clone(), uri)), tasks.clone());
    let _site = tasks.spawn("site", async move { serve(BoundListener::Tcp(listener), router, &own).await });

    browser.run("open", json!({"url": format!("{origin}/index.html")}));
    let connected = "document.querySelector('hotdesk-screen').state === 'connected'";
    browser.run("wait", json!({"script": connected, "seconds": 60}));
    browser.run("wait", json!({"script": pixel_script(x, y), "seconds": 60}));
    let scaled = |position: i64| position as f64 * SHOWN_WIDTH / SCREEN_WIDTH;
    browser.run("click", json!({"where": "hotdesk-screen", "at": {"x": scaled(x), "y": scaled(y)}}));
    let clicked = wait::until(CLICK_TIMEOUT, || async {
        let bytes = controller.bash(&id, "od -An -tu1 /tmp/clicked 2>/dev/null; true").await;
        Some(bytes).filter(|bytes| bytes.split_whitespace().count() == 6)
    });
    let clicked = clicked.await.expect("a press of a button");
    let start: Vec<&str> = clicked.split_whitespace().take(4).collect();
    // The left button is 0, and each number has 32 added (xterm's control sequences, "Mouse Tracking").
    assert_eq!(start, ["27", "91", "77", "32"], "{clicked}");
    let pointer = controller.get(&format!("/computers/{id}/cursor_position")).await.body;
    let is_near = |name: &str, wanted: i64| pointer[name].as_i64().is_some_and(|it| (it - wanted).abs() <= 2);
    assert!(is_near("x", x) && is_near("y", y), "{pointer}, not {x}, {y}");
    let end = "new Promise(tell => { const shown = document.querySelector('hotdesk-screen'); \
               shown.addEventListener('disconnect', end => tell([end.detail.code, shown.state])); \
               shown.disconnect(); })";
    assert_eq!(browser.run("look", json!({"script": end})), json!([1000, "disconnected"]));
    // With `getTicket` the element connects again: the first ticket is used, the second one is not.
    let view = json!({"mode": "view", "ttl_seconds": TICKET_SECONDS});
    let ticket = controller.create(&tickets, view).await;
    let urls = json!([url, ticket["ws_url"]]);
    let again = format!(
        "(() => {{ const shown = document.querySelector('hotdesk-screen'); const urls = {urls}; \
         shown.getTicket = async () => urls.shift(); shown.connect(); return shown.state; }})()"
    );
    assert_eq!(browser.run("look", json!({"script": again})), "connecting");
    browser.run("wait", json!({"script": connected, "seconds": 60}));
    assert_eq!(browser.run("complaints", json!({})), json!([]));
}
