//! Screenshots: exact pixels, the pointer, changes, sizes and formats.

use axum::http::StatusCode;
use base64::Engine as _;
use serde_json::{Value, json};
use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::wrapper::ConnectionExt as _;

use super::fixture::{Claim, DisplayFixture, ForeignXServer, Picture, installed};
use super::window::Window;
use hotdesk::agent::display::{ScreenSession, XServer};

async fn check_pixels(fixture: &DisplayFixture) {
    let window = Window::open(&fixture.display(), 10, 20, 200, 100, 0x12_34_56);
    fixture.ok("POST", "/move", json!({"x": 0, "y": 0})).await;
    let shot = fixture.picture("").await;
    assert_eq!(shot.pixel(10, 20), 0x12_34_56);
    assert_eq!(shot.pixel(209, 119), 0x12_34_56);
    assert_ne!(shot.pixel(9, 20), 0x12_34_56);
    assert_ne!(shot.pixel(210, 119), 0x12_34_56);
    // A change of one pixel must not be answered from the cache.
    window.fill(50, 60, 1, 1, 0xfe_dc_ba);
    let shot = fixture.picture("").await;
    assert_eq!((shot.pixel(60, 80), shot.pixel(61, 80)), (0xfe_dc_ba, 0x12_34_56));
    for round in 0..100 {
        window.fill(0, 0, 20, 20, round * 0x01_02_03);
        assert_eq!(fixture.picture("").await.pixel(15, 25), round * 0x01_02_03, "round {round}");
    }
}

#[tokio::test]
async fn pixels_are_true_on_an_x_server_of_our_own() {
    if !installed("Xvnc") {
        return;
    }
    let fixture = DisplayFixture::bare(800, 600).await;
    let shot = fixture.picture("").await;
    assert_eq!((shot.width, shot.height), (800, 600));
    check_pixels(&fixture).await;
    fixture.close().await;
}

#[tokio::test]
async fn pixels_are_true_on_an_xvfb_that_somebody_started() {
    if !installed("Xvfb") {
        return;
    }
    let claim = Claim::new();
    let mut xvfb = ForeignXServer::xvfb(&claim).await;
    let attach = XServer::Attach(format!(":{}", xvfb.display));
    let fixture = DisplayFixture::start(claim, attach, ScreenSession::None).await;
    check_pixels(&fixture).await;
    let record = fixture.ok("GET", "/screens", Value::Null).await["screens"][0].clone();
    assert_eq!((&record["width"], &record["height"]), (&json!(640), &json!(480)));
    assert!(
        fixture
            .fails("PATCH", "/screens/default", json!({"width": 800, "height": 600}), 409)
            .await
            .contains("size")
    );
    // The display subsystem stops, but it must not end a foreign X server.
    fixture.displays.stop().await;
    assert!(xvfb.child.try_wait().expect("a status").is_none(), "the foreign server must keep running");
}

#[tokio::test]
async fn the_pointer_is_in_the_picture_and_moving_it_makes_a_new_one() {
    let fixture = DisplayFixture::bare(320, 240).await;
    let window = Window::open(&fixture.display(), 0, 0, 320, 240, 0);
    // A pointer of one colour: its font glyph in green on green.
    let font = x11rb::connection::Connection::generate_id(&window.link).expect("an id");
    window.link.open_font(font, b"cursor").expect("the cursor font");
    let cursor = x11rb::connection::Connection::generate_id(&window.link).expect("an id");
    window
        .link
        .create_glyph_cursor(cursor, font, font, 68, 69, 0, 0xffff, 0, 0, 0xffff, 0)
        .expect("a cursor");
    let attributes = x11rb::protocol::xproto::ChangeWindowAttributesAux::new().cursor(cursor);
    window.link.change_window_attributes(window.id, &attributes).expect("the look");
    window.link.sync().expect("a round trip");
    let green = |shot: &Picture, x: u32, y: u32| {
        let area = (x.saturating_sub(2)..(x + 12).min(shot.width))
            .flat_map(|x| (y..(y + 12).min(shot.height)).map(move |y| (x, y)));
        area.filter(|(x, y)| shot.pixel(*x, *y) == 0x00_ff_00).count()
    };
    for (x, y) in [(100, 50), (0, 0), (319, 239), (200, 239)] {
        fixture.ok("POST", "/move", json!({"x": x, "y": y})).await;
        let shot = fixture.picture("").await;
        assert!(green(&shot, x, y) > 0, "no pointer at {x},{y}");
        assert!((x, y) == (100, 50) || green(&shot, 100, 50) == 0, "the pointer is still at 100,50");
    }
    fixture.close().await;
}

#[tokio::test]
async fn every_form_of_a_picture() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let _window = Window::open(&fixture.display(), 0, 0, 400, 300, 0xff_00_00);
    fixture.ok("POST", "/move", json!({"x": 399, "y": 299})).await;
    let json = fixture.ok("GET", "/screenshot", Value::Null).await;
    assert_eq!((&json["success"], &json["mime_type"]), (&json!(true), &json!("image/png")));
    assert_eq!((&json["width"], &json["height"]), (&json!(400), &json!(300)));
    let image = json["image"].as_str().expect("base64");
    let bytes = base64::engine::general_purpose::STANDARD.decode(image).expect("raw base64");
    assert_eq!(Picture::decode(&bytes).pixel(10, 10), 0xff_00_00);
    let shot = fixture.picture("scale=0.5").await;
    assert_eq!((shot.width, shot.height, shot.pixel(50, 50)), (200, 150, 0xff_00_00));
    for (quality, largest) in [(1, 4_000), (100, 40_000)] {
        let path = format!("/screenshot?response_format=binary&format=jpeg&quality={quality}");
        let (status, kind, bytes) = fixture.raw("GET", &path, &Value::Null).await;
        assert_eq!((status, kind.as_str()), (StatusCode::OK, "image/jpeg"));
        assert!(bytes.starts_with(&[0xff, 0xd8]) && bytes.len() < largest, "{} bytes", bytes.len());
    }
    for query in
        ["format=gif", "quality=0", "quality=101", "scale=0", "scale=2", "scale=x", "response_format=x"]
    {
        fixture.fails("GET", &format!("/screenshot?{query}"), Value::Null, 400).await;
    }
    let error = fixture.fails("GET", "/screenshot?screen=screen-100", Value::Null, 404).await;
    assert_eq!(error, "Screen not found: screen-100");
    fixture.close().await;
}
