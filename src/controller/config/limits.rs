//! What may an account have that has no plan of its own, and how fast may it ask?

use serde::{Deserialize, Serialize};

use hotdesk_domain::allowance::Allowance;
use hotdesk_domain::quota::Quota;

/// Limits: the plan of every account that has no other.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Computers that an account may have.
    pub max_computers: u32,
    /// vCPUs that one computer may have.
    pub max_cpu: u32,
    /// GB of RAM that one computer may have.
    pub max_ram_gb: u32,
    /// GB of RAM that a resize may reach; more is for create alone.
    pub max_resize_ram_gb: u32,
    /// GB of RAM that an account's computers may have together, running or not.
    pub max_account_ram_gb: u32,
    /// GB of disk that one computer may have.
    pub max_disk_gb: u32,
    /// GB of disk that an account's computers may have together.
    pub max_account_disk_gb: u32,
    /// Mbps each way that a computer gets and may at most be set to; 0 is without a bound.
    pub max_bandwidth_mbps: u32,
    /// Megabytes a second that each computer may read from its disk, and as many that it may write; 0 is without a bound.
    pub disk_mb_per_second: u32,
    /// Operations a second on its disk, of each kind; 0 is without a bound.
    pub disk_ops_per_second: u32,
    /// Snapshots that one computer may have; what they take counts as disk of the account.
    pub max_snapshots: u32,
    /// Workspaces that an account may own; those of its clients count as clients.
    pub max_workspaces: u32,
    /// Clients that an account may have.
    pub max_clients: u32,
    /// Members and invitations that one workspace may have.
    pub max_people: u32,
    /// Accounts that may come into being by an account's invitations, and by those of whoever came so.
    pub max_brought_accounts: u32,
    /// Stored files that an account's workspaces may hold.
    pub max_files: u32,
    /// GB that those may take.
    pub max_files_gb: u32,
    /// API requests per second and key, on average.
    pub requests_per_second: u32,
    /// API requests per key at once.
    pub request_burst: u32,
    /// Wrong API keys, access tokens, OAuth codes and refresh tokens, together, that one address may send in a minute; more are
    /// answered 429. A right one is never shut out.
    pub wrong_keys_per_minute: u32,
}

impl Default for Limits {
    /// Generous for a self-hoster: 50 computers; each may be as large as can be ordered, all of them together too;
    /// 300 GB of disk and 32 GB by resize are the specification's ceilings ("Resize ceilings", "Limits"); 100 requests
    /// a second serve dozens of agents on one key. The bound on disks is most of what a SATA disk gives in bytes, and a
    /// small part in operations: one computer is quick by itself and cannot starve a host with NVMe. Workspaces, clients and
    /// people are as many as lists that are always told whole bear; files are as many as are looked through in a blink, and
    /// a hundred of the largest exports.
    fn default() -> Self {
        Self {
            max_computers: 50,
            max_cpu: 16,
            max_ram_gb: 64,
            max_resize_ram_gb: 32,
            max_account_ram_gb: 3200,
            max_disk_gb: 300,
            max_account_disk_gb: 15_000,
            max_bandwidth_mbps: 0,
            disk_mb_per_second: 400,
            disk_ops_per_second: 20_000,
            max_snapshots: 10,
            max_workspaces: 500,
            max_clients: 1000,
            max_people: 200,
            max_brought_accounts: 1000,
            max_files: 10_000,
            max_files_gb: 100,
            requests_per_second: 100,
            request_burst: 400,
            wrong_keys_per_minute: 20,
        }
    }
}

impl Limits {
    /// What an account without a plan of its own may have; [`Config::plans`] is for everybody.
    pub fn allowance(&self) -> Allowance {
        Allowance {
            computers: self.max_computers,
            cpu: self.max_cpu,
            ram_gb: self.max_ram_gb,
            resize_ram_gb: self.max_resize_ram_gb,
            account_ram_gb: self.max_account_ram_gb,
            disk_gb: self.max_disk_gb,
            account_disk_gb: self.max_account_disk_gb,
            bandwidth_mbps: self.max_bandwidth_mbps,
            snapshots: self.max_snapshots,
        }
    }

    /// What such an account may keep beside its computers.
    pub fn quota(&self) -> Quota {
        Quota {
            workspaces: self.max_workspaces,
            clients: self.max_clients,
            people: self.max_people,
            brought_accounts: self.max_brought_accounts,
            files: self.max_files,
            files_gb: self.max_files_gb,
        }
    }
}
