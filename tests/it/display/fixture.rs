//! Fixture of the display subsystem: own display numbers, own folder, and calls of its HTTP routes.

use crate::harness::capability::Capability;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use hotdesk::agent::display::desktop::X11Desktop;
use hotdesk::agent::display::{DisplayConfig, Displays, ScreenSession, XServer};
use hotdesk::agent::media::recording::retention::RetentionLimits;
use hotdesk::agent::media::recording::{RecordingSetup, Recordings};
use hotdesk::agent::media::timeline::Timelines;
use hotdesk::agent::programs::Programs;
use hotdesk::agent::routes;
use hotdesk::agent::state::journal::Journal;
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::domain::desktop::resolution::{Resolution, Size};
use hotdesk::http::edge;
use hotdesk::http::feed::Feed;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// Longest wait of a test; far above what a loaded two-core machine needs.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Four display numbers that no other test uses, reserved by a folder.
#[derive(Debug)]
pub struct Claim {
    pub base: u16,
    folder: PathBuf,
}

impl Claim {
    pub fn new() -> Self {
        let from: u16 = rand::random::<u16>() % 2000;
        for step in 0..2000 {
            let base = 1000 + (from + step) % 2000 * 4;
            let folder = std::env::temp_dir().join(format!("hotdesk-test-displays-{base}"));
            let taken = (base..base + 4).any(|number| {
                Path::new(&format!("/tmp/.X11-unix/X{number}")).exists()
                    || Path::new(&format!("/tmp/.X{number}-lock")).exists()
            });
            if !taken && std::fs::create_dir(&folder).is_ok() {
                return Self { base, folder };
            }
        }
        panic!("no free display numbers");
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.folder).expect("the claim's folder");
    }
}

/// Whether a program is installed.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether a program is installed. Prints that the test is skipped if not.
pub fn installed(program: &str) -> bool {
    let found = is_installed(program);
    if !found {
        Capability::X11.skip(format_args!("{program} is not installed"));
    }
    found
}

/// An X server that the display subsystem did not start.
#[derive(Debug)]
pub struct ForeignXServer {
    pub child: Child,
    pub display: u16,
}

impl ForeignXServer {
    pub async fn xvfb(claim: &Claim) -> Self {
        Self::start("Xvfb", claim.base, &["-screen", "0", "640x480x24", "-nolisten", "tcp"]).await
    }

    pub async fn start(program: &str, display: u16, arguments: &[&str]) -> Self {
        std::fs::create_dir_all("/tmp/.X11-unix").expect("the sockets' folder");
        let child = Command::new(program)
            .arg(format!(":{display}"))
            .args(arguments)
            .stderr(Stdio::null())
            .spawn()
            .expect("an X server");
        let answers = || async move { x11rb::connect(Some(&format!(":{display}"))).ok().map(|_| ()) };
        wait::until(TIMEOUT, answers).await.expect("the X server answers");
        Self { child, display }
    }
}

impl Drop for ForeignXServer {
    fn drop(&mut self) {
        // On SIGTERM the server removes its socket and its lock.
        let server = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(server, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// The display subsystem with its routes, tasks and folder.
pub struct DisplayFixture {
    pub displays: Displays,
    router: Router,
    tasks: Tasks,
    folder: tempfile::TempDir,
    pub claim: Claim,
    /// Settings for recordings of its screens.
    pub recording: RecordingSetup,
}

impl DisplayFixture {
    /// With its own X servers and no session.
    pub async fn bare(width: u32, height: u32) -> Self {
        Self::with_session(width, height, ScreenSession::None).await
    }

    pub async fn with_session(width: u32, height: u32, session: ScreenSession) -> Self {
        let boot = Resolution { size: Size::new(width, height).expect("a size"), depth: 24 };
        Self::start(Claim::new(), XServer::Own { boot }, session).await
    }

    pub async fn start(claim: Claim, xserver: XServer, session: ScreenSession) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let tasks = Tasks::new();
        let journal = Journal::open(folder.path().join("journal")).expect("a journal");
        let idempotency = routes::IdempotencyLayer { journal, tasks: tasks.clone() };
        let config = DisplayConfig {
            xserver,
            session,
            runtime_dir: folder.path().join("run"),
            session_dir: folder.path().join("session"),
            display_base: claim.base,
            feed: Feed::new(),
        };
        let displays = Displays::start(config, &tasks).expect("a display room");
        let observed = std::sync::Arc::new(X11Desktop::new(displays.clone(), folder.path().join("session")));
        let setup = RecordingSetup {
            home: folder.path().to_owned(),
            displays: displays.clone(),
            desktop: observed.clone(),
            timelines: Timelines::new(tasks.clone()),
            tasks: tasks.clone(),
            limits: RetentionLimits::default(),
            encoder: PathBuf::from("ffmpeg"),
        };
        let recordings = Recordings::open(setup.clone());
        let programs = Programs::new(displays.clone(), observed, folder.path().to_owned(), tasks.clone());
        let routes = routes::screens::router(
            displays.clone(),
            programs,
            recordings,
            setup.timelines.clone(),
            idempotency,
        );
        let router = edge::fallbacks(routes).layer(axum::middleware::from_fn(edge::pass));
        let fixture = Self { displays, router, tasks, folder, claim, recording: setup };
        fixture.boot().ready(TIMEOUT).await.expect("the boot screen is ready");
        fixture
    }

    pub fn boot(&self) -> std::sync::Arc<hotdesk::agent::display::Screen> {
        self.displays.screen(None).expect("a boot screen")
    }

    /// Clicks until a window has the focus. A program may be ready before its window is managed. Text typed
    /// before that is lost, and a click before that makes the window manager keep the new window unfocused.
    pub async fn focus_any_window(&self) {
        let focused = || async {
            self.ok("POST", "/click", json!({"x": 100, "y": 100})).await;
            let list = self.ok("GET", "/windows", Value::Null).await;
            let windows = list["windows"].as_array().expect("a list");
            windows.iter().any(|window| window["focused"] == true).then_some(())
        };
        wait::until(TIMEOUT, focused).await.expect("a window with the focus");
    }

    /// The routes, for another server.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Home folder, in which launched programs start.
    pub fn home(&self) -> &Path {
        self.folder.path()
    }

    /// `DISPLAY` of the boot screen.
    pub fn display(&self) -> String {
        self.boot().display_name()
    }

    pub async fn raw(&self, method: &str, path: &str, body: &Value) -> (StatusCode, String, Vec<u8>) {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let request = Request::builder().method(method).uri(path).header(header::HOST, "agent").body(body);
        let answer = self.router.clone().oneshot(request.expect("a request")).await.expect("an answer");
        let status = answer.status();
        let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let bytes = answer.into_body().collect().await.expect("a body").to_bytes();
        (status, kind, bytes.to_vec())
    }

    /// A binary screenshot, requested with the given `If-None-Match` tags.
    pub async fn screenshot(&self, query: &str, tags: &[&str]) -> Screenshot {
        let path = format!("/screenshot?response_format=binary&{query}");
        let mut request = Request::builder().uri(path).header(header::HOST, "agent");
        for tag in tags {
            request = request.header(header::IF_NONE_MATCH, *tag);
        }
        let request = request.body(Body::empty()).expect("a request");
        let answer = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = answer.into_parts();
        let bytes = body.collect().await.expect("a body").to_bytes();
        Screenshot { status: parts.status, headers: parts.headers, bytes: bytes.to_vec() }
    }

    pub async fn call(&self, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
        let (status, _, bytes) = self.raw(method, path, &body).await;
        let value = serde_json::from_slice(&bytes).expect("a JSON body");
        (status, value)
    }

    /// A call that must succeed; returns the JSON.
    pub async fn ok(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(method, path, body.clone()).await;
        assert_eq!(status, StatusCode::OK, "{method} {path} {body}: {answer}");
        answer
    }

    /// A call that must fail with a status; returns the error message.
    pub async fn fails(&self, method: &str, path: &str, body: Value, status_code: u16) -> String {
        let (status, answer) = self.call(method, path, body.clone()).await;
        assert_eq!(status.as_u16(), status_code, "{method} {path} {body}: {answer}");
        answer["error"].as_str().expect("an error text").to_owned()
    }

    /// A decoded screenshot.
    pub async fn picture(&self, query: &str) -> Picture {
        let path = format!("/screenshot?response_format=binary&{query}");
        let (status, kind, bytes) = self.raw("GET", &path, &Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&bytes));
        assert_eq!(kind, "image/png");
        Picture::decode(&bytes)
    }

    /// Stops the display subsystem and asserts that no process, socket or lock is left.
    pub async fn close(self) {
        self.displays.stop().await;
        let unfinished = self.tasks.drain(TIMEOUT).await;
        assert!(unfinished.is_empty(), "unfinished tasks: {unfinished:?}");
        for number in self.claim.base..self.claim.base + 4 {
            let display = format!(":{number}");
            let gone = wait::until(TIMEOUT, || async { (!is_running(&display)).then_some(()) });
            assert!(gone.await.is_some(), "a process of {display} still runs");
            for left in [format!("/tmp/.X11-unix/X{number}"), format!("/tmp/.X{number}-lock")] {
                assert!(!Path::new(&left).exists(), "{left} is left");
            }
        }
    }
}

/// The answer to a screenshot request.
pub struct Screenshot {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
}

impl Screenshot {
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.headers));
        value.to_str().expect("plain text")
    }

    /// Id of the frame.
    pub fn frame(&self) -> &str {
        self.header("x-hotdesk-frame")
    }

    /// The decoded image. WebP and JPEG are decoded by other libraries than the product's.
    pub fn picture(&self) -> Picture {
        assert_eq!(self.status, StatusCode::OK, "{}", String::from_utf8_lossy(&self.bytes));
        match self.header("content-type") {
            "image/png" => Picture::decode(&self.bytes),
            "image/webp" => {
                let image = webp::Decoder::new(&self.bytes).decode().expect("a WebP");
                assert!(!image.is_alpha(), "a screen is not transparent");
                Picture { width: image.width(), height: image.height(), rgb: image.to_vec() }
            }
            "image/jpeg" => {
                let image = turbojpeg::decompress(&self.bytes, turbojpeg::PixelFormat::RGB).expect("a JPEG");
                Picture { width: image.width as u32, height: image.height as u32, rgb: image.pixels }
            }
            other => panic!("{other} is not an image type"),
        }
    }
}

/// A decoded image.
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub rgb: Vec<u8>,
}

impl Picture {
    pub fn decode(bytes: &[u8]) -> Self {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a PNG");
        let mut rgb = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut rgb).expect("a whole PNG");
        assert_eq!(info.color_type, png::ColorType::Rgb);
        Self { width: info.width, height: info.height, rgb }
    }

    pub fn pixel(&self, x: u32, y: u32) -> u32 {
        let at = (y * self.width + x) as usize * 3;
        u32::from_be_bytes([0, self.rgb[at], self.rgb[at + 1], self.rgb[at + 2]])
    }
}

/// Whether a process has the display as an argument or as its `DISPLAY`.
pub fn is_running(display: &str) -> bool {
    !processes_of(display).is_empty()
}

pub fn processes_of(display: &str) -> Vec<u32> {
    let expected = format!("DISPLAY={display}");
    let own = std::process::id();
    let pids = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let contains = |file: String, word: &str| {
        let content = std::fs::read(file).unwrap_or_default();
        content.split(|byte| *byte == 0).any(|part| part == word.as_bytes())
    };
    pids.filter(|pid| *pid != own)
        .filter(|pid| {
            contains(format!("/proc/{pid}/cmdline"), display)
                || contains(format!("/proc/{pid}/environ"), &expected)
        })
        .collect()
}
