//! Metrics of the computer that cross a value.

use std::time::{Duration, Instant};

use serde_json::json;
use sysinfo::System;

use crate::exec::services::metrics::read_metric;
use crate::exec::services::triggers::{Reporter, fields};
use hotdesk_domain::computer::template::trigger::ThresholdWatch;
use hotdesk_wire::template::trigger::MetricComparison;

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(2);

fn compare(op: MetricComparison, left: f64, right: f64) -> bool {
    match op {
        MetricComparison::Greater => left > right,
        MetricComparison::GreaterOrEqual => left >= right,
        MetricComparison::Less => left < right,
        MetricComparison::LessOrEqual => left <= right,
        MetricComparison::Equal => (left - right).abs() < f64::EPSILON,
        MetricComparison::NotEqual => (left - right).abs() >= f64::EPSILON,
    }
}

/// Reports when the comparison has been true for `least`.
pub(super) async fn watch(
    metric: &str,
    op: MetricComparison,
    value: f64,
    least: Duration,
    reporter: &Reporter,
) -> String {
    let mut system = match System::new() {
        Ok(system) => system,
        Err(error) => return format!("the metric {metric} cannot be read: {error}"),
    };
    let (mut crossing, began) = (ThresholdWatch::default(), Instant::now());
    // The first reading of the processors has nothing to compare with.
    let mut is_first = true;
    loop {
        let name = metric.to_owned();
        let read = hotdesk_base::tasks::spawn_blocking(move || {
            let reading = read_metric(&mut system, &name);
            (system, reading)
        });
        let reading = match read.await {
            Ok((same, reading)) => {
                system = same;
                reading
            }
            Err(error) => return format!("the metric {metric} cannot be read: {error}"),
        };
        let Some(reading) = reading else { return format!("the metric {metric} cannot be read") };
        reporter.watching();
        if !is_first && crossing.record(compare(op, reading, value), began.elapsed(), least) {
            let rounded = (reading * 10.0).round() / 10.0;
            reporter.event("metric", fields([("metric", json!(metric)), ("value", json!(rounded))]));
        }
        is_first = false;
        tokio::time::sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_compared() {
        for (op, expected) in [
            (MetricComparison::Greater, false),
            (MetricComparison::GreaterOrEqual, true),
            (MetricComparison::Less, false),
            (MetricComparison::LessOrEqual, true),
            (MetricComparison::Equal, true),
            (MetricComparison::NotEqual, false),
        ] {
            assert_eq!(compare(op, 5.0, 5.0), expected, "{op:?}");
        }
    }
}
