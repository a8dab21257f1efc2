//! Bodies of OTLP/HTTP in JSON (opentelemetry-proto, `ExportMetricsServiceRequest` and `ExportLogsServiceRequest`).

use serde_json::{Value, json};

use hotdesk_base::clock;

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figure {
    /// Name in the semantic conventions of OpenTelemetry.
    pub(super) name: &'static str,
    /// Unit in UCUM.
    pub(super) unit: &'static str,
    pub(super) value: f64,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogLine {
    pub(super) path: String,
    pub(super) text: String,
}

/// The body with figures of this moment.
pub(super) fn metrics(figures: &[Figure]) -> Value {
    let time = nanoseconds();
    let metric = |figure: &Figure| {
        let points = json!([{"timeUnixNano": time, "asDouble": figure.value}]);
        json!({"name": figure.name, "unit": figure.unit, "gauge": {"dataPoints": points}})
    };
    let metrics: Vec<Value> = figures.iter().map(metric).collect();
    json!({"resourceMetrics": [{"resource": resource(), "scopeMetrics": [{"scope": scope(), "metrics": metrics}]}]})
}

/// The body with lines that were read now.
pub(super) fn logs(lines: &[LogLine]) -> Value {
    let time = nanoseconds();
    let record = |line: &LogLine| {
        json!({
            "timeUnixNano": time,
            "observedTimeUnixNano": time,
            "body": {"stringValue": line.text},
            "attributes": [attribute("log.file.path", &line.path)],
        })
    };
    let records: Vec<Value> = lines.iter().map(record).collect();
    json!({"resourceLogs": [{"resource": resource(), "scopeLogs": [{"scope": scope(), "logRecords": records}]}]})
}

/// Nanoseconds since 1970. 64-bit integers are texts in JSON (protobuf, JSON mapping).
fn nanoseconds() -> String {
    format!("{}000000", clock::now().as_i64())
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn resource() -> Value {
    // A computer that continues from the memory of another one has another name.
    let host = nix::unistd::gethostname().unwrap_or_default();
    json!({"attributes": [attribute("service.name", "hotdesk"), attribute("host.name", &host.to_string_lossy())]})
}

fn scope() -> Value {
    json!({"name": "hotdesk", "version": env!("CARGO_PKG_VERSION")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_the_form_of_the_protocol() {
        let body = metrics(&[Figure { name: "system.cpu.utilization", unit: "1", value: 0.5 }]);
        let metric = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
        assert_eq!(metric["name"], "system.cpu.utilization");
        let point = &metric["gauge"]["dataPoints"][0];
        assert_eq!(point["asDouble"], 0.5);
        assert!(point["timeUnixNano"].as_str().is_some_and(|time| time.len() == 19), "{point}");
        assert_eq!(
            body["resourceMetrics"][0]["resource"]["attributes"][0]["value"]["stringValue"],
            "hotdesk"
        );
        let body = logs(&[LogLine { path: "/a".to_owned(), text: "b".to_owned() }]);
        let record = &body["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        assert_eq!(record["body"]["stringValue"], "b");
        assert_eq!(record["attributes"][0], json!({"key": "log.file.path", "value": {"stringValue": "/a"}}));
    }
}
