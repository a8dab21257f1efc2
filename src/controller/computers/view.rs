//! API records of computers.

use crate::web::origin::Origin;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::lifecycle::Status;
use hotdesk_domain::computer::status_reason::StatusReason;
use hotdesk_domain::desktop::terminal::ComputerTerminal;
use hotdesk_domain::host::outage::{HostOutage, status_message};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_wire::computer::replica::{RecoveryRecord, Replica, Replication};
use hotdesk_wire::computer::{Computer as Record, ComputerBilling, DeclaredTerminal, InstanceDetails};

/// Live details of a computer that are not stored.
#[derive(Clone, Debug, Default)]
pub struct LiveDetails {
    /// Its address in the host's private network.
    pub address: Option<std::net::IpAddr>,
    /// Time since which its agent answers nothing.
    pub unresponsive_since: Option<UnixMillis>,
    /// Whether its processes are frozen because the host's disk is nearly full.
    pub frozen: bool,
    /// The outage of its host.
    pub outage: Option<HostOutage>,
}

/// Returns the full record, for create and get.
pub fn full_record(computer: &Computer, live: LiveDetails, origin: &Origin) -> Record {
    let mut record = listed_record(computer, live, origin);
    record.vnc_password = Some(computer.vnc_password.reveal().to_owned());
    record
}

/// Returns the record without its password, for listings.
pub fn listed_record(computer: &Computer, live: LiveDetails, origin: &Origin) -> Record {
    let running = computer.status == Status::Running;
    let resolution = computer.hardware.resolution.to_string();
    let url = format!("{}/desktops/{}", origin.0, computer.instance);
    Record {
        id: computer.id.to_string(),
        name: computer.name.clone(),
        workspace_id: computer.workspace.to_string(),
        project_id: computer.workspace.to_string(),
        project_name: computer.workspace_name.clone(),
        user_id: computer.owner.to_string(),
        os: "linux".to_owned(),
        cpu: computer.hardware.cpu,
        ram: computer.hardware.ram_gb,
        disk_size_gb: computer.hardware.disk_gb,
        isolation: computer.isolation.name().to_owned(),
        host: computer.host.clone(),
        template_ref: computer.template.clone(),
        template_build_id: computer.layers.last().map(ToString::to_string),
        template_ports: computer.ports.iter().filter(|port| port.is_open).map(|port| port.number).collect(),
        expires_at: computer.expires_at.map(UnixMillis::iso8601),
        gpu: "none".to_owned(),
        resolution: resolution.clone(),
        status: computer.status.name().to_owned(),
        status_reason: status_reason(computer, &live).map(|reason| reason.name().to_owned()),
        status_message: status_message(
            computer.status,
            computer.status_reason,
            live.outage.as_ref(),
            computer.replica.as_ref(),
        ),
        agent_unresponsive_since: live.unresponsive_since.filter(|_| running).map(UnixMillis::iso8601),
        auto_stop_minutes: computer.auto_stop_minutes,
        auto_stop: None,
        replicate: (computer.replicate_minutes > 0)
            .then_some(Replication { interval_minutes: computer.replicate_minutes }),
        replica: computer.replica.as_ref().map(|replica| Replica {
            host: replica.host.clone(),
            refreshed_at: replica.refreshed_at.iso8601(),
        }),
        recovered: computer.recovered.as_ref().map(|recovery| RecoveryRecord {
            from: recovery.from.clone(),
            state_at: recovery.state_at.iso8601(),
        }),
        billing: None,
        connection_url: running.then(|| url.clone()),
        url,
        hostname: origin.host().to_owned(),
        instance_id: computer.instance.to_string(),
        fly_instance_id: computer.instance.to_string(),
        vnc_password: None,
        api_port: None,
        novnc_port: None,
        ssh_host_port: None,
        ip: live.address.filter(|_| running).map(|address| address.to_string()),
        instance_details: running.then(|| InstanceDetails {
            id: computer.instance.to_string(),
            resolution,
            api_port: None,
            public_host: None,
            vnc_host: None,
            webrtc: None,
            template_terminals: computer.terminals.iter().map(terminal_record).collect(),
        }),
        created_at: computer.created_at.iso8601(),
        updated_at: computer.updated_at.iso8601(),
    }
}

fn terminal_record(terminal: &ComputerTerminal) -> DeclaredTerminal {
    DeclaredTerminal { name: terminal.name.clone(), title: terminal.title.clone() }
}

/// Returns why the service ended a computer, or why one that should run cannot be used.
fn status_reason(computer: &Computer, live: &LiveDetails) -> Option<StatusReason> {
    let running = computer.status == Status::Running;
    if live.outage.is_some() && running {
        return Some(StatusReason::HostUnreachable);
    }
    if live.frozen && running { Some(StatusReason::HostDiskFull) } else { computer.status_reason }
}

/// Returns the billing part of the record, for get.
pub fn billing_record(computer: &Computer) -> ComputerBilling {
    ComputerBilling {
        variant: computer.billing.variant.name().to_owned(),
        payment: computer.billing.payment.name().to_owned(),
        trial_ends_at: computer.billing.trial_ends_at.map(UnixMillis::iso8601),
        device: computer.billing.device,
    }
}
