//! Conditional, scaled and partial screenshots, and the mapping of their coordinates back to the screen.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::fixture::{Claim, DisplayFixture, ForeignXServer, Picture, Screenshot, TIMEOUT, installed};
use super::window::{InputEvent, Window};
use hotdesk::agent::display::{ScreenSession, XServer};
use hotdesk::domain::error_code::ErrorCode;

/// A fixture with a red window over the whole screen, which has a blue square of 20 pixels at (100, 50).
async fn open_red_screen() -> (DisplayFixture, Window) {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0xff_00_00);
    window.fill(100, 50, 20, 20, 0x00_00_ff);
    fixture.ok("POST", "/move", json!({"x": 399, "y": 299})).await;
    (fixture, window)
}

fn is_near(shot: &Picture, x: u32, y: u32, colour: u32) -> bool {
    let (observed, expected) = (shot.pixel(x, y).to_be_bytes(), colour.to_be_bytes());
    observed.iter().zip(expected).all(|(observed, expected)| observed.abs_diff(expected) < 12)
}

fn code(screenshot: &Screenshot) -> (u16, Value) {
    let body: Value = serde_json::from_slice(&screenshot.bytes).expect("a JSON body");
    (screenshot.status.as_u16(), body["code"].clone())
}

#[tokio::test]
async fn a_region_is_that_part_of_the_screen_in_every_format() {
    let (fixture, _window) = open_red_screen().await;
    for format in ["png", "jpeg&quality=95", "webp", "webp&quality=95"] {
        let screenshot = fixture.screenshot(&format!("format={format}&region=90,40,60,40"), &[]).await;
        let shot = screenshot.picture();
        assert_eq!((shot.width, shot.height), (60, 40), "{format}");
        for (x, y, colour) in
            [(3, 3, 0xff_00_00), (13, 13, 0x00_00_ff), (26, 26, 0x00_00_ff), (36, 36, 0xff_00_00)]
        {
            assert!(is_near(&shot, x, y, colour), "{format} {x},{y}: {:06x}", shot.pixel(x, y));
        }
        let lossless = format == "png" || format == "webp";
        let corners = [(9, 9), (10, 10), (29, 29), (30, 30)].map(|(x, y)| shot.pixel(x, y));
        assert!(!lossless || corners == [0xff_00_00, 0x00_00_ff, 0x00_00_ff, 0xff_00_00], "{corners:06x?}");
    }
    // A region can be scaled; the whole screen and a single pixel are valid regions.
    let half = fixture.screenshot("region=100,50,20,20&scale=0.5", &[]).await.picture();
    assert_eq!((half.width, half.height, half.pixel(5, 5)), (10, 10, 0x00_00_ff));
    let whole = fixture.screenshot("region=0,0,400,300", &[]).await.picture();
    assert!(whole.rgb == fixture.picture("").await.rgb);
    assert_eq!(fixture.screenshot("region=119,69,1,1", &[]).await.picture().rgb, [0, 0, 255]);
    for outside in ["0,0,401,300", "400,0,1,1", "399,299,1,2", "0,300,1,1", "9999,9999,9999,9999"] {
        let screenshot = fixture.screenshot(&format!("region={outside}"), &[]).await;
        assert_eq!(screenshot.status, 400, "{outside}");
    }
    // After a resize other regions are on the screen.
    fixture.ok("PATCH", "/screens/default", json!({"width": 500, "height": 200})).await;
    assert_eq!(fixture.screenshot("region=499,199,1,1", &[]).await.status, 200);
    assert_eq!(fixture.screenshot("region=0,0,400,300", &[]).await.status, 400);
    fixture.close().await;
}

#[tokio::test]
async fn regions_need_no_shared_memory_and_no_x_server_of_ours() {
    if !installed("Xvfb") {
        return;
    }
    let claim = Claim::new();
    let options = ["-screen", "0", "640x480x24", "-nolisten", "tcp", "-extension", "MIT-SHM"];
    let xvfb = ForeignXServer::start("Xvfb", claim.base, &options).await;
    let attach = XServer::Attach(format!(":{}", xvfb.display));
    let fixture = DisplayFixture::start(claim, attach, ScreenSession::None).await;
    let window = Window::open(&fixture.display(), 10, 20, 100, 100, 0x12_34_56);
    let shot = fixture.screenshot("region=9,19,3,3&cursor=off", &[]).await.picture();
    assert_eq!((shot.width, shot.pixel(0, 0) == 0x12_34_56, shot.pixel(1, 1)), (3, false, 0x12_34_56));
    drop(window);
    fixture.displays.stop().await;
}

#[tokio::test]
async fn the_pointer_is_drawn_only_where_it_is_wanted() {
    let (fixture, _window) = open_red_screen().await;
    fixture.ok("POST", "/move", json!({"x": 200, "y": 150})).await;
    let foreign = |shot: &Picture| {
        shot.rgb
            .chunks(3)
            .filter(|pixel| ![[255, 0, 0], [0, 0, 255]].contains(&[pixel[0], pixel[1], pixel[2]]))
            .count()
    };
    let on = fixture.screenshot("", &[]).await;
    assert!(foreign(&on.picture()) > 0, "the pointer must be in the picture");
    assert_eq!(
        fixture.screenshot("cursor=on", &[]).await.frame(),
        on.frame(),
        "the pointer is on by default"
    );
    let off = fixture.screenshot("cursor=off", &[]).await;
    assert_eq!(foreign(&off.picture()), 0);
    // A region shows the part of the pointer that is in it.
    assert!(foreign(&fixture.screenshot("region=190,140,20,20", &[]).await.picture()) > 0);
    let away = fixture.screenshot("region=0,0,50,50", &[]).await;
    assert_eq!(foreign(&away.picture()), 0);
    // A move of the pointer outside of the picture does not create a new frame.
    fixture.ok("POST", "/move", json!({"x": 210, "y": 150})).await;
    assert_ne!(fixture.screenshot("", &[]).await.frame(), on.frame());
    assert_eq!(fixture.screenshot("cursor=off", &[]).await.frame(), off.frame());
    assert_eq!(fixture.screenshot("region=0,0,50,50", &[]).await.frame(), away.frame());
    fixture.close().await;
}

#[tokio::test]
async fn a_client_that_has_the_present_picture_is_told_so() {
    let (fixture, window) = open_red_screen().await;
    let first = fixture.screenshot("format=jpeg&scale=0.5", &[]).await;
    let tag = first.header("etag").to_owned();
    assert_eq!(tag, format!("\"{}\"", first.frame()));
    for held in [&[&*tag][..], &["\"x-1\", W/\"y-2\"", &tag], &[&format!("W/{tag}")]] {
        let same = fixture.screenshot("format=jpeg&scale=0.5", held).await;
        assert_eq!((same.status, same.bytes.len()), (StatusCode::NOT_MODIFIED, 0), "{held:?}");
        for name in ["etag", "x-hotdesk-frame", "x-hotdesk-scale", "x-hotdesk-screen", "x-hotdesk-width"] {
            assert_eq!(same.header(name), first.header(name), "{name}");
        }
    }
    // Another format is another picture, `*` matches nothing, and foreign tags are ignored.
    for (query, held) in [
        ("format=jpeg", &*tag),
        ("format=jpeg&scale=0.5&quality=79", &tag),
        ("format=jpeg&scale=0.5", "*"),
        ("format=jpeg&scale=0.5", "\"00000000-1\""),
    ] {
        assert_eq!(fixture.screenshot(query, &[held]).await.status, 200, "{query} {held}");
    }
    window.fill(0, 0, 1, 1, 0);
    let second = fixture.screenshot("format=jpeg&scale=0.5", &[&tag]).await;
    assert_eq!(second.status, 200);
    assert_ne!(second.header("etag"), tag);
    // Restored content is a new frame, because the screen may have changed several times in between.
    window.fill(0, 0, 1, 1, 0xff_00_00);
    assert_eq!(fixture.screenshot("format=jpeg&scale=0.5", &[&tag]).await.status, 200);
    // The JSON format always contains the whole picture.
    let json = fixture.ok("GET", "/screenshot", Value::Null).await;
    assert!(json["image"].as_str().is_some_and(|image| image.len() > 100));
    fixture.close().await;
}

#[tokio::test]
async fn every_picture_says_what_it_shows() {
    let (fixture, _window) = open_red_screen().await;
    fixture.ok("POST", "/screens", json!({"width": 320, "height": 200})).await;
    for (query, screen, (width, height), scale) in [
        ("", "default", (400, 300), 1.0),
        ("scale=0.5", "default", (200, 150), 0.5),
        ("scale=0.333&region=0,0,100,50", "default", (33, 17), 0.33),
        ("max_pixels=30000&format=webp", "default", (200, 150), 0.5),
        ("max_pixels=16000&screen=screen-100", "screen-100", (160, 100), 0.5),
    ] {
        let screenshot = fixture.screenshot(query, &[]).await;
        let (w, h) = (width.to_string(), height.to_string());
        assert_eq!(
            (screenshot.header("x-hotdesk-width"), screenshot.header("x-hotdesk-height")),
            (&*w, &*h),
            "{query}"
        );
        assert_eq!(screenshot.header("x-hotdesk-screen"), screen);
        assert_eq!(screenshot.header("x-hotdesk-scale").parse(), Ok(scale), "{query}");
        let shot = screenshot.picture();
        assert_eq!((shot.width, shot.height), (width, height), "{query}");
        let json = fixture.ok("GET", &format!("/screenshot?{query}"), Value::Null).await;
        assert_eq!((&json["width"], &json["height"]), (&json!(width), &json!(height)));
        assert_eq!((&json["screen"], json["scale"].as_f64()), (&json!(screen), Some(scale)), "{query}");
        assert_eq!(
            json["frame"],
            screenshot.frame(),
            "the same frame must have the same id in every response format"
        );
    }
    fixture.close().await;
}

/// Paints content that no encoder can compress: small squares of different colours.
fn paint_noise(window: &Window) {
    let mut colour = 1_u32;
    for y in (0..300).step_by(6) {
        for x in (0..400).step_by(6) {
            colour = colour.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            window.fill(x, y, 6, 6, colour >> 8);
        }
    }
}

#[tokio::test]
async fn budgets_of_pixels_and_bytes_hold() {
    let (fixture, window) = open_red_screen().await;
    paint_noise(&window);
    let bytes = async |query: &str| fixture.screenshot(query, &[]).await.bytes.len();
    for format in ["png", "jpeg", "jpeg&quality=100", "webp", "webp&quality=90"] {
        let free = bytes(&format!("format={format}")).await;
        for part in [1, 2, 4, 6] {
            // The smallest possible picture, with 64x48 pixels of incompressible content.
            let budget = (free / part).max(10_000);
            let screenshot = fixture.screenshot(&format!("format={format}&max_bytes={budget}"), &[]).await;
            assert_eq!(
                screenshot.status,
                200,
                "{format} in {budget}: {}",
                String::from_utf8_lossy(&screenshot.bytes)
            );
            assert!(screenshot.bytes.len() <= budget, "{format}: {} of {budget}", screenshot.bytes.len());
            let shot = screenshot.picture();
            assert!(shot.width <= 400 && shot.width >= 64, "{format} in {budget}: {}", shot.width);
            assert_eq!(screenshot.header("x-hotdesk-width"), shot.width.to_string());
            assert!((f64::from(shot.width) / f64::from(shot.height) - 4.0 / 3.0).abs() < 0.05);
        }
        let refused = fixture.screenshot(&format!("format={format}&max_bytes=50"), &[]).await;
        assert_eq!(code(&refused), (400, json!("budget_too_small")), "{format}");
    }
    // The encoder reduces the quality before the size, and a sufficient budget changes nothing.
    let jpeg = bytes("format=jpeg").await;
    assert_eq!(
        fixture.screenshot(&format!("format=jpeg&max_bytes={}", jpeg * 2 / 3), &[]).await.picture().width,
        400
    );
    assert_eq!(bytes(&format!("format=jpeg&max_bytes={jpeg}")).await, jpeg);
    // Both budgets and a scale together.
    let screenshot = fixture.screenshot("max_pixels=20000&max_bytes=9000&scale=0.9&format=jpeg", &[]).await;
    let shot = screenshot.picture();
    assert!(shot.width * shot.height <= 20_000 && screenshot.bytes.len() <= 9_000);
    fixture.close().await;
}

#[tokio::test]
async fn places_in_a_frame_lead_back_to_the_screen() {
    let (fixture, window) = open_red_screen().await;
    let screen = fixture.boot();
    for query in
        ["", "scale=0.5", "scale=0.1", "region=90,40,60,40", "region=90,40,60,40&scale=0.5&format=jpeg"]
    {
        let screenshot = fixture.screenshot(query, &[]).await;
        let shot = screenshot.picture();
        // In every format a click at a blue pixel hits the blue square.
        let mut blue = (0..shot.width)
            .flat_map(|x| (0..shot.height).map(move |y| (x, y)))
            .filter(|(x, y)| shot.pixel(*x, *y) & 0xff > 150 && shot.pixel(*x, *y) >> 16 < 100);
        let (x, y) = blue.next_back().expect("a blue pixel");
        let result = fixture.ok("POST", "/click", json!({"x": x, "y": y, "frame": screenshot.frame()})).await;
        let at = |name: &str| {
            result["details"][name].as_i64().and_then(|at| i16::try_from(at).ok()).expect("a place")
        };
        let (x, y) = (at("x"), at("y"));
        assert!((100..120).contains(&x) && (50..70).contains(&y), "{query}: {x},{y}");
        window.wait_for(TIMEOUT, |events| events.contains(&InputEvent::Release(1, x, y)));
        let outside = json!({"x": shot.width, "y": 0, "frame": screenshot.frame()});
        let error = fixture.fails("POST", "/click", outside, 400).await;
        assert!(error.contains("outside the frame"), "{error}");
    }
    // Paths, scrolls and lists refer to frames too.
    let screenshot = fixture.screenshot("scale=0.5", &[]).await;
    let drag = json!({"path": [[10, 10], [20, 20]], "duration": 0, "frame": screenshot.frame()});
    let result = fixture
        .ok(
            "POST",
            "/actions",
            json!([{"action": "scroll", "direction": "up", "x": 4, "y": 5, "frame": screenshot.frame()}]),
        )
        .await;
    assert_eq!(result["results"][0]["result"]["details"]["x"], 8);
    assert_eq!(fixture.ok("POST", "/drag", drag).await["details"]["end_x"], 40);
    // The frame of a cached or unmodified answer is known too.
    let screenshot = fixture.screenshot("cursor=off", &[]).await;
    let again = fixture.screenshot("cursor=off", &[screenshot.header("etag")]).await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);
    let moment = screen.frame_record(screenshot.frame()).expect("a frame").moment();
    window.fill(0, 0, 5, 5, 0);
    let later = fixture.screenshot("cursor=off", &[]).await;
    assert_ne!(screen.frame_record(later.frame()).expect("a frame").moment(), moment);
    for stranger in ["", "x", "00000000-1", "0-1", "\u{1f600}"] {
        let unknown = screen.frame_record(stranger).unwrap_err();
        assert_eq!(unknown.code, Some(ErrorCode::UnknownFrame), "{stranger}");
        fixture.fails("POST", "/click", json!({"x": 1, "y": 1, "frame": stranger}), 409).await;
    }
    fixture.close().await;
}

#[tokio::test]
async fn a_frame_is_known_for_a_thousand_more_and_never_on_another_screen() {
    let fixture = DisplayFixture::bare(64, 64).await;
    let window = Window::open(&fixture.display(), 0, 0, 64, 64, 0);
    let created = fixture.ok("POST", "/screens", json!({"width": 64, "height": 64})).await;
    let other = fixture.displays.screen(created["id"].as_str()).expect("a screen");
    let first = fixture.screenshot("cursor=off", &[]).await.frame().to_owned();
    let tag = format!("\"{first}\"");
    assert_eq!(other.frame_record(&first).unwrap_err().code, Some(ErrorCode::UnknownFrame));
    for round in 1..1024_u32 {
        window.fill(0, 0, 1, 1, round);
        fixture.screenshot("cursor=off", &[]).await;
    }
    fixture.boot().frame_record(&first).expect("still known");
    window.fill(0, 0, 1, 1, 0xff_ff_ff);
    let newest = fixture.screenshot("cursor=off", &[&tag]).await;
    assert_eq!(newest.status, 200);
    assert_eq!(fixture.boot().frame_record(&first).unwrap_err().code, Some(ErrorCode::UnknownFrame));
    fixture.boot().frame_record(newest.frame()).expect("the newest is known");
    fixture.close().await;
}

#[tokio::test]
async fn a_click_on_what_has_changed_since_its_frame_is_refused_where_that_is_asked() {
    let (fixture, window) = open_red_screen().await;
    let screenshot = fixture.screenshot("scale=0.5", &[]).await;
    let click = |x: u32, frame: &str| json!({"x": x, "y": 30, "frame": frame, "refuse_stale": true});
    window.fill(60, 60, 4, 4, 0);
    // The changed area is 4 pixels from the first point and 18 from the second.
    let (status, refused) = fixture.call("POST", "/click", click(28, screenshot.frame())).await;
    assert_eq!((status.as_u16(), &refused["code"]), (409, &json!("stale_frame")), "{refused}");
    assert_eq!(window.clicks(), []);
    fixture.ok("POST", "/click", click(20, screenshot.frame())).await;
    fixture.ok("POST", "/click", json!({"x": 28, "y": 30, "frame": screenshot.frame()})).await;
    assert_eq!(window.clicks().len(), 4);
    let again = fixture.screenshot("scale=0.5", &[]).await;
    fixture.ok("POST", "/click", click(28, again.frame())).await;
    fixture.fails("POST", "/click", json!({"x": 1, "y": 1, "refuse_stale": true}), 400).await;
    fixture.close().await;
}
