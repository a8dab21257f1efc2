//! Drains of hosts, and the metrics of hosts.

use std::time::Duration;

use crate::AppState;
use hotdesk_domain::error::Result;
use hotdesk_domain::host::drain::HostStatus;

/// Time between two measurements of all hosts. Each costs some calls to each host.
pub(super) const MEASURE_INTERVAL: Duration = Duration::from_secs(60);

/// Starts to carry out drains (docs/hosts.md).
pub(super) fn start_drains(app: &AppState) {
    let drains = app.computer_hosts.clone().run_drains(app.tasks.stopping());
    let _task = app.tasks.spawn("drains of hosts", drains);
}

/// Sets the metrics of hosts. A service with one host has none.
pub(super) async fn measure(app: AppState) -> Result<()> {
    let hosts = app.computer_hosts.records().await?;
    if hosts.is_empty() {
        return Ok(());
    }
    for status in HostStatus::ALL {
        let count = hosts.iter().filter(|host| host.status == status.name()).count();
        metrics::gauge!("hotdesk_hosts", "status" => status.name()).set(count as f64);
    }
    for host in hosts {
        let free = host.memory_free_mb as f64 * 1024.0 * 1024.0;
        metrics::gauge!("hotdesk_host_memory_free_bytes", "host" => host.name.clone()).set(free);
        metrics::gauge!("hotdesk_host_computers", "host" => host.name).set(f64::from(host.computers));
    }
    Ok(())
}
