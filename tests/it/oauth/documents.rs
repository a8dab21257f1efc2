//! Client metadata documents: fetch, validation and cache. A67-A71 (docs/authentication-rules.md).

use std::io::Write;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::scene::{REDIRECT, Scene, VERIFIER, parameter};
use super::tls::{HOST, Server};

/// Serves a document for each path.
fn respond(path: &str, port: u16, out: &mut dyn Write) -> std::io::Result<()> {
    let url = format!("https://{HOST}:{port}{path}");
    let sound = json!({"client_id": url, "client_name": "Document", "redirect_uris": [REDIRECT]});
    let with = |name: &str, value: Value| {
        let mut document = sound.clone();
        document[name] = value;
        document
    };
    let cache_headers = match path {
        "/kept" => "Cache-Control: public, max-age=600\r\n",
        "/unkept" => "Cache-Control: no-store\r\n",
        "/stale" => "Cache-Control: max-age=600\r\nAge: 600\r\n",
        _ => "",
    };
    let (status, document) = match path {
        "/wrong-id" => (200, with("client_id", json!("https://client.test/other"))),
        "/no-name" => (200, with("client_name", Value::Null)),
        "/secret" => (200, with("client_secret", json!("x"))),
        "/basic" => (200, with("token_endpoint_auth_method", json!("client_secret_basic"))),
        "/other-redirect" => (200, with("redirect_uris", json!(["https://app.example/other"]))),
        "/big" => (200, with("padding", json!("x".repeat(6000)))),
        "/gone" => (404, sound.clone()),
        "/moved" => (301, sound.clone()),
        "/hostile-name" => (200, with("client_name", json!("a\u{202e}b"))),
        "/slow" => {
            std::thread::sleep(Duration::from_millis(500));
            (200, sound.clone())
        }
        _ => (200, sound.clone()),
    };
    let fields = "Content-Type: application/json\r\nLocation: /sound\r\nConnection: close\r\n";
    write!(out, "HTTP/1.1 {status} X\r\n{fields}{cache_headers}\r\n")?;
    out.write_all(document.to_string().as_bytes())
}

async fn set() -> (Server, Scene) {
    let server = Server::start(respond);
    let scene = Scene::boot_with_trust(Some(server.trusted())).await;
    (server, scene)
}

#[tokio::test(flavor = "multi_thread")]
async fn a68_a_client_that_a_document_describes_gets_in_and_is_shown_by_it() {
    let (server, mut scene) = set().await;
    scene.client = server.url("/sound");
    let page = scene.me.get(&scene.authorize_url(&[])).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("Document") && page.text.contains(&scene.client), "{}", page.text);
    let allow = [("decision", "allow"), ("workspace", scene.workspace.as_str())];
    let parameters = scene.me.submit(&scene.authorize_url(&[]), &allow).await.redirect_parameters(REDIRECT);
    let code = parameter(&parameters, "code").expect("a code");
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", &scene.client),
        ("code", code),
        ("code_verifier", VERIFIER),
    ];
    let tokens = scene.exchange(&fields).await;
    assert_eq!(tokens.status, 200, "{}", tokens.body);
    let (access, refresh) = super::scene::token_pair(&tokens.body);
    assert_eq!((scene.mcp(&access).await.status, scene.refresh(&refresh).await.status), (200, 200));
    assert_eq!(server.requests(), 1, "the document must come from the cache");
}

#[tokio::test(flavor = "multi_thread")]
async fn a67_a68_a69_an_unsound_url_or_document_is_a_page_and_no_redirect() {
    let (server, scene) = set().await;
    for path in [
        "/wrong-id",
        "/no-name",
        "/secret",
        "/basic",
        "/other-redirect",
        "/big",
        "/gone",
        "/moved",
        "/hostile-name",
    ] {
        let page = scene.me.get(&scene.authorize_url(&[("client_id", Some(&server.url(path)))])).await;
        assert_eq!((page.status, page.location()), (400, None), "{path}: {}", page.text);
    }
    assert_eq!(server.requests(), 9, "each document is read once, and no redirect is followed");
    let connections = server.connections();
    let port = server.port;
    for url in [
        format!("http://{HOST}:{port}/sound"),
        format!("https://{HOST}:{port}/"),
        format!("https://{HOST}:{port}"),
        format!("https://{HOST}:{port}/a/../sound"),
        format!("https://{HOST}:{port}/%2e%2e/sound"),
        format!("https://{HOST}:{port}/sound#x"),
        format!("https://user@{HOST}:{port}/sound"),
        format!("https://CLIENT.test:{port}/sound"),
        format!("HTTPS://{HOST}:{port}/sound"),
        format!("https://{HOST}:{port}/{}", "x".repeat(2048)),
    ] {
        let page = scene.me.get(&scene.authorize_url(&[("client_id", Some(&url))])).await;
        assert_eq!((page.status, page.location()), (400, None), "{url}: {}", page.text);
    }
    assert_eq!(server.connections(), connections, "no such URL may reach the network");
}

#[tokio::test(flavor = "multi_thread")]
async fn a70_without_a_test_s_trust_nothing_on_this_machine_is_asked() {
    let server = Server::start(respond);
    let scene = Scene::boot().await;
    for host in ["127.0.0.1", "localhost", "0.0.0.0", "127.1", "2130706433", "169.254.169.254", "10.0.0.1"] {
        let url = format!("https://{host}:{}/sound", server.port);
        let page = scene.me.get(&scene.authorize_url(&[("client_id", Some(&url))])).await;
        assert_eq!((page.status, page.location()), (400, None), "{url}: {}", page.text);
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a69_of_many_at_once_one_fetches_and_a_stranger_none() {
    let (server, scene) = set().await;
    let began = Instant::now();
    let authorize_url = scene.authorize_url(&[("client_id", Some(&server.url("/slow")))]);
    let pages = join_all((0..10).map(|_| scene.me.get(&authorize_url))).await;
    assert!(pages.iter().all(|page| page.status == 200), "{:?}", pages[0]);
    assert_eq!(server.requests(), 1);
    let stranger = scene.authorize_url(&[("client_id", Some(&server.url("/other")))]);
    let sign_in = super::scene::fetch_page(scene.controller.bare(reqwest::Method::GET, &stranger)).await;
    assert!(sign_in.text.contains("name=\"password\""), "{}", sign_in.text);
    assert_eq!(server.requests(), 1);
    // The number of fetches is limited: 30, and one more every two seconds.
    let mut statuses = Vec::new();
    for number in 0..200 {
        let url = server.url(&format!("/number-{number}"));
        statuses.push(scene.me.get(&scene.authorize_url(&[("client_id", Some(&url))])).await.status);
        if statuses.last() == Some(&429) {
            break;
        }
    }
    assert!(statuses.contains(&200) && statuses.last() == Some(&429), "{statuses:?}");
    let most = 31 + began.elapsed().as_secs() / 2;
    assert!(server.requests() as u64 <= most, "{} of {most}", server.requests());
}

#[tokio::test(flavor = "multi_thread")]
async fn a71_a_document_is_kept_as_it_says_and_a_bad_one_never() {
    let (server, scene) = set().await;
    for (path, fetches) in
        [("/unsaid", 1), ("/kept", 1), ("/unkept", 3), ("/stale", 3), ("/gone", 3), ("/wrong-id", 3)]
    {
        let before = server.requests();
        let authorize_url = scene.authorize_url(&[("client_id", Some(&server.url(path)))]);
        for _ in 0..3 {
            scene.me.get(&authorize_url).await;
        }
        assert_eq!(server.requests() - before, fetches, "{path}");
    }
}
