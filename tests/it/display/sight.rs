//! Do clients get the part, the kind and the size of picture that they ask for, only when it is new to them, and do its
//! places lead back to the screen?

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::desk::{Claim, Desk, Foreign, Look, TIMEOUT, Shot, installed};
use super::window::{Got, Window};
use hotdesk::agent::display::{Session, XServer};

/// A desk whose whole screen a window covers, red but for a blue square of 20 pixels at (100, 50).
async fn red_with_a_blue_square() -> (Desk, Window) {
    let desk = Desk::bare(400, 300).await;
    let window = Window::open(&desk.display(), 0, 0, 400, 300, 0xff_00_00);
    window.fill(100, 50, 20, 20, 0x00_00_ff);
    desk.ok("POST", "/move", json!({"x": 399, "y": 299})).await;
    (desk, window)
}

fn near(shot: &Shot, x: u32, y: u32, colour: u32) -> bool {
    let (seen, wanted) = (shot.pixel(x, y).to_be_bytes(), colour.to_be_bytes());
    seen.iter().zip(wanted).all(|(seen, wanted)| seen.abs_diff(wanted) < 12)
}

fn code(look: &Look) -> (u16, Value) {
    let body: Value = serde_json::from_slice(&look.bytes).expect("a JSON body");
    (look.status.as_u16(), body["code"].clone())
}

#[tokio::test]
async fn a_region_is_that_part_of_the_screen_in_every_format() {
    let (desk, _window) = red_with_a_blue_square().await;
    for format in ["png", "jpeg&quality=95", "webp", "webp&quality=95"] {
        let look = desk.look(&format!("format={format}&region=90,40,60,40"), &[]).await;
        let shot = look.shot();
        assert_eq!((shot.width, shot.height), (60, 40), "{format}");
        for (x, y, colour) in
            [(3, 3, 0xff_00_00), (13, 13, 0x00_00_ff), (26, 26, 0x00_00_ff), (36, 36, 0xff_00_00)]
        {
            assert!(near(&shot, x, y, colour), "{format} {x},{y}: {:06x}", shot.pixel(x, y));
        }
        let lossless = format == "png" || format == "webp";
        let corners = [(9, 9), (10, 10), (29, 29), (30, 30)].map(|(x, y)| shot.pixel(x, y));
        assert!(!lossless || corners == [0xff_00_00, 0x00_00_ff, 0x00_00_ff, 0xff_00_00], "{corners:06x?}");
    }
    // A part is scaled like a whole; the whole is a part; one pixel is enough.
    let half = desk.look("region=100,50,20,20&scale=0.5", &[]).await.shot();
    assert_eq!((half.width, half.height, half.pixel(5, 5)), (10, 10, 0x00_00_ff));
    let whole = desk.look("region=0,0,400,300", &[]).await.shot();
    assert!(whole.rgb == desk.picture("").await.rgb);
    assert_eq!(desk.look("region=119,69,1,1", &[]).await.shot().rgb, [0, 0, 255]);
    for outside in ["0,0,401,300", "400,0,1,1", "399,299,1,2", "0,300,1,1", "9999,9999,9999,9999"] {
        let look = desk.look(&format!("region={outside}"), &[]).await;
        assert_eq!(look.status, 400, "{outside}");
    }
    // After a change of size other parts are on the screen.
    desk.ok("PATCH", "/screens/default", json!({"width": 500, "height": 200})).await;
    assert_eq!(desk.look("region=499,199,1,1", &[]).await.status, 200);
    assert_eq!(desk.look("region=0,0,400,300", &[]).await.status, 400);
    desk.close().await;
}

#[tokio::test]
async fn regions_need_no_shared_memory_and_no_x_server_of_ours() {
    if !installed("Xvfb") {
        return;
    }
    let claim = Claim::new();
    let options = ["-screen", "0", "640x480x24", "-nolisten", "tcp", "-extension", "MIT-SHM"];
    let xvfb = Foreign::start("Xvfb", claim.base, &options).await;
    let attach = XServer::Attach(format!(":{}", xvfb.display));
    let desk = Desk::start(claim, attach, Session::None).await;
    let window = Window::open(&desk.display(), 10, 20, 100, 100, 0x12_34_56);
    let shot = desk.look("region=9,19,3,3&cursor=off", &[]).await.shot();
    assert_eq!((shot.width, shot.pixel(0, 0) == 0x12_34_56, shot.pixel(1, 1)), (3, false, 0x12_34_56));
    drop(window);
    desk.displays.stop().await;
}

#[tokio::test]
async fn the_pointer_is_drawn_only_where_it_is_wanted() {
    let (desk, _window) = red_with_a_blue_square().await;
    desk.ok("POST", "/move", json!({"x": 200, "y": 150})).await;
    let foreign = |shot: &Shot| {
        shot.rgb
            .chunks(3)
            .filter(|pixel| ![[255, 0, 0], [0, 0, 255]].contains(&[pixel[0], pixel[1], pixel[2]]))
            .count()
    };
    let on = desk.look("", &[]).await;
    assert!(foreign(&on.shot()) > 0, "no pointer");
    assert_eq!(desk.look("cursor=on", &[]).await.frame(), on.frame(), "on is what is meant without a word");
    let off = desk.look("cursor=off", &[]).await;
    assert_eq!(foreign(&off.shot()), 0);
    // A part is drawn with the part of the pointer that is in it.
    assert!(foreign(&desk.look("region=190,140,20,20", &[]).await.shot()) > 0);
    let away = desk.look("region=0,0,50,50", &[]).await;
    assert_eq!(foreign(&away.shot()), 0);
    // Where the pointer is not in the picture, its movement makes no new one.
    desk.ok("POST", "/move", json!({"x": 210, "y": 150})).await;
    assert_ne!(desk.look("", &[]).await.frame(), on.frame());
    assert_eq!(desk.look("cursor=off", &[]).await.frame(), off.frame());
    assert_eq!(desk.look("region=0,0,50,50", &[]).await.frame(), away.frame());
    desk.close().await;
}

#[tokio::test]
async fn a_client_that_has_the_present_picture_is_told_so() {
    let (desk, window) = red_with_a_blue_square().await;
    let first = desk.look("format=jpeg&scale=0.5", &[]).await;
    let tag = first.header("etag").to_owned();
    assert_eq!(tag, format!("\"{}\"", first.frame()));
    for held in [&[&*tag][..], &["\"x-1\", W/\"y-2\"", &tag], &[&format!("W/{tag}")]] {
        let same = desk.look("format=jpeg&scale=0.5", held).await;
        assert_eq!((same.status, same.bytes.len()), (StatusCode::NOT_MODIFIED, 0), "{held:?}");
        for name in ["etag", "x-hotdesk-frame", "x-hotdesk-scale", "x-hotdesk-screen", "x-hotdesk-width"] {
            assert_eq!(same.header(name), first.header(name), "{name}");
        }
    }
    // Another form is another picture, a star is nobody's, and a stranger's tag is not ours.
    for (query, held) in [
        ("format=jpeg", &*tag),
        ("format=jpeg&scale=0.5&quality=79", &tag),
        ("format=jpeg&scale=0.5", "*"),
        ("format=jpeg&scale=0.5", "\"00000000-1\""),
    ] {
        assert_eq!(desk.look(query, &[held]).await.status, 200, "{query} {held}");
    }
    window.fill(0, 0, 1, 1, 0);
    let second = desk.look("format=jpeg&scale=0.5", &[&tag]).await;
    assert_eq!(second.status, 200);
    assert_ne!(second.header("etag"), tag);
    // Back as it was is still another picture: it may have changed in between more than once.
    window.fill(0, 0, 1, 1, 0xff_00_00);
    assert_eq!(desk.look("format=jpeg&scale=0.5", &[&tag]).await.status, 200);
    // The JSON form is always whole.
    let json = desk.ok("GET", "/screenshot", Value::Null).await;
    assert!(json["image"].as_str().is_some_and(|image| image.len() > 100));
    desk.close().await;
}

#[tokio::test]
async fn every_picture_says_what_it_shows() {
    let (desk, _window) = red_with_a_blue_square().await;
    desk.ok("POST", "/screens", json!({"width": 320, "height": 200})).await;
    for (query, screen, (width, height), scale) in [
        ("", "default", (400, 300), 1.0),
        ("scale=0.5", "default", (200, 150), 0.5),
        ("scale=0.333&region=0,0,100,50", "default", (33, 17), 0.33),
        ("max_pixels=30000&format=webp", "default", (200, 150), 0.5),
        ("max_pixels=16000&screen=screen-100", "screen-100", (160, 100), 0.5),
    ] {
        let look = desk.look(query, &[]).await;
        let (w, h) = (width.to_string(), height.to_string());
        assert_eq!((look.header("x-hotdesk-width"), look.header("x-hotdesk-height")), (&*w, &*h), "{query}");
        assert_eq!(look.header("x-hotdesk-screen"), screen);
        assert_eq!(look.header("x-hotdesk-scale").parse(), Ok(scale), "{query}");
        let shot = look.shot();
        assert_eq!((shot.width, shot.height), (width, height), "{query}");
        let json = desk.ok("GET", &format!("/screenshot?{query}"), Value::Null).await;
        assert_eq!((&json["width"], &json["height"]), (&json!(width), &json!(height)));
        assert_eq!((&json["screen"], &json["scale"]), (&json!(screen), &json!(scale)), "{query}");
        assert_eq!(
            json["frame"],
            look.frame(),
            "the same picture has the same name in every response format"
        );
    }
    desk.close().await;
}

/// Something that no encoder makes small: a field of small squares, each of another colour.
fn scribble(window: &Window) {
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
    let (desk, window) = red_with_a_blue_square().await;
    scribble(&window);
    let bytes = async |query: &str| desk.look(query, &[]).await.bytes.len();
    for format in ["png", "jpeg", "jpeg&quality=100", "webp", "webp&quality=90"] {
        let free = bytes(&format!("format={format}")).await;
        for part in [1, 2, 4, 6] {
            // The smallest picture of noise that is not compressed at all has 64x48 pixels.
            let most = (free / part).max(10_000);
            let look = desk.look(&format!("format={format}&max_bytes={most}"), &[]).await;
            assert_eq!(look.status, 200, "{format} in {most}: {}", String::from_utf8_lossy(&look.bytes));
            assert!(look.bytes.len() <= most, "{format}: {} of {most}", look.bytes.len());
            let shot = look.shot();
            assert!(shot.width <= 400 && shot.width >= 64, "{format} in {most}: {}", shot.width);
            assert_eq!(look.header("x-hotdesk-width"), shot.width.to_string());
            assert!((f64::from(shot.width) / f64::from(shot.height) - 4.0 / 3.0).abs() < 0.05);
        }
        let refused = desk.look(&format!("format={format}&max_bytes=50"), &[]).await;
        assert_eq!(code(&refused), (400, json!("budget_too_small")), "{format}");
    }
    // Quality goes before size, and a budget that is kept anyway changes nothing.
    let jpeg = bytes("format=jpeg").await;
    assert_eq!(desk.look(&format!("format=jpeg&max_bytes={}", jpeg * 2 / 3), &[]).await.shot().width, 400);
    assert_eq!(bytes(&format!("format=jpeg&max_bytes={jpeg}")).await, jpeg);
    // Both budgets and a scale together: each holds.
    let look = desk.look("max_pixels=20000&max_bytes=9000&scale=0.9&format=jpeg", &[]).await;
    let shot = look.shot();
    assert!(shot.width * shot.height <= 20_000 && look.bytes.len() <= 9_000);
    desk.close().await;
}

#[tokio::test]
async fn places_in_a_frame_lead_back_to_the_screen() {
    let (desk, window) = red_with_a_blue_square().await;
    let screen = desk.boot();
    for query in
        ["", "scale=0.5", "scale=0.1", "region=90,40,60,40", "region=90,40,60,40&scale=0.5&format=jpeg"]
    {
        let look = desk.look(query, &[]).await;
        let shot = look.shot();
        // Whatever the picture, a click into its blue lands on the blue square.
        let mut blue = (0..shot.width)
            .flat_map(|x| (0..shot.height).map(move |y| (x, y)))
            .filter(|(x, y)| shot.pixel(*x, *y) & 0xff > 150 && shot.pixel(*x, *y) >> 16 < 100);
        let (x, y) = blue.next_back().expect("something blue");
        let done = desk.ok("POST", "/click", json!({"x": x, "y": y, "frame": look.frame()})).await;
        let at = |name: &str| {
            done["details"][name].as_i64().and_then(|at| i16::try_from(at).ok()).expect("a place")
        };
        let (x, y) = (at("x"), at("y"));
        assert!((100..120).contains(&x) && (50..70).contains(&y), "{query}: {x},{y}");
        window.wait_for(TIMEOUT, |got| got.contains(&Got::Release(1, x, y)));
        let outside = json!({"x": shot.width, "y": 0, "frame": look.frame()});
        let told = desk.fails("POST", "/click", outside, 400).await;
        assert!(told.contains("outside the frame"), "{told}");
    }
    // Paths, scrolls and lists quote frames as well.
    let look = desk.look("scale=0.5", &[]).await;
    let drag = json!({"path": [[10, 10], [20, 20]], "duration": 0, "frame": look.frame()});
    let done = desk
        .ok(
            "POST",
            "/actions",
            json!([{"action": "scroll", "direction": "up", "x": 4, "y": 5, "frame": look.frame()}]),
        )
        .await;
    assert_eq!(done["results"][0]["result"]["details"]["x"], 8);
    assert_eq!(desk.ok("POST", "/drag", drag).await["details"]["end_x"], 40);
    // What is answered from before, or not sent again, is known as well.
    let look = desk.look("cursor=off", &[]).await;
    let again = desk.look("cursor=off", &[look.header("etag")]).await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);
    let moment = screen.taken(look.frame()).expect("a frame").moment();
    window.fill(0, 0, 5, 5, 0);
    let later = desk.look("cursor=off", &[]).await;
    assert_ne!(screen.taken(later.frame()).expect("a frame").moment(), moment);
    for stranger in ["", "x", "00000000-1", "0-1", "\u{1f600}"] {
        let unknown = screen.taken(stranger).unwrap_err();
        assert_eq!(unknown.code, Some("unknown_frame"), "{stranger}");
        desk.fails("POST", "/click", json!({"x": 1, "y": 1, "frame": stranger}), 409).await;
    }
    desk.close().await;
}

#[tokio::test]
async fn a_frame_is_known_for_a_thousand_more_and_never_on_another_screen() {
    let desk = Desk::bare(64, 64).await;
    let window = Window::open(&desk.display(), 0, 0, 64, 64, 0);
    let made = desk.ok("POST", "/screens", json!({"width": 64, "height": 64})).await;
    let other = desk.displays.screen(made["id"].as_str()).expect("a screen");
    let first = desk.look("cursor=off", &[]).await.frame().to_owned();
    let tag = format!("\"{first}\"");
    assert_eq!(other.taken(&first).unwrap_err().code, Some("unknown_frame"));
    for round in 1..1024_u32 {
        window.fill(0, 0, 1, 1, round);
        desk.look("cursor=off", &[]).await;
    }
    desk.boot().taken(&first).expect("still known");
    window.fill(0, 0, 1, 1, 0xff_ff_ff);
    let newest = desk.look("cursor=off", &[&tag]).await;
    assert_eq!(newest.status, 200);
    assert_eq!(desk.boot().taken(&first).unwrap_err().code, Some("unknown_frame"));
    desk.boot().taken(newest.frame()).expect("the newest is known");
    desk.close().await;
}

#[tokio::test]
async fn a_click_on_what_has_changed_since_its_frame_is_refused_where_that_is_asked() {
    let (desk, window) = red_with_a_blue_square().await;
    let look = desk.look("scale=0.5", &[]).await;
    let click = |x: u32, frame: &str| json!({"x": x, "y": 30, "frame": frame, "refuse_stale": true});
    window.fill(60, 60, 4, 4, 0);
    // The paint is 4 pixels from the first place and 18 from the second.
    let (status, refused) = desk.call("POST", "/click", click(28, look.frame())).await;
    assert_eq!((status.as_u16(), &refused["code"]), (409, &json!("stale_frame")), "{refused}");
    assert_eq!(window.clicks(), []);
    desk.ok("POST", "/click", click(20, look.frame())).await;
    desk.ok("POST", "/click", json!({"x": 28, "y": 30, "frame": look.frame()})).await;
    assert_eq!(window.clicks().len(), 4);
    let again = desk.look("scale=0.5", &[]).await;
    desk.ok("POST", "/click", click(28, again.frame())).await;
    desk.fails("POST", "/click", json!({"x": 1, "y": 1, "refuse_stale": true}), 400).await;
    desk.close().await;
}
