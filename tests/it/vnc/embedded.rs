//! The viewer in a frame of another site's page, and sockets and requests of that page, in Chromium.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use hotdesk::base::tasks::Tasks;
use hotdesk::http::serve::{BoundListener, serve};
use serde_json::json;
use tokio::net::TcpListener;

use super::puppet::PythonDriver;
use super::{create_ticket, password_path};
use crate::harness::controller::{RunningController, skip_reason};

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_listed_origin_frames_the_viewer_and_uses_the_api_and_sockets() {
    if let Some(skip) = skip_reason() {
        return skip.report();
    }
    let Some(mut browser) = PythonDriver::chromium() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let web = format!("[web]\nallowed_origins = \"http://127.0.0.1:{port}\"\n");
    let controller = RunningController::boot_with(&web).await;
    let id = controller.computer(&controller.workspace("demo").await, "desk").await["id"].clone();
    let id = id.as_str().expect("an id");
    let link = create_ticket(&controller, id, json!({"mode": "control"})).await["url"].clone();
    let link = link.as_str().expect("a link").to_owned();
    let page = format!("<!doctype html><iframe width=1000 height=700 src=\"{link}\"></iframe>");
    let tasks = Tasks::new();
    let (site, own) = (Router::new().route("/", get(move || async move { Html(page) })), tasks.clone());
    let _site = tasks.spawn("site", async move { serve(BoundListener::Tcp(listener), site, &own).await });

    let url = format!("ws://{}{}", controller.address(), password_path(&controller, id, "").await);
    let socket = json!({"script": format!(
        "new Promise(tell => {{ const s = new WebSocket({url:?}, 'binary'); s.onmessage = () => tell('message'); \
         s.onclose = end => tell([end.code, end.reason]); }})"
    )});
    let request = json!({"script": format!(
        "fetch('{}/api/computers/{id}', {{headers: {{Authorization: 'Bearer {}'}}}})\
         .then(got => got.json()).then(got => got.id, () => 'refused')",
        controller.base(), controller.key()
    )});
    // The same site under a name that is not listed: its frame stays empty, and the ticket is not used up.
    browser.run("open", json!({"url": format!("http://localhost:{port}/")}));
    let closed = browser.run("look", socket.clone());
    assert_eq!(closed[0], 1008, "{closed}");
    assert!(
        closed[1].as_str().is_some_and(|why| why.contains(&format!("http://localhost:{port}"))),
        "{closed}"
    );
    assert_eq!(browser.run("look", request.clone()), "refused");
    let complaints = browser.run("complaints", json!({}));
    assert!(complaints.to_string().contains("frame-ancestors"), "{complaints}");

    browser.run("open", json!({"url": format!("http://127.0.0.1:{port}/")}));
    let connected = "document.getElementById('state-text').textContent === 'Connected'";
    browser.run("wait", json!({"script": connected, "frame": 1, "seconds": 60}));
    assert_eq!(browser.run("look", socket), "message");
    assert_eq!(browser.run("look", request), id);
}
