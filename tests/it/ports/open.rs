//! Ports that a template declares public: open to everybody, and nothing else with them (T2, docs/security.md).

use futures_util::SinkExt;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::http::PROGRAM;
use super::start_server;
use crate::harness;
use crate::harness::agent::fetch_json;
use crate::harness::caller::id_of;
use crate::harness::controller::RunningController;
use crate::harness::socket::{Client, SocketEvent};
use crate::templates::builds;

/// Ports of two applications, the first one public.
const PORTS: &str = "apps:\n  - {name: site, ports: [{internal: 3000, external: 443, protocol: http, public: true}]}\n  \
    - {name: store, ports: [{internal: 3001}, {internal: 53, protocol: udp}]}";

/// A controller with a computer of a template with [`PORTS`], and [`PROGRAM`] in it.
pub async fn boot(configuration: &str) -> Option<(RunningController, String)> {
    // Where no computer can run, this prints the reason.
    drop(builds::controller().await?);
    let controller = RunningController::boot_with(configuration).await;
    let built = builds::build(&controller, "site@1.0.0", PORTS).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("demo").await;
    let launched = builds::launch(&controller, &workspace, "one", "site@1.0.0").await;
    assert_eq!(launched.status, 201, "{}", launched.body);
    let id = id_of(&launched.body);
    start_server(&controller, &id, 3000, PROGRAM).await;
    start_server(&controller, &id, 3001, &PROGRAM.replace("3000", "3001")).await;
    Some((controller, id))
}

#[tokio::test(flavor = "multi_thread")]
async fn t2_a_public_port_is_open_and_nothing_else_is() {
    let Some((controller, id)) = boot("").await else { return };
    let list = controller.get(&format!("/computers/{id}/ports")).await.body;
    let url = |port: u16| format!("{}/api/computers/{id}/ports/{port}/", controller.base());
    assert_eq!(
        list["ports"],
        json!([
            {"port": 3000, "name": "site", "protocol": "http", "public": true, "url": url(3000)},
            {"port": 3001, "name": "store", "protocol": "tcp", "public": false, "url": url(3001)},
            {"port": 53, "name": "store", "protocol": "udp", "public": false},
        ])
    );
    let client = harness::client();
    let open = client.post(format!("{}a?b", url(3000))).header("cookie", "hotdesk=1").body("question");
    let answer = open.send().await.expect("an answer");
    let fields = answer.headers().clone();
    assert_eq!((answer.status().as_u16(), &fields["x-hotdesk-port"]), (200, &"3000".parse().unwrap()));
    assert!(fields["content-security-policy"].to_str().expect("a text").starts_with("sandbox "));
    let told: Value = answer.json().await.expect("JSON");
    assert_eq!(
        (&told["method"], &told["path"], &told["length"]),
        (&json!("POST"), &json!("/a?b"), &json!(8))
    );
    assert!(!told["fields"].to_string().contains("cookie"), "{told}");
    let path = format!("/api/computers/{id}/ports/3000/socket");
    let mut socket = Client::open(controller.address(), &path, &[]).await.expect("an open socket");
    socket.0.send(Message::text("hello")).await.expect("an open socket");
    assert_eq!(socket.next().await, SocketEvent::Text("hello".to_owned()));
    // Whatever the path is, it is the program's.
    let (status, text) =
        controller.raw_request(&format!("GET {}../../../../keys HTTP/1.1", path.replace("socket", ""))).await;
    assert!(status == 200 && text.contains("/../../../../keys"), "{status} {text}");

    // Nothing else, with one answer for everything.
    let record = controller.record(&id).await;
    assert_eq!(record["template_ports"], json!([3000]), "{record}");
    let instance = record["instance_id"].as_str().expect("an id").to_owned();
    let unknown = "00000000-0000-4000-8000-000000000000";
    for target in [
        format!("/computers/{id}/ports/3001/"),
        format!("/computers/{id}/ports/53/"),
        format!("/computers/{id}/ports/870/"),
        format!("/computers/{id}/ports/8080/"),
        format!("/computers/{id}/ports/x/"),
        format!("/computers/{unknown}/ports/3000/"),
        format!("/computers/{instance}/ports/3000/"),
        format!("/computers/{id}/ports"),
        format!("/computers/{id}/tcp/3000"),
        format!("/computers/{id}"),
    ] {
        let refused = fetch_json(controller.bare(Method::GET, &format!("/api{target}"))).await;
        assert_eq!((refused.status, &refused.body["error"]), (401, &json!("Missing API key")), "{target}");
    }
    let wrong = fetch_json(client.get(url(3000)).bearer_auth("sk_live_wrong")).await;
    assert_eq!(wrong.status, 401, "{}", wrong.body);

    // Copies have the ports, and so have computers of a saved template.
    let cloned = controller.post(&format!("/computers/{id}/clone"), json!({})).await;
    let copy = controller.get(&format!("/computers/{}/ports", id_of(&cloned.body))).await.body;
    assert_eq!(
        (&copy["ports"][0]["public"], &copy["ports"][2]["port"]),
        (&json!(true), &json!(53)),
        "{copy}"
    );
    let saved = json!({"ref": "default/saved@1.0.0"});
    let saved = controller.post(&format!("/computers/{id}/template"), saved).await;
    assert_eq!(saved.status, 201, "{}", saved.body);
    let workspace = controller.workspace("other").await;
    let launched = builds::launch(&controller, &workspace, "two", "saved@1.0.0").await;
    assert_eq!(launched.body["template_ports"], json!([3000]), "{}", launched.body);
    let again = controller.get(&format!("/computers/{}/ports", id_of(&launched.body))).await.body;
    let found: Vec<_> = again["ports"].as_array().expect("ports").iter().map(|port| &port["port"]).collect();
    assert_eq!(found, [3000, 3001, 53]);

    // Strangers wake nothing.
    assert_eq!(controller.act(&id, "stop", json!({})).await.status, 200);
    let refused = fetch_json(client.get(url(3000))).await;
    assert_eq!(refused.status, 409, "{}", refused.body);
    controller.until_status(&id, "stopped").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn t4_a_program_below_a_path_is_no_part_of_the_pages_of_the_service() {
    let Some((controller, id)) = boot("").await else { return };
    let client = harness::client();
    let url = format!("{}/api/computers/{id}/ports/3000/a.js", controller.base());
    for (site, dest, status) in [
        ("same-origin", "script", 403),
        ("same-origin", "empty", 403),
        ("same-origin", "iframe", 403),
        ("same-origin", "document", 200),
        ("cross-site", "script", 200),
        ("none", "document", 200),
    ] {
        let request = client.get(&url).header("sec-fetch-site", site).header("sec-fetch-dest", dest);
        assert_eq!(request.send().await.expect("an answer").status(), status, "{site} {dest}");
    }
    // A key does not change that: a script of the service's page has none of its own.
    let keyed = client.get(&url).header("sec-fetch-site", "same-origin").header("sec-fetch-dest", "script");
    assert_eq!(keyed.bearer_auth(controller.key()).send().await.expect("an answer").status(), 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_port_of_udp_is_no_template_that_is_published() {
    let Some(controller) = builds::controller().await else { return };
    let content = "apps: [{name: dns, ports: [{internal: 53, protocol: udp, public: true}]}]";
    let document = builds::definition("dns@1.0.0", content);
    let refused = builds::publish(&controller, "?auto_build=true", document).await;
    let error = &refused.body["errors"][0];
    assert_eq!((refused.status, &error["code"]), (422, &json!("unsupported")), "{}", refused.body);
    assert_eq!(error["field"], "apps[0].ports[0].public", "{error}");
}
