//! Screen recordings: video content, a timeline without secrets, limits and retention.
//!
//! Uses real X servers and a real encoder; ffprobe and ffmpeg read the result.

use std::path::{Path, PathBuf};
use std::process::Command;

use axum::http::StatusCode;
use hotdesk::agent::media::recording::retention::RetentionLimits;
use hotdesk::agent::media::recording::store::FOLDER_NAME;
use hotdesk::agent::media::recording::{RecordingSetup, Recordings};
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::domain::error::Result;
use hotdesk::domain::error_code::ErrorCode;
use hotdesk::wire::desktop::recording::{Recording, StartRecording};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use serde_json::{Value, json};

use super::fixture::{DisplayFixture, TIMEOUT, installed, processes_of};
use super::through::boot_with_agent;
use super::window::{InputEvent, Window};
use crate::harness::agent::{RunningAgent, fetch_json};

/// Codec, width, height and duration in seconds of a video.
fn probe(video: &Path) -> (String, u64, u64, f64) {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-show_entries", "stream=codec_name,width,height,pix_fmt:format=duration"])
        .args(["-of", "json"])
        .arg(video)
        .output()
        .expect("ffprobe");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let stream = &output["streams"][0];
    assert_eq!(stream["pix_fmt"], "yuv420p");
    let number = |name: &str| stream[name].as_u64().expect("a number");
    let seconds =
        output["format"]["duration"].as_str().and_then(|text| text.parse().ok()).expect("a duration");
    (stream["codec_name"].as_str().expect("a codec").to_owned(), number("width"), number("height"), seconds)
}

/// Colour of every frame in the upper left corner.
fn colours(video: &Path) -> Vec<[u8; 3]> {
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(video)
        .args(["-vf", "crop=16:16:8:8,scale=1:1", "-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"])
        .output()
        .expect("ffmpeg");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.chunks_exact(3).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
}

fn is_red([r, g, b]: &[u8; 3]) -> bool {
    *r > 180 && *g < 70 && *b < 70
}

fn is_blue([r, g, b]: &[u8; 3]) -> bool {
    *b > 180 && *g < 70 && *r < 70
}

fn encoders(display: &str) -> Vec<u32> {
    let name = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    processes_of(display).into_iter().filter(|pid| name(pid).trim() == "ffmpeg").collect()
}

impl DisplayFixture {
    async fn record(&self, body: Value) -> Value {
        let (status, record) = self.call("POST", "/recordings", body).await;
        assert_eq!(status, StatusCode::CREATED, "{record}");
        assert_eq!(record["status"], "recording");
        record
    }

    /// Waits until a recording meets a condition.
    async fn until(&self, id: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/recordings/{id}");
        let found = wait::until(TIMEOUT, || async {
            Some(self.ok("GET", &path, Value::Null).await).filter(|record| condition(record))
        });
        found.await.unwrap_or_else(|| panic!("never {what}"))
    }

    async fn record_seconds(&self, id: &str, seconds: f64) -> Value {
        self.until(id, "so long", |record| record["seconds"].as_f64().is_some_and(|now| now >= seconds)).await
    }

    /// Downloads the video to a file.
    async fn video(&self, id: &str) -> PathBuf {
        let (status, kind, bytes) = self.raw("GET", &format!("/recordings/{id}/video"), &Value::Null).await;
        assert_eq!((status.as_u16(), kind.as_str()), (200, "video/mp4"));
        let file = self.home().join(format!("fetched-{id}.mp4"));
        std::fs::write(&file, bytes).expect("a file");
        file
    }

    async fn timeline(&self, id: &str) -> Vec<Value> {
        let path = format!("/recordings/{id}/timeline");
        let (status, kind, bytes) = self.raw("GET", &path, &Value::Null).await;
        assert_eq!((status.as_u16(), kind.as_str()), (200, "application/x-ndjson"));
        let text = String::from_utf8(bytes).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

fn id(record: &Value) -> &str {
    record["id"].as_str().expect("an id")
}

/// Width and height of a thumbnail.
fn thumbnail_size(picture: &Value) -> (usize, usize) {
    use base64::Engine as _;
    let bytes = picture.as_str().expect("a picture");
    let bytes = base64::engine::general_purpose::STANDARD.decode(bytes).expect("base64");
    let image = turbojpeg::decompress(&bytes, turbojpeg::PixelFormat::RGB).expect("a JPEG");
    (image.width, image.height)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_video_shows_what_happened_and_the_timeline_tells_it_without_what_was_typed() {
    if !installed("ffmpeg") {
        return;
    }
    // Odd dimensions, which H.264 does not support.
    let fixture = DisplayFixture::bare(401, 301).await;
    let window = Window::open(&fixture.display(), 0, 0, 401, 301, 0xff_00_00);
    window.name("painted");
    window.focus();
    assert_eq!(fixture.ok("GET", "/recordings", Value::Null).await["recordings"], json!([]));
    assert!(
        !fixture.home().join(FOLDER_NAME).exists(),
        "the folder must not exist before the first recording"
    );
    // Actions before the recording are not in its timeline.
    fixture.ok("POST", "/click", json!({"x": 1, "y": 1})).await;
    let started = fixture.record(json!({"fps": 10})).await;
    let id = id(&started);
    assert_eq!(
        (&started["width"], &started["height"], &started["fps"]),
        (&json!(402), &json!(302), &json!(10))
    );
    let (status, refused) = fixture.call("POST", "/recordings", json!({"screen": "default"})).await;
    assert_eq!((status.as_u16(), &refused["code"]), (409, &json!("already_recording")));
    fixture.record_seconds(id, 1.0).await;
    window.events();
    // Painted before the answer to the click, and therefore before the thumbnail after it.
    let painter = std::thread::spawn(move || {
        window
            .wait_for(TIMEOUT, |events| events.iter().any(|event| matches!(event, InputEvent::Release(..))));
        window.fill(0, 0, 401, 301, 0x00_00_ff);
        window
    });
    let settle = json!({"quiet_ms": 1000, "timeout_ms": 20_000});
    fixture.ok("POST", "/click", json!({"x": 50, "y": 60, "button": "right", "settle": settle})).await;
    let window = painter.join().expect("painted");
    let list = json!([
        {"action": "type", "text": "hunter2 swordfish"},
        {"action": "key", "keys": ["s", "ctrl+e", "Return"]},
        {"action": "click", "x": 5000, "y": 5},
        {"action": "wait", "seconds": 0.05},
    ]);
    fixture.ok("POST", "/actions", json!({"actions": list, "continue_on_error": true})).await;
    fixture.fails("POST", "/key", json!({"key": "swordfish"}), 400).await;
    fixture.record_seconds(id, 3.0).await;
    let ended = fixture.ok("POST", &format!("/recordings/{id}/stop"), Value::Null).await;
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("stopped"), &json!("asked")), "{ended}");
    assert_eq!(
        fixture.ok("POST", &format!("/recordings/{id}/stop"), Value::Null).await,
        ended,
        "the list must have one entry"
    );
    assert!(ended["size_bytes"].as_u64().is_some_and(|bytes| bytes > 1000), "{ended}");
    // Actions after the recording are not in its timeline.
    fixture.ok("POST", "/click", json!({"x": 2, "y": 2})).await;

    let video = fixture.video(id).await;
    let (codec, width, height, seconds) = probe(&video);
    assert_eq!((codec.as_str(), width, height), ("h264", 402, 302));
    let length = ended["seconds"].as_f64().expect("a length");
    assert!(seconds > 2.0 && seconds < length + 1.0, "{seconds} of {length}");
    let frames = colours(&video);
    assert!(frames.len() >= 15, "{} frames", frames.len());
    assert!(frames.first().is_some_and(is_red) && frames.last().is_some_and(is_blue), "{frames:?}");

    let lines = fixture.timeline(id).await;
    let actions: Vec<&str> = lines.iter().filter_map(|line| line["action"].as_str()).collect();
    assert_eq!(actions, ["click", "type", "key", "click", "wait", "key"]);
    let [click, typed, keys, refused, waited, unknown] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&click["x"], &click["y"], &click["button"]), (&json!(50), &json!(60), &json!("right")));
    assert_eq!((&click["screen"], &click["success"]), (&json!("default"), &json!(true)));
    assert_eq!(click["window_after"]["title"], "painted");
    let at = click["at"].as_f64().expect("a time");
    assert!(at >= 0.9 && at < length, "{at}");
    for picture in ["before", "after"] {
        let (width, height) = thumbnail_size(&click[picture]);
        assert!(width <= 160 && height <= 90 && width > 100, "{width}x{height}");
    }
    assert_ne!(click["before"], click["after"], "the thumbnails must differ");
    assert_eq!((&typed["characters"], &keys["keys"]), (&json!(17), &json!(["*", "ctrl+*", "Return"])));
    assert_eq!((&refused["success"], &refused["status"]), (&json!(false), &json!(400)));
    assert!(waited["before"].is_null(), "waits have no thumbnails");
    assert_eq!((&unknown["status"], &unknown["keys"]), (&json!(400), &json!(["*"])));
    for entry in std::fs::read_dir(fixture.home().join(FOLDER_NAME)).expect("the folder").flatten() {
        let bytes = std::fs::read(entry.path()).expect("a file");
        for secret in ["hunter", "swordfish"] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{:?}", entry.path());
        }
    }
    fixture.ok("DELETE", &format!("/recordings/{id}"), Value::Null).await;
    for path in ["", "/video", "/timeline"] {
        fixture.fails("GET", &format!("/recordings/{id}{path}"), Value::Null, 404).await;
    }
    assert_eq!(std::fs::read_dir(fixture.home().join(FOLDER_NAME)).expect("the folder").count(), 0);
    drop(window);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confidential_text_has_no_length_and_no_title_in_a_timeline() {
    if !installed("ffmpeg") {
        return;
    }
    let fixture = DisplayFixture::bare(320, 200).await;
    let window = Window::open(&fixture.display(), 0, 0, 320, 200, 0xff_00_00);
    // A program may show what was typed in its title.
    window.name("hunter2 - editor");
    window.focus();
    let started = fixture.record(json!({"fps": 10})).await;
    let confidential = json!({"text": "hunter2", "confidential": true, "settle": {"quiet_ms": 50}});
    let typed = fixture.ok("POST", "/type", confidential).await;
    assert_eq!((&typed["success"], &typed["details"]), (&json!(true), &json!({"confidential": true})));
    assert_eq!(typed["effect"]["window_after"]["title"], Value::Null, "{typed}");
    let refused = fixture.fails("POST", "/type", json!({"text": "a\u{7}", "confidential": true}), 400).await;
    assert!(!refused.contains("0007"), "{refused}");
    window.wait_for(TIMEOUT, |events| {
        events.iter().filter(|event| matches!(event, InputEvent::Key(..))).count() >= 7
    });
    fixture.ok("POST", &format!("/recordings/{}/stop", id(&started)), Value::Null).await;
    let lines = fixture.timeline(id(&started)).await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in &lines {
        assert!(line["characters"].is_null() && !line.to_string().contains("hunter2"), "{line}");
    }
    assert_eq!((&lines[0]["success"], &lines[1]["status"]), (&json!(true), &json!(400)));
    for entry in std::fs::read_dir(fixture.home().join(FOLDER_NAME)).expect("the folder").flatten() {
        let bytes = std::fs::read(entry.path()).expect("a file");
        assert!(!bytes.windows(7).any(|part| part == b"hunter2"), "{:?}", entry.path());
    }
    drop(window);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_ends_with_its_screen_its_encoder_or_its_time_and_plays_all_the_same() {
    if !installed("ffmpeg") {
        return;
    }
    let fixture = DisplayFixture::bare(320, 200).await;
    let created = fixture.ok("POST", "/screens", json!({"width": 200, "height": 120})).await;
    let screen = created["id"].as_str().expect("an id");
    let window = Window::open(&fixture.display(), 0, 0, 320, 200, 0xff_00_00);
    let other = fixture.record(json!({"screen": screen, "timeline": false})).await;
    let boot = fixture.record(json!({"fps": 20})).await;
    let (other, boot) = (id(&other), id(&boot));
    fixture.fails("GET", &format!("/recordings/{other}/timeline"), Value::Null, 404).await;
    fixture.record_seconds(boot, 2.5).await;
    fixture.record_seconds(other, 1.2).await;
    // An unfinished recording can be played.
    assert!(colours(&fixture.video(boot).await).iter().all(is_red));

    fixture.ok("DELETE", &format!("/screens/{screen}"), Value::Null).await;
    let ended = fixture.until(other, "ended", |record| record["status"] != "recording").await;
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("stopped"), &json!("screen_deleted")));
    assert!(probe(&fixture.video(other).await).3 > 1.0);

    for pid in encoders(&fixture.display()) {
        kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).expect("the encoder runs");
    }
    let ended = fixture.until(boot, "ended", |record| record["status"] != "recording").await;
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("failed"), &json!("encoder_ended")));
    let frames = colours(&fixture.video(boot).await);
    assert!(frames.len() >= 20 && frames.iter().all(is_red), "{}", frames.len());

    // The screen can be recorded again at once; this recording ends by its time limit.
    let record_briefly = fixture.record(json!({"max_seconds": 1})).await;
    let ended = fixture.until(id(&record_briefly), "ended", |record| record["status"] != "recording").await;
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("stopped"), &json!("max_seconds")));
    assert!(encoders(&fixture.display()).is_empty());
    // A smaller screen ends the recording, because its source area is gone.
    let wide = fixture.record(json!({})).await;
    fixture.record_seconds(id(&wide), 1.2).await;
    fixture.ok("PATCH", "/screens/default", json!({"width": 200, "height": 120})).await;
    let ended = fixture.until(id(&wide), "ended", |record| record["status"] != "recording").await;
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("failed"), &json!("encoder_ended")));
    assert!(colours(&fixture.video(id(&wide)).await).iter().all(is_red));
    let listed = fixture.ok("GET", "/recordings", Value::Null).await;
    assert_eq!(listed["recordings"].as_array().map(Vec::len), Some(4));
    drop(window);
    fixture.close().await;
}

fn start_request() -> StartRecording {
    StartRecording::default()
}

/// Records for more than a second.
async fn record_briefly(recordings: &Recordings) -> Result<Recording> {
    let started = recordings.start(start_request()).await?;
    let grown =
        wait::until(TIMEOUT, || async { recordings.find(&started.id).ok().filter(|now| now.seconds > 1.0) });
    grown.await.expect("the recording must grow");
    recordings.stop(&started.id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_keep_to_their_limits_and_what_cannot_be_is_refused() {
    let fixture = DisplayFixture::bare(320, 200).await;
    for body in
        [json!({"fps": 0}), json!({"fps": 31}), json!({"max_seconds": 0}), json!({"max_seconds": 3601})]
    {
        fixture.fails("POST", "/recordings", body, 400).await;
    }
    fixture.fails("POST", "/recordings", json!({"screen": "screen-101"}), 404).await;
    for path in ["/recordings/00000000", "/recordings/..%2f..%2fx/video", "/recordings/x/timeline"] {
        fixture.fails("GET", path, Value::Null, 404).await;
    }
    let open_with =
        |limits: RetentionLimits| Recordings::open(RecordingSetup { limits, ..fixture.recording.clone() });
    let missing =
        Recordings::open(RecordingSetup { encoder: "no-such-ffmpeg".into(), ..fixture.recording.clone() });
    assert_eq!(missing.start(start_request()).await.unwrap_err().code, Some(ErrorCode::NoEncoder));
    let broken = Recordings::open(RecordingSetup { encoder: "false".into(), ..fixture.recording.clone() });
    for _ in 0..2 {
        // A failed start leaves no files and no claim to the screen.
        assert_eq!(broken.start(start_request()).await.unwrap_err().code, Some(ErrorCode::EncoderFailed));
    }
    assert_eq!(std::fs::read_dir(fixture.home().join(FOLDER_NAME)).expect("the folder").count(), 0);
    if !installed("ffmpeg") {
        return fixture.close().await;
    }
    let disk_full = open_with(RetentionLimits { min_free: u64::MAX, ..RetentionLimits::default() });
    assert_eq!(disk_full.start(start_request()).await.unwrap_err().code, Some(ErrorCode::DiskFull));

    let window = Window::open(&fixture.display(), 0, 0, 320, 200, 0xff_00_00);
    let roomy = open_with(RetentionLimits::default());
    let first = record_briefly(&roomy).await.expect("a recording");
    let second = record_briefly(&roomy).await.expect("a recording");
    // The quota holds one recording and a little more, so the oldest is removed.
    let narrow = open_with(RetentionLimits {
        quota: second.size_bytes + first.size_bytes / 2,
        ..RetentionLimits::default()
    });
    assert_eq!(narrow.list(), [first.clone(), second.clone()], "the list must survive the agent");
    let third = narrow.start(start_request()).await.expect("a recording");
    assert_eq!(narrow.find(&first.id).unwrap_err().kind, hotdesk::domain::error::Kind::NotFound);
    // A running recording fills the quota: first the other ended one is removed, then the recording ends
    // itself.
    let mut colour = 1_u32;
    let ended = wait::until(TIMEOUT, || {
        for tile in 0..400_i16 {
            colour = colour.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            window.fill(tile % 20 * 16, tile / 20 * 10, 16, 10, colour >> 8);
        }
        let now = narrow.find(&third.id).ok().filter(|now| now.status != "recording");
        async move { now }
    });
    let ended = ended.await.expect("the recording must end");
    assert_eq!((ended.status.as_str(), ended.reason.as_deref()), ("stopped", Some("quota")));
    assert_eq!(narrow.list().into_iter().map(|record| record.id).collect::<Vec<_>>(), [third.id]);
    drop(window);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_outlive_an_agent_that_is_killed() {
    if !installed("ffmpeg") {
        return;
    }
    let Some(mut agent) = RunningAgent::with_screen().await else { return };
    let ready = wait::until(TIMEOUT, || async {
        Some(agent.post("/recordings", json!({})).await).filter(|started| started.status != 503)
    });
    let started = ready.await.expect("a screen");
    assert_eq!(started.status, 201, "{}", started.body);
    let path = format!("/recordings/{}", id(&started.body));
    let grown = wait::until(TIMEOUT, || async {
        agent.get(&path).await.body["seconds"].as_f64().filter(|seconds| *seconds > 2.5)
    });
    grown.await.expect("the recording must grow");
    agent.restart().await;
    let record = agent.get(&path).await.body;
    assert_eq!(
        (&record["status"], &record["reason"]),
        (&json!("failed"), &json!("agent_restarted")),
        "{record}"
    );
    assert!(record["ended_at"].is_string() && record["size_bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    let video = agent.request(Method::GET, &format!("{path}/video")).send().await.expect("an answer");
    let file = agent.home().join("fetched.mp4");
    std::fs::write(&file, video.bytes().await.expect("a body")).expect("a file");
    assert!(probe(&file).3 >= 1.0);
    let again = wait::until(TIMEOUT, || async {
        Some(agent.post("/recordings", json!({})).await).filter(|started| started.status != 503)
    });
    assert_eq!(again.await.expect("a screen").status, 201, "a dead recording must not block the screen");
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_are_made_and_fetched_through_the_controller() {
    if !installed("ffmpeg") {
        return;
    }
    let fixture = DisplayFixture::bare(320, 200).await;
    let window = Window::open(&fixture.display(), 0, 0, 320, 200, 0xff_00_00);
    let tasks = Tasks::new();
    let (controller, computer) = boot_with_agent(fixture.router(), &tasks).await;
    let at = |remaining: &str| format!("/computers/{computer}/recordings{remaining}");
    let started = controller.post(&at(""), json!({"fps": 10, "max_seconds": 60})).await;
    assert_eq!(started.status, 201, "{}", started.body);
    let id = id(&started.body);
    let second_stop = controller.post(&at(""), json!({})).await;
    assert_eq!((second_stop.status, &second_stop.body["code"]), (409, &json!("already_recording")));
    let click = controller.post(&format!("/computers/{computer}/click"), json!({"x": 7, "y": 8})).await;
    assert_eq!(click.status, 200, "{}", click.body);
    fixture.record_seconds(id, 1.5).await;
    let ended = controller.post(&at(&format!("/{id}/stop")), json!({})).await;
    assert_eq!((ended.status, &ended.body["status"]), (200, &json!("stopped")), "{}", ended.body);
    assert_eq!(controller.get(&at(&format!("/{id}"))).await.body, ended.body);
    assert_eq!(controller.get(&at("")).await.body["recordings"], json!([ended.body]));
    let fetch = async |file: &str, range: Option<&str>| {
        let mut request = controller.request(Method::GET, &at(&format!("/{id}/{file}")));
        if let Some(range) = range {
            request = request.header("Range", range);
        }
        request.send().await.expect("an answer")
    };
    let video = fetch("video", None).await;
    assert_eq!(
        (video.status().as_u16(), &video.headers()["content-type"]),
        (200, &"video/mp4".parse().unwrap())
    );
    let length = video.content_length().expect("a length");
    let bytes = video.bytes().await.expect("a body");
    assert_eq!(bytes.len() as u64, length);
    let part = fetch("video", Some("bytes=4-7")).await;
    assert_eq!(part.status(), 206);
    assert_eq!(&part.bytes().await.expect("a body")[..], b"ftyp");
    assert_eq!(fetch("video", Some("bytes=99999999-")).await.status(), 416);
    let lines = fetch("timeline", None).await.text().await.expect("text");
    let click: Value = serde_json::from_str(lines.trim_end()).expect("a line");
    assert_eq!((&click["action"], &click["x"], &click["y"]), (&json!("click"), &json!(7), &json!(8)));
    let gone = fetch_json(controller.request(Method::DELETE, &at(&format!("/{id}")))).await;
    assert_eq!((gone.status, &gone.body), (200, &json!({"success": true})));
    assert_eq!(controller.get(&at(&format!("/{id}/video"))).await.status, 404);
    tasks.drain(TIMEOUT).await;
    drop(window);
    fixture.close().await;
}
