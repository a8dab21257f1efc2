//! Malformed and malicious responses of an agent: clients get the controller's own errors, in time, and no
//! data of the agent.

use std::time::{Duration, Instant};

use hotdesk::base::tasks::Tasks;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::attack::{Attack, Then, answer_with};
use crate::harness::agent::{HttpAnswer, fetch_json};
use crate::harness::simulation::Simulation;

/// Longest response to an immediate lie, on a busy machine. It is below 15 s, the timeout of the agent.
const IMMEDIATE_TIMEOUT: Duration = Duration::from_secs(12);

/// Calls that read a response as JSON or as an image.
const CALLS: [&str; 6] = ["binary", "base64", "url", "bash", "click", "screens"];

fn call(controller: &Simulation, computer: &str, what: &str) -> RequestBuilder {
    let at = |rest: &str| format!("/computers/{computer}/{rest}");
    match what {
        "bash" => controller.request(Method::POST, &at("bash")).json(&json!({"command": "id", "timeout": 1})),
        "click" => controller.request(Method::POST, &at("click")).json(&json!({"x": 1, "y": 1})),
        "screens" => controller.request(Method::GET, &at("screens")),
        format => controller.request(Method::GET, &at(&format!("screenshot?response_format={format}"))),
    }
}

fn proxied(controller: &Simulation, computer: &str) -> RequestBuilder {
    controller.bare(Method::GET, &format!("/desktops/{computer}/proxy/health")).bearer_auth(controller.key())
}

fn assert_own_error(answer: &HttpAnswer, name: &str) {
    assert!(answer.status >= 400, "{name}: {} {}", answer.status, answer.body);
    assert!(
        answer.body["error"].as_str().is_some_and(|text| !text.is_empty() && text.len() < 2100),
        "{name}: {}",
        answer.body
    );
    assert!(answer.body["request_id"].is_string(), "{name}: {}", answer.body);
    for code in ["workspace_scope_mismatch", "NAME_TAKEN", "pwned"] {
        assert!(answer.body["code"] != code, "{name}: {}", answer.body);
    }
}

/// Malicious responses with the statuses that they may lead to. No client may connect to `elsewhere`.
fn lies(elsewhere: &str) -> Vec<(Attack, &'static [u16])> {
    let ok = "200 OK";
    let error = |status, code: &str| {
        Attack::answer("an error", status, "", &json!({"error": "no", "code": code}).to_string())
    };
    let moved =
        |status: &str| Attack::answer("a redirect", status, &format!("Location: {elsewhere}\r\n"), "{}");
    let long = json!({"error": "x".repeat(60_000)}).to_string();
    let longer = json!({"error": "x".repeat(2_000_000)}).to_string();
    let control = "{\"error\":\"a\\u0000b\\r\\nSet-Cookie: x=y\"}";
    let wrong_types =
        json!({"success": "yes", "action": 1, "output": [], "exit_code": "0", "screens": "none", "image": 7});
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let bomb = format!("HTTP/1.1 200 OK\r\nX-Bomb: {}\r\n\r\n", "x".repeat(2_000_000));
    vec![
        (Attack::answer("not JSON", ok, "", "<html>hello</html>"), &[500]),
        (Attack::answer("nothing", ok, "", ""), &[500]),
        (Attack::answer("no content", "204 No Content", "", ""), &[500]),
        (Attack::answer("wrong types", ok, "", &wrong_types.to_string()), &[500]),
        (Attack::answer("an array", ok, "", "[]"), &[500]),
        (Attack::answer("depth", ok, "", &"[".repeat(500_000)), &[500]),
        (Attack::answer("huge error text", "400 Bad Request", "", &long), &[400]),
        (Attack::answer("huger error text", "400 Bad Request", "", &longer), &[400]),
        (Attack::answer("control characters", "409 Conflict", "", control), &[409]),
        (error("401 Unauthorized", "pwned"), &[503]),
        (error("403 Forbidden", "workspace_scope_mismatch"), &[503]),
        (error("409 Conflict", "NAME_TAKEN"), &[409]),
        (error("402 Payment Required", "pwned"), &[500]),
        (error("429 Too Many Requests", "pwned"), &[503]),
        (error("500 Oops", "pwned"), &[500]),
        (error("999 What", "pwned"), &[500]),
        (
            Attack::answer("long waits", "503 Busy", "Retry-After: 999999999\r\n", "{\"error\":\"later\"}"),
            &[503],
        ),
        (moved("301 Moved"), &[500]),
        (moved("302 Found"), &[500]),
        (moved("307 Temporary Redirect"), &[500]),
        (
            Attack::new(
                "an upgrade",
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
                Then::Close,
            ),
            &[500, 503],
        ),
        (Attack::new("garbage", "\0\u{1}\u{2}garbage\r\n\r\n", Then::Close), &[503]),
        (Attack::new("silence and an end", "", Then::Close), &[503]),
        (Attack::new("half a header", "HTTP/1.1 200 OK\r\nConte", Then::Close), &[503]),
        (
            Attack::new("half a body", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"succ", Then::Close),
            &[503],
        ),
        (Attack::new("half a chunk", format!("{chunked}fff\r\n{{"), Then::Close), &[503]),
        (Attack::new("no chunk", format!("{chunked}zzz\r\n"), Then::Close), &[503]),
        (
            Attack::new(
                "two lengths",
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
                Then::Close,
            ),
            &[503],
        ),
        (Attack::new("a header bomb", bomb, Then::Close), &[503]),
        (Attack::new("endless fields", "HTTP/1.1 200 OK\r\n", Then::Flood(b"X-A: b\r\n".to_vec())), &[503]),
        (
            Attack::new("an endless body", "HTTP/1.1 200 OK\r\n\r\n", Then::Flood(vec![b' '; 64 * 1024])),
            &[500, 503],
        ),
        (
            Attack::new(
                "10 GB",
                "HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n",
                Then::Flood(vec![b'0'; 64 * 1024]),
            ),
            &[500, 503],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_every_lie_becomes_an_error_of_ours_at_once() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let liar = controller.computer(&workspace, "liar").await;
    let honest = controller.computer(&workspace, "honest").await;
    let trap = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let elsewhere = format!("http://{}/trap", trap.local_addr().expect("an address"));
    for (attack, expected) in lies(&elsewhere) {
        let tasks = Tasks::new();
        answer_with(&attack, controller.replace_agent(&liar), &tasks);
        let requests = CALLS.map(|what| fetch_json(call(&controller, &liar, what)));
        let answers = futures_util::future::join_all(requests).await;
        for (what, answer) in CALLS.iter().zip(&answers) {
            let name = format!("{}, {what}", attack.name);
            assert_own_error(answer, &name);
            assert!(expected.contains(&answer.status), "{name}: {} {}", answer.status, answer.body);
            assert!(answer.took < IMMEDIATE_TIMEOUT, "{name} took {:?}", answer.took);
            assert!(
                answer.body["retry_after"].as_u64().is_none_or(|seconds| seconds <= 60),
                "{name}: {}",
                answer.body
            );
        }
        let other = controller.post(&format!("/computers/{honest}/bash"), json!({"command": "id"})).await;
        assert_eq!((other.status, &other.body["output"]), (200, &json!("hi\n")), "beside {}", attack.name);
        tasks.drain(IMMEDIATE_TIMEOUT).await;
    }
    // The controller must not follow a redirect.
    let connection = tokio::time::timeout(Duration::from_millis(50), trap.accept()).await;
    assert!(connection.is_err(), "the controller followed a redirect");
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_what_an_agent_claims_beside_its_answer_is_dropped() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let liar = controller.computer(&workspace, "liar").await;
    let honest = controller.computer(&workspace, "honest").await;
    let headers = "Set-Cookie: a=b\r\nKeep-Alive: timeout=9\r\nProxy-Authenticate: Basic\r\nTrailer: X\r\nX-Request-Id: forged\r\n\
        Access-Control-Allow-Origin: *\r\n";
    let body = json!({"success": true, "action": "click", "computer_id": honest, "id": honest, "path": "/etc/passwd", "outcome": "created"});
    let tasks = Tasks::new();
    answer_with(
        &Attack::answer("claims", "200 OK", headers, &body.to_string()),
        controller.replace_agent(&liar),
        &tasks,
    );

    let response = call(&controller, &liar, "click").send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    for name in ["set-cookie", "keep-alive", "proxy-authenticate", "trailer", "access-control-allow-origin"] {
        assert!(!response.headers().contains_key(name), "{name} passed");
    }
    assert_ne!(response.headers()["x-request-id"], "forged");
    assert_eq!(response.json::<Value>().await.expect("JSON"), json!({"success": true, "action": "click"}));

    // A delivery shows the computer of the request and the intended path.
    let form = reqwest::multipart::Form::new()
        .text("projectId", workspace.clone())
        .text("desktopId", liar.clone())
        .part("file", reqwest::multipart::Part::text("hi").file_name("a.txt"));
    let uploaded = fetch_json(controller.request(Method::POST, "/files/upload").multipart(form)).await;
    assert_eq!(
        uploaded.body["deliveries"],
        json!([{"computer_id": liar, "outcome": "created", "path": "/root/Desktop/a.txt"}])
    );

    // The controller never decodes an image, but its clients do.
    tasks.drain(IMMEDIATE_TIMEOUT).await;
    let giant = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x06\0\0\0\0\0\0\0";
    let mut head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        giant.len()
    )
    .into_bytes();
    head.extend_from_slice(giant);
    let tasks = Tasks::new();
    answer_with(&Attack::new("a giant", head, Then::Close), controller.replace_agent(&liar), &tasks);
    let refused = fetch_json(call(&controller, &liar, "binary")).await;
    let error = &refused.body["error"];
    assert_eq!((refused.status, error), (500, &json!("The computer's agent sent an invalid answer")));
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_the_proxy_path_lets_no_header_of_the_agent_act_on_the_client() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let liar = controller.computer(&workspace, "liar").await;
    let trap = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let elsewhere = format!("http://{}/trap", trap.local_addr().expect("an address"));
    let headers = format!(
        "Location: {elsewhere}\r\nSet-Cookie: a=b\r\nContent-Type: text/html\r\nKeep-Alive: timeout=9\r\nX-Named: 1\r\n\
         X-Hotdesk-Frame: 1\r\nX-Accel-Redirect: /internal\r\nX-Sendfile: /etc/shadow\r\nCache-Control: public\r\nClear-Site-Data: \"*\"\r\nAlt-Svc: h2=\":1\"\r\nContent-Security-Policy: default-src *\r\nX-Request-Id: forged\r\nWWW-Authenticate: Basic\r\n"
    );
    let tasks = Tasks::new();
    let page = "<script>alert(1)</script>";
    let mut attack = Attack::answer("a page", "302 Found", &headers, page);
    attack.head = String::from_utf8(attack.head)
        .unwrap()
        .replace("Connection: close", "Connection: close, X-Named")
        .into();
    answer_with(&attack, controller.replace_agent(&liar), &tasks);
    let response = proxied(&controller, &liar).send().await.expect("an answer");
    assert_eq!(response.status(), 302);
    for name in [
        "location",
        "set-cookie",
        "keep-alive",
        "x-named",
        "clear-site-data",
        "alt-svc",
        "www-authenticate",
        "x-accel-redirect",
        "x-sendfile",
    ] {
        assert!(!response.headers().contains_key(name), "{name} passed");
    }
    let all = |name: &str| {
        response
            .headers()
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(all("content-security-policy"), ["sandbox; default-src 'none'"]);
    assert_eq!(all("x-content-type-options"), ["nosniff"]);
    assert_eq!(all("cache-control"), ["private, no-store"]);
    assert!(all("x-request-id").iter().all(|id| id != "forged"));
    assert_eq!(all("x-hotdesk-frame"), ["1"]);
    assert_eq!(response.text().await.expect("a body"), page);
    tasks.drain(IMMEDIATE_TIMEOUT).await;

    for head in
        ["\0garbage\r\n\r\n", "", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"]
    {
        let tasks = Tasks::new();
        answer_with(&Attack::new("broken", head, Then::Close), controller.replace_agent(&liar), &tasks);
        let answer = fetch_json(proxied(&controller, &liar)).await;
        assert_own_error(&answer, head);
        assert_eq!(answer.status, 503);
        tasks.drain(IMMEDIATE_TIMEOUT).await;
    }
    // An endless response is streamed, and ends when the client closes the connection.
    let tasks = Tasks::new();
    let endless = Attack::new("endless", "HTTP/1.1 200 OK\r\n\r\n", Then::Flood(vec![b'0'; 64 * 1024]));
    answer_with(&endless, controller.replace_agent(&liar), &tasks);
    let mut response = proxied(&controller, &liar).send().await.expect("an answer");
    assert!(response.chunk().await.expect("a piece").is_some());
    drop(response);
    assert_eq!(controller.get("/workspaces").await.status, 200);
    tasks.drain(IMMEDIATE_TIMEOUT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_a_computer_that_never_answers_keeps_nobody_else_waiting() {
    let controller = Simulation::boot().await;
    let workspace = controller.workspace("w").await;
    let honest = controller.computer(&workspace, "honest").await;
    let ok = "HTTP/1.1 200 OK\r\n";
    let attacks = [
        Attack::new("silence", "", Then::Stall),
        Attack::new("a slow header", ok, Then::Drip(b'X')),
        Attack::new("a slow body", format!("{ok}Content-Length: 1000000\r\n\r\n"), Then::Drip(b' ')),
        Attack::new("a body that stops", format!("{ok}Content-Length: 10\r\n\r\n{{"), Then::Stall),
        Attack::new(
            "an endless chunk size",
            format!("{ok}Transfer-Encoding: chunked\r\n\r\n"),
            Then::Flood(b"0".to_vec()),
        ),
        Attack::new("promises", "", Then::Flood(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())),
    ];
    let tasks = Tasks::new();
    let mut requests = Vec::new();
    for attack in &attacks {
        let liar = controller.computer(&workspace, attack.name).await;
        answer_with(attack, controller.replace_agent(&liar), &tasks);
        for what in CALLS {
            requests.push((format!("{}, {what}", attack.name), fetch_json(call(&controller, &liar, what))));
        }
    }
    let (names, pending): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
    let waiting = futures_util::future::join_all(pending);
    let meanwhile = async {
        let until = Instant::now() + Duration::from_secs(8);
        let mut slowest = Duration::ZERO;
        while Instant::now() < until {
            let ran = controller.post(&format!("/computers/{honest}/bash"), json!({"command": "id"})).await;
            assert_eq!(ran.status, 200);
            slowest = slowest.max(ran.took);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        slowest
    };
    let (answers, slowest) = tokio::join!(waiting, meanwhile);
    // A request that waits for the others would take 15 s.
    assert!(slowest < Duration::from_secs(10), "the honest computer took {slowest:?}");
    for (name, answer) in names.iter().zip(&answers) {
        assert_own_error(answer, name);
        assert_eq!(answer.status, 504, "{name}: {}", answer.body);
        // 15 s for quick calls, and one second of the command, on a busy machine.
        assert!(answer.took < Duration::from_secs(45), "{name} took {:?}", answer.took);
    }
    tasks.drain(IMMEDIATE_TIMEOUT).await;
}
