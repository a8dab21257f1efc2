//! What does a stored computer look like on the wire?

use crate::origin::Origin;
use hotdesk_base::clock::iso8601;
use hotdesk_domain::lifecycle::Status;
use hotdesk_store::computers::Computer;
use hotdesk_wire::computer::{Computer as Record, ComputerBilling, InstanceDetails};

/// What only the fleet knows about a computer at this moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    /// Its address in the host's private network.
    pub address: Option<std::net::IpAddr>,
}

/// The full record, as create and get return it.
pub fn full(computer: &Computer, live: Live, origin: &Origin) -> Record {
    let mut record = listed(computer, live, origin);
    record.vnc_password = Some(computer.vnc_password.reveal().to_owned());
    record
}

/// The record without its password, as listings return it.
pub fn listed(computer: &Computer, live: Live, origin: &Origin) -> Record {
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
        gpu: "none".to_owned(),
        resolution: resolution.clone(),
        status: computer.status.name().to_owned(),
        status_reason: computer.status_reason.clone(),
        auto_stop_minutes: computer.auto_stop_minutes,
        auto_stop: None,
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
        }),
        created_at: iso8601(computer.created_at),
        updated_at: iso8601(computer.updated_at),
    }
}

/// How a computer is paid for, as get tells it.
pub fn billing(computer: &Computer) -> ComputerBilling {
    ComputerBilling {
        variant: computer.billing.variant.name().to_owned(),
        payment: computer.billing.payment.name().to_owned(),
        trial_ends_at: computer.billing.trial_ends_at.map(iso8601),
        device: computer.billing.device,
    }
}
