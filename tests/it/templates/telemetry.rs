//! Figures and logs that real computers send to a collector of OpenTelemetry.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use serde_json::Value;

use super::builds::{build, controller, launch};
use super::services::TIMEOUT;
use crate::harness::caller::id_of;
use crate::harness::network::TestNetwork;

/// Port of OTLP over HTTP.
const PORT: u16 = 4318;

/// The bodies of each path.
type ReceivedExports = Arc<Mutex<Vec<(String, Value)>>>;

/// A collector in a network that has no time for its first request, which it records without its body.
fn collect(network: &TestNetwork, received: ReceivedExports) {
    let calls = Arc::new(Mutex::new(0));
    let take = |State((received, calls)): State<(ReceivedExports, Arc<Mutex<u32>>)>, request: Request| async move {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 8 << 20).await.expect("a body");
        *calls.lock().expect("not poisoned") += 1;
        if *calls.lock().expect("not poisoned") == 1 {
            received.lock().expect("not poisoned").push(("refused".to_owned(), Value::Null));
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        assert_eq!(parts.headers["content-type"], "application/json");
        let body = serde_json::from_slice(&body).expect("JSON");
        received.lock().expect("not poisoned").push((parts.uri.path().to_owned(), body));
        StatusCode::OK
    };
    let listener = network.listens(network.public, PORT);
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    let router = Router::new().fallback(take).with_state((received, calls));
    let _task = Tasks::new().spawn("collector", async move { axum::serve(listener, router).await });
}

/// The lines of all received logs, each with its path.
fn lines(received: &[(String, Value)]) -> Vec<String> {
    let logs = received.iter().filter(|(path, _)| path == "/v1/logs");
    let records = logs.flat_map(|(_, body)| {
        body["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array().expect("records").clone()
    });
    let line = |record: Value| {
        let text = record["body"]["stringValue"].as_str().expect("a line").to_owned();
        format!("{}: {text}", record["attributes"][0]["value"]["stringValue"].as_str().expect("a path"))
    };
    records.map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_and_new_lines_reach_a_collector_that_is_not_ready_at_first() {
    let Some(controller) = controller().await else { return };
    let network = TestNetwork::new();
    let received = ReceivedExports::default();
    collect(&network, Arc::clone(&received));
    let content = format!(
        "vars: {{log: /var/log/app.log}}\nfiles: {{/var/log/app.log: \"old\\n\"}}\n\
         telemetry: {{metrics: true, logs: ['${{var.log}}', /var/log/later.log], otel_endpoint: 'http://{}:{PORT}/'}}\n\
         apps: [{{name: web, services: [{{name: api, user: root, run: exec sleep 1000}}]}}]\n",
        network.public
    );
    let built = build(&controller, "lab@1.0.0", &content).await;
    assert_eq!(built["status"], "ready", "{built}");
    // Neither does the computer that checked its service.
    assert_eq!(received.lock().expect("not poisoned").as_slice(), []);
    let workspace = controller.workspace("w").await;
    let id = id_of(&launch(&controller, &workspace, "one", "lab@1.0.0").await.body);
    let figures = wait::until(TIMEOUT, || async {
        let all = received.lock().expect("not poisoned");
        all.iter().find(|(path, _)| path == "/v1/metrics").map(|(_, body)| body["resourceMetrics"][0].clone())
    });
    let figures = figures.await.expect("metrics");
    let host = controller.bash(&id, "hostname").await;
    assert_eq!(figures["resource"]["attributes"][1]["value"]["stringValue"], host.trim_end());
    let metrics = figures["scopeMetrics"][0]["metrics"].as_array().expect("metrics");
    let value = |name: &str| {
        let found = metrics
            .iter()
            .find(|metric| metric["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {metrics:?}"));
        found["gauge"]["dataPoints"][0]["asDouble"].as_f64().expect("a figure")
    };
    for name in ["system.cpu.utilization", "system.memory.utilization", "system.filesystem.utilization"] {
        assert!((0.0..=1.0).contains(&value(name)), "{name}: {}", value(name));
    }
    assert!(value("system.memory.usage") > 1e6 && value("hotdesk.telemetry.dropped") == 0.0);

    controller.bash(&id, "echo one >>/var/log/app.log; printf 'two\\nthree' >/var/log/later.log").await;
    let expected = ["/var/log/app.log: one", "/var/log/later.log: two"];
    let seen = wait::until(TIMEOUT, || async {
        let lines = lines(&received.lock().expect("not poisoned"));
        (lines.len() >= expected.len()).then_some(lines)
    });
    let mut seen = seen.await.expect("logs");
    seen.sort();
    assert_eq!(seen, expected);
}
