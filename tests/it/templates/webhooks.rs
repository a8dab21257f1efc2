//! Webhooks of triggers: signed, repeated, and only to addresses that the operator permits.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use serde_json::{Value, json};
use sha2::Sha256;

use super::builds::{build, controller, launch};
use super::services::TIMEOUT;
use crate::harness::caller::{Caller, id_of};
use crate::harness::controller::{RunningController, skip_reason};

/// What a receiver got: path with query, header fields and body of each request.
type ReceivedRequests = Arc<Mutex<Vec<(String, HeaderMap, Vec<u8>)>>>;

/// A receiver that has no time for its first request. Returns its address.
async fn receiver(received: ReceivedRequests) -> String {
    let take = |State(received): State<ReceivedRequests>, request: Request| async move {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
        let mut all = received.lock().expect("not poisoned");
        all.push((parts.uri.to_string(), parts.headers, body.to_vec()));
        if all.len() == 1 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NO_CONTENT }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().fallback(take).with_state(received);
    let _task = Tasks::new().spawn("receiver", async move { axum::serve(listener, router).await });
    address.to_string()
}

fn content(address: &str) -> String {
    format!(
        "vars: {{kind: saved}}\ntriggers:\n  - name: file\n    source: {{type: file, path: /srv/in}}\n    actions:\n      \
         - {{type: webhook, url: 'http://{address}/a?p={{{{ event.path }}}}', headers: {{X-Kind: '${{var.kind}} {{{{ event.change }}}}'}}, \
         body: '{{\"path\": \"{{{{ event.path }}}}\"}}'}}\n      - {{type: webhook, url: 'http://{address}/b'}}\n"
    )
}

/// Fires the trigger by hand, and returns its run when it has ended.
async fn run(controller: &Caller, id: &str) -> Value {
    let fire = json!({"event": {"path": "/srv/in/a \"b\"&c", "change": "create"}});
    // The triggers begin after the hooks of the boot.
    let fired = wait::until(TIMEOUT, || async {
        let fired = controller.post(&format!("/computers/{id}/triggers/file"), fire.clone()).await;
        (fired.status == 200).then_some(())
    });
    fired.await.expect("the trigger is there");
    let ended = wait::until(TIMEOUT, || async {
        let list = controller.get(&format!("/computers/{id}/triggers")).await.body;
        let run = list["triggers"][0]["runs"][0].clone();
        run["ended_at"].is_string().then_some(run)
    });
    ended.await.expect("the run ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_signed_and_repeated_until_the_receiver_takes_them() {
    if controller_is_missing() {
        return;
    }
    let controller = RunningController::boot_with("[webhooks]\nallow_private = true\n").await;
    let received = ReceivedRequests::default();
    let address = receiver(Arc::clone(&received)).await;
    let built = build(&controller, "lab@1.0.0", &content(&address)).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    let ended = run(&controller, &id).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let requests = std::mem::take(&mut *received.lock().expect("not poisoned"));
    let [first, again, second] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(first.0, "/a?p=%2Fsrv%2Fin%2Fa%20%22b%22%26c");
    assert_eq!((&first.0, &first.2), (&again.0, &again.2));
    assert_eq!(first.1["webhook-id"], again.1["webhook-id"]);
    assert_ne!(first.1["webhook-id"], second.1["webhook-id"]);
    let text = |headers: &HeaderMap, name: &str| headers[name].to_str().expect("text").to_owned();
    assert_eq!(text(&again.1, "x-kind"), "saved create");
    assert_eq!(text(&again.1, "hotdesk-computer"), id);
    assert_eq!(again.1["content-type"], "application/json");
    assert_eq!(
        serde_json::from_slice::<Value>(&again.2).expect("JSON"),
        json!({"path": "/srv/in/a \"b\"&c"})
    );
    let body: Value = serde_json::from_slice(&second.2).expect("JSON");
    assert_eq!((&body["computer_id"], &body["trigger"]), (&json!(id), &json!("file")));
    assert_eq!(body["event"]["change"], "create");

    let secret = controller.get("/account/webhook-secret").await;
    let secret =
        secret.body["secret"].as_str().and_then(|text| text.strip_prefix("whsec_")).expect("a secret");
    let key = STANDARD.decode(secret).expect("Base64");
    for (_, headers, body) in &requests {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key");
        mac.update(
            format!("{}.{}.", text(headers, "webhook-id"), text(headers, "webhook-timestamp")).as_bytes(),
        );
        mac.update(body);
        let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        assert_eq!(text(headers, "webhook-signature"), expected);
    }
    // Nothing of it is in the computer.
    assert_eq!(
        controller.bash(&id, &format!("grep -rlF '{secret}' /etc /run /root /var 2>/dev/null; true")).await,
        ""
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_do_not_reach_private_addresses() {
    let Some(controller) = controller().await else { return };
    let received = ReceivedRequests::default();
    let address = receiver(Arc::clone(&received)).await;
    let built = build(&controller, "lab@1.0.0", &content(&address)).await;
    assert_eq!(built["status"], "ready", "{built}");
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    let ended = run(&controller, &id).await;
    let refused = |at: usize| json!(format!("actions[{at}]: The URL does not lead to the public Internet"));
    assert_eq!(
        (&ended["status"], &ended["errors"]),
        (&json!("failed"), &json!([refused(0), refused(1)])),
        "{ended}"
    );
    assert!(received.lock().expect("not poisoned").is_empty());
}

fn controller_is_missing() -> bool {
    match skip_reason() {
        Some(skip) => {
            skip.report();
            true
        }
        None => false,
    }
}
