//! Proxy path to a computer's own API: what passes in each direction (docs/channels.md; T4, T5, T25 in
//! docs/security.md).

use std::time::Duration;

use hotdesk::base::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use serde_json::json;

use crate::harness::agent::fetch_json;
use crate::harness::controller::RunningController;
use crate::harness::fake_agent::FakeAgent;
use crate::harness::picture;

/// Longest wait until the controller has noticed the end of an agent, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a80_the_proxy_path_reaches_the_computer_s_own_api() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let record = controller.record(&id).await;
    let (id, instance) = (record["id"].as_str().unwrap(), record["instance_id"].as_str().unwrap());
    let proxy = |endpoint: &str| format!("/desktops/{instance}/proxy/{endpoint}");
    for handle in [id, instance] {
        let health = controller.get(&format!("/desktops/{handle}/proxy/health")).await;
        assert_eq!((health.status, &health.body["status"]), (200, &json!("ok")), "{}", health.body);
        assert!(health.body["screens"].as_u64().unwrap() >= 1);
        // The memory of the computer, not that of the host.
        let (total, used) = (&health.body["memory_total_bytes"], &health.body["memory_used_bytes"]);
        assert_eq!(total.as_u64().unwrap(), record["ram"].as_u64().expect("a size") << 30);
        assert!((1..total.as_u64().unwrap()).contains(&used.as_u64().unwrap()), "{used}");
    }
    let ran = controller.post(&proxy("bash"), json!({"command": "echo proxied"})).await;
    assert_eq!((ran.status, &ran.body["output"]), (200, &json!("proxied\n")));
    let shot = controller
        .request(Method::GET, &proxy("screenshot?response_format=binary&scale=0.5"))
        .send()
        .await
        .unwrap();
    assert_eq!(
        (shot.status().as_u16(), shot.headers()["content-type"].to_str().unwrap()),
        (200, "image/png")
    );
    assert_eq!(shot.headers()["x-content-type-options"], "nosniff");
    assert!(shot.headers().contains_key("x-request-id"));
    assert_eq!(picture::size(&shot.bytes().await.unwrap()), (640, 360));
    let based = controller.get(&proxy("screenshot")).await;
    assert_eq!(picture::size(&picture::from_base64(based.body["image"].as_str().unwrap())), (1280, 720));

    // A file streams up with an unknown length, and down again.
    let pieces = (0..64).map(|number: u8| Ok::<_, std::io::Error>(vec![number; 64 * 1024]));
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let put = fetch_json(controller.request(Method::PUT, &proxy("files/desktop/a%20b.bin")).body(body)).await;
    assert_eq!((put.status, put.body), (200, json!({"path": "/root/Desktop/a b.bin", "outcome": "created"})));
    let content = controller
        .request(Method::GET, &proxy("files/content?path=Desktop%2Fa%20b.bin"))
        .send()
        .await
        .unwrap();
    let content = content.bytes().await.unwrap();
    assert_eq!((content.len(), content[0], content[content.len() - 1]), (4 * 1024 * 1024, 0, 63));
    let large = fetch_json(controller.request(Method::PUT, &proxy("files/desktop/large")).body(vec![
        0;
        10 * 1024 * 1024
            + 1
    ]));
    let large = large.await;
    assert_eq!(large.status, 413, "{}", large.body);

    // The agent's refusals pass unchanged.
    for (method, endpoint, status) in [
        (Method::GET, "bash", 405),
        (Method::POST, "health", 405),
        (Method::DELETE, "screens/default", 409),
        (Method::GET, "files/content?path=none", 404),
        (Method::GET, "screenshot?format=gif", 400),
        (Method::POST, "click", 400),
    ] {
        let refused = fetch_json(controller.request(method, &proxy(endpoint))).await;
        assert_eq!(refused.status, status, "{endpoint}: {}", refused.body);
        assert!(refused.body["error"].is_string(), "{endpoint}");
    }
    for (path, status) in [
        (format!("/desktops/{}/proxy/health", uuid::Uuid::new_v4()), 404),
        ("/desktops/nope/proxy/health".to_owned(), 404),
        (proxy("ws/terminal"), 404),
        (proxy("openapi.json"), 404),
        (proxy("nope"), 404),
        (proxy(""), 404),
        (proxy("health/"), 404),
        (proxy("Health"), 404),
    ] {
        let refused = controller.get(&path).await;
        assert_eq!(refused.status, status, "{path}: {}", refused.body);
        assert!(refused.body["error"].is_string(), "{path}");
    }
    for (header, start) in [(None, "Missing API key"), (Some("Bearer sk_live_wrong"), "Invalid API key")] {
        let mut request = controller.bare(Method::GET, &format!("/api{}", proxy("health")));
        if let Some(header) = header {
            request = request.header("authorization", header);
        }
        let refused = fetch_json(request).await;
        assert_eq!(refused.status, 401);
        assert!(refused.body["error"].as_str().unwrap().starts_with(start), "{}", refused.body);
    }
    // The computer's password does not open the proxy path.
    let password = record["vnc_password"].as_str().unwrap();
    let request = controller.bare(Method::GET, &format!("/api{}", proxy("health"))).bearer_auth(password);
    assert_eq!(fetch_json(request).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a80_tricks_with_the_path_reach_nothing() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let record = controller.record(&id).await;
    let instance = record["instance_id"].as_str().unwrap();
    let machine = controller.machine(record["id"].as_str().unwrap());
    let fake_agent =
        FakeAgent::at(&machine.join("agent.sock"), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    let base = format!("/api/desktops/{instance}/proxy");
    for path in [
        "/../health",
        "/health/..",
        "/health/../bash",
        "/./health",
        "//health",
        "/%2e%2e/health",
        "/health/%2e%2e/bash",
        "/files/%2e%2e/%2e%2e/etc/passwd",
        "/files/..%2f..%2fetc",
        "/files/a%5c..%5cb",
        "/files/%00",
        "/files/%0d%0aX-Evil:%201",
        "/files/%zz",
        "/%68ealth",
        "/http://evil.example/",
        "/@evil.example/health",
        "/health%3fx=1",
        "/health;x=1",
        "/health%23",
    ] {
        let (status, answer) = controller.raw_request(&format!("GET {base}{path} HTTP/1.1")).await;
        assert!([400, 404].contains(&status), "{path}: {answer}");
        assert!(answer.contains("{\"error\":"), "{path}: {answer}");
    }
    assert_eq!(fake_agent.requests(), [""; 0], "no such path may reach the computer");
    let host = controller.base().trim_start_matches("http://");
    for line in [
        // An absolute URL of another host, an unknown version, and a target without a slash.
        format!("GET http://evil.example{base}/nope HTTP/1.1"),
        format!("GET {base}/health HTTP/9.9"),
        "GET health HTTP/1.1".to_owned(),
    ] {
        let (status, answer) = controller.raw_request(&line).await;
        assert!((400..=505).contains(&status), "{line}: {answer}");
    }
    // T25: two lengths, or a length with chunked encoding, are refused or at least not passed on as sent.
    let head = format!(
        "POST {base}/bash HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n",
        controller.key()
    );
    let (status, _) =
        controller.raw(format!("{head}Content-Length: 2\r\nContent-Length: 9\r\n\r\n{{}}").as_bytes()).await;
    assert_eq!(status, 400);
    let smuggled = "Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n";
    let (status, answer) = controller.raw(format!("{head}{smuggled}").as_bytes()).await;
    assert!([200, 400].contains(&status), "{answer}");
    for request in fake_agent.requests() {
        assert!(
            !request.to_lowercase().contains("content-length: 9") && !request.contains("/evil"),
            "{request}"
        );
    }
}

/// The host's process id of a computer's agent.
fn agent_pid(controller: &RunningController, id: &str) -> Pid {
    let init = controller.init_pid(id);
    let children = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children")).expect("a process");
    let is_agent = |pid: &&str| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline"));
        line.is_ok_and(|line| line.starts_with(b"hotdesk\0agent\0"))
    };
    let agent = children.split_whitespace().find(is_agent).expect("an agent");
    Pid::from_raw(agent.parse().expect("a process id"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a80_a_hostile_agent_learns_no_key_and_passes_nothing_harmful() {
    let Some((controller, _, id)) = RunningController::with_a_computer().await else { return };
    let record = controller.record(&id).await;
    let (id, instance) = (record["id"].as_str().unwrap(), record["instance_id"].as_str().unwrap());
    let socket = controller.machine(id).join("agent.sock");
    let path = format!("/desktops/{instance}/proxy/health");

    let evil = "HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nSet-Cookie: a=b\r\nConnection: x-hop\r\n\
        X-Hop: 1\r\nContent-Type: text/html\r\nContent-Security-Policy: default-src *\r\nContent-Length: 9\r\n\r\n<script/>";
    // The fake agent replaces the agent's socket. Then the agent is killed, which closes all pooled connections,
    // also those of the controller's own requests meanwhile.
    let fake_agent = FakeAgent::at(&socket, evil);
    kill(agent_pid(&controller, id), Signal::SIGKILL).expect("the agent runs");
    // The redirect must be passed on, not followed.
    let redirected = wait::until(TIMEOUT, || async {
        let request = controller
            .request(Method::GET, &format!("{path}?token=x"))
            .header("cookie", "session=secret")
            .header("x-forwarded-for", "10.0.0.1")
            .header("proxy-authorization", "Basic eA==")
            .header("accept", "text/x-kept");
        let answer = request.send().await.expect("an answer");
        (answer.status() == 302).then_some(answer)
    });
    let answer = redirected.await.expect("the redirect of the fake agent");
    for dropped in ["location", "set-cookie", "x-hop"] {
        assert!(!answer.headers().contains_key(dropped), "{dropped}");
    }
    let policies: Vec<_> = answer.headers().get_all("content-security-policy").iter().collect();
    assert_eq!(policies, ["sandbox; default-src 'none'"]);
    let requests = fake_agent.requests();
    let proxied = requests.iter().find(|request| request.starts_with("GET /health?token=x HTTP/1.1\r\n"));
    assert!(proxied.is_some_and(|request| request.contains("text/x-kept")), "{requests:?}");
    let requests = requests.concat().to_lowercase();
    for secret in [
        controller.key(),
        "session=secret",
        "10.0.0.1",
        "proxy-authorization",
        controller.base().trim_start_matches("http://"),
    ] {
        assert!(!requests.contains(&secret.to_lowercase()), "{secret} reached the agent");
    }
    drop(fake_agent);

    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let code = "made_up_code";
    for (what, answer, status) in [
        ("no JSON", format!("{head}Content-Length: 4\r\n\r\nnope"), 500),
        ("another shape", format!("{head}Content-Length: 2\r\n\r\n[]"), 500),
        ("no HTTP", "garbage\r\n\r\n".to_owned(), 503),
        ("nothing", String::new(), 503),
        ("half an answer", format!("{head}Content-Length: 100\r\n\r\n{{"), 503),
        ("an endless header", format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(2_000_000)), 503),
        (
            "a refusal of the controller's token",
            "HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n".to_owned(),
            503,
        ),
        ("an unknown status", "HTTP/1.1 700 X\r\nContent-Length: 0\r\n\r\n".to_owned(), 500),
        (
            "a code of its own",
            format!(
                "HTTP/1.1 409 X\r\nContent-Length: 38\r\n\r\n{{\"error\":\"made up\",\"code\":\"{code}\"}}"
            ),
            409,
        ),
    ] {
        let _fake_agent = FakeAgent::at(&socket, answer);
        let acted = controller.act(id, "bash", json!({"command": "true"})).await;
        assert_eq!(acted.status, status, "{what}: {}", acted.body);
        assert!(acted.body["error"].is_string() && acted.body["code"] != code, "{what}: {}", acted.body);
        let shot = controller.get(&format!("/computers/{id}/screenshot")).await;
        assert_eq!(shot.status, status, "a screenshot of {what}: {}", shot.body);
    }
    // A body that is not an image, with the type of one.
    let _fake_agent = FakeAgent::at(
        &socket,
        "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 6\r\n\r\n<html>",
    );
    let shot = fetch_json(
        controller.request(Method::GET, &format!("/computers/{id}/screenshot?response_format=binary")),
    )
    .await;
    assert_eq!(
        (shot.status, &shot.body["error"]),
        (500, &json!("The computer's agent sent an invalid answer"))
    );
    // The controller and the computer continue to work.
    assert_eq!(controller.record(id).await["status"], "running");
    assert_eq!(controller.delete(&format!("/computers/{id}")).await.status, 200);
}
