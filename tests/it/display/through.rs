//! Screenshots of a real screen through the controller.
//!
//! The tests check the metadata and the strict parsing of the agent's answers. The agent is a display fixture
//! in this process, and the machine is simulated.

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::routing::get;
use hotdesk::base::tasks::Tasks;
use hotdesk::http::serve::{BoundListener, serve};
use reqwest::Method;
use serde_json::json;

use super::fixture::DisplayFixture;
use super::window::Window;
use crate::harness::picture;
use crate::harness::simulation::Simulation;

/// A controller with one computer whose agent is this router.
pub async fn boot_with_agent(agent: Router, tasks: &Tasks) -> (Simulation, String) {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let computer = controller.computer(&workspace, "one").await;
    let listener = controller.replace_agent(&computer);
    let group = tasks.clone();
    let _serving =
        tasks.spawn("agent", async move { serve(BoundListener::Unix(listener), agent, &group).await });
    (controller, computer)
}

async fn get_screenshot(
    controller: &Simulation,
    computer: &str,
    query: &str,
    tag_held: Option<&str>,
) -> (u16, HeaderMap, Bytes) {
    let path = format!("/computers/{computer}/screenshot?response_format=binary&{query}");
    let mut request = controller.request(Method::GET, &path);
    if let Some(tag) = tag_held {
        request = request.header("If-None-Match", tag);
    }
    let answer = request.send().await.expect("an answer");
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, headers, answer.bytes().await.expect("a body"))
}

/// Text of a header.
fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers[name].to_str().expect("plain text")
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_pass_the_controller_with_their_frame_and_their_tag() {
    let fixture = DisplayFixture::bare(400, 300).await;
    let window = Window::open(&fixture.display(), 0, 0, 400, 300, 0xff_00_00);
    let tasks = Tasks::new();
    let (controller, computer) = boot_with_agent(fixture.router(), &tasks).await;
    let query = "format=webp&region=40,20,200,100&scale=0.5&cursor=off";
    let (status, headers, bytes) = get_screenshot(&controller, &computer, query, None).await;
    assert_eq!((status, header_text(&headers, "content-type")), (200, "image/webp"));
    assert_eq!(picture::size(&bytes), (100, 50));
    for (name, value) in [
        ("x-hotdesk-screen", "default"),
        ("x-hotdesk-scale", "0.5"),
        ("x-hotdesk-width", "100"),
        ("x-hotdesk-height", "50"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    let frame = header_text(&headers, "x-hotdesk-frame").to_owned();
    let tag = header_text(&headers, "etag").to_owned();
    assert_eq!(tag, format!("\"{frame}\""));
    let place =
        fixture.boot().frame_record(&frame).and_then(|taken| taken.to_screen(99.0, 49.0)).expect("a place");
    assert_eq!(place, (238.5, 118.5));

    // Without a change the answer has no body; after a change of one pixel it has one.
    let (status, headers, bytes) =
        get_screenshot(&controller, &computer, query, Some(&format!("\"x\", {tag}"))).await;
    assert_eq!((status, bytes.len()), (304, 0));
    assert_eq!((header_text(&headers, "etag"), header_text(&headers, "x-hotdesk-frame")), (&*tag, &*frame));
    window.fill(300, 200, 1, 1, 0);
    let (status, headers, _) = get_screenshot(&controller, &computer, query, Some(&tag)).await;
    assert_eq!(status, 200);
    assert_ne!(headers["etag"], tag);

    // The JSON formats have the same metadata and always a whole picture; the link has the picture's type.
    let path = format!("/computers/{computer}/screenshot?{query}");
    let request = controller.request(Method::GET, &path).header("If-None-Match", &tag);
    let linked = crate::harness::agent::fetch_json(request).await;
    let metadata = &linked.body["metadata"];
    let frame = header_text(&headers, "x-hotdesk-frame");
    assert_eq!((&metadata["frame"], &metadata["screen"]), (&json!(frame), &json!("default")));
    assert_eq!(
        (&metadata["width"], &metadata["height"], &metadata["scale"]),
        (&json!(100), &json!(50), &json!(0.5))
    );
    let link = linked.body["image"].as_str().expect("a link");
    let stored = crate::harness::client().get(link).send().await.expect("an answer");
    assert_eq!(
        (stored.status().as_u16(), header_text(stored.headers(), "content-type")),
        (200, "image/webp")
    );
    assert_eq!(picture::size(&stored.bytes().await.expect("a body")), (100, 50));
    let based = controller.get(&format!("{path}&response_format=base64")).await.body;
    assert_eq!((&based["frame"], &based["mime_type"]), (&json!(frame), &json!("image/webp")));

    // Errors of the agent keep their status and code.
    for (query, code) in [("region=0,0,401,1", json!(null)), ("max_bytes=1", json!("budget_too_small"))] {
        let refused = controller.get(&format!("/computers/{computer}/screenshot?{query}")).await;
        assert_eq!((refused.status, &refused.body["code"]), (400, &code), "{query}: {}", refused.body);
    }
    tasks.drain(super::fixture::TIMEOUT).await;
    drop(window);
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_what_a_hostile_agent_says_of_a_picture_is_read_strictly() {
    let valid = [("frame", "a-1"), ("screen", "default"), ("scale", "1"), ("width", "8"), ("height", "8")];
    // The answer of this agent depends on the requested format.
    let agent = Router::new().route(
        "/screenshot",
        get(move |request: axum::extract::Request| async move {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let mut headers = HeaderMap::new();
            for (name, value) in valid {
                let name: HeaderName = format!("x-hotdesk-{name}").parse().expect("a name");
                headers.insert(name, HeaderValue::from_static(value));
            }
            if query.contains("cursor=off") {
                headers.insert("x-hotdesk-frame", HeaderValue::from_static("a\" pwned"));
            }
            headers.insert("etag", HeaderValue::from_static("\"pwned\""));
            headers.insert("x-hotdesk-other", HeaderValue::from_static("pwned"));
            let known = request.headers().contains_key("if-none-match") || query.contains("quality=1");
            let status = if known { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
            (status, headers, Bytes::from_static(picture::PNG_HEADER))
        }),
    );
    let tasks = Tasks::new();
    let (controller, computer) = boot_with_agent(agent, &tasks).await;
    let (status, headers, _) = get_screenshot(&controller, &computer, "", None).await;
    let names = (header_text(&headers, "etag"), header_text(&headers, "x-hotdesk-frame"));
    assert_eq!((status, names), (200, ("\"a-1\"", "a-1")));
    assert!(!headers.contains_key("x-hotdesk-other"));
    let (status, headers, _) = get_screenshot(&controller, &computer, "cursor=off", None).await;
    assert_eq!(status, 200);
    assert!(!headers.contains_key("x-hotdesk-frame") && !headers.contains_key("etag"), "{headers:?}");
    // A 304 is accepted only for a conditional request.
    assert_eq!(get_screenshot(&controller, &computer, "", Some("\"a-1\"")).await.0, 304);
    assert_eq!(get_screenshot(&controller, &computer, "", Some("\"a-2\"")).await.0, 500);
    assert_eq!(get_screenshot(&controller, &computer, "quality=1", None).await.0, 500);
    assert_eq!(get_screenshot(&controller, &computer, "quality=1", Some("*")).await.0, 500);
    tasks.drain(super::fixture::TIMEOUT).await;
}
