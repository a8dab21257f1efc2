//! Limits of accounts without a plan, and rate limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use hotdesk_domain::billing::quota::Quota;
use hotdesk_domain::computer::allowance::Allowance;
use hotdesk_engine::DISK_OVERCOMMIT;

/// Limits: the plan of every account without another one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Computers that an account may have.
    pub max_computers: u32,
    /// vCPUs that one computer may have.
    pub max_cpu: u32,
    /// GB of RAM that one computer may have.
    pub max_ram_gb: u32,
    /// GB of RAM that a resize may reach; only create allows more.
    pub max_resize_ram_gb: u32,
    /// GB of RAM that an account's computers may have together, running or not.
    pub max_account_ram_gb: u32,
    /// GB of disk that one computer may have.
    pub max_disk_gb: u32,
    /// GB of disk that an account's computers may have together.
    pub max_account_disk_gb: u32,
    /// Mbps in each direction that a computer gets, and the most it may be set to; 0 is unlimited.
    pub max_bandwidth_mbps: u32,
    /// Megabytes per second that each computer may read from its disk, and that it may write; 0 is unlimited.
    pub disk_mb_per_second: u32,
    /// Operations per second on its disk, of each kind; 0 is unlimited.
    pub disk_ops_per_second: u32,
    /// Sum of the disks of all computers on the host, as a multiple of its file system; 0 is unlimited. A disk takes
    /// what is stored on it, not its size.
    pub disk_overcommit: u32,
    /// Snapshots that one computer may have; their size counts as disk of the account.
    pub max_snapshots: u32,
    /// Workspaces that an account may own; those of its clients count for the clients.
    pub max_workspaces: u32,
    /// Clients that an account may have.
    pub max_clients: u32,
    /// Members and invitations that one workspace may have.
    pub max_people: u32,
    /// Accounts that may be created through an account's invitations, and through those of accounts created
    /// so.
    pub max_brought_accounts: u32,
    /// Stored files that an account's workspaces may hold.
    pub max_files: u32,
    /// GB that those files may take.
    pub max_files_gb: u32,
    /// API requests per second and key, on average.
    pub requests_per_second: u32,
    /// API requests per key in a burst.
    pub request_burst: u32,
    /// Wrong API keys, access tokens, OAuth codes and refresh tokens, together, that one address may send in
    /// a minute. Further ones get 429; a correct one is never refused.
    pub wrong_keys_per_minute: u32,
    /// Seconds after which a build of a template fails.
    pub build_seconds: u32,
}

impl Default for Limits {
    /// Generous for a self-hoster: 50 computers, each of the largest size, and all of them together. 300 GB
    /// of disk and 32 GB by resize are the ceilings of docs/api/limits.md. 100 requests per second serve
    /// dozens of agents with one key. The disk limits are most of a SATA disk's bandwidth, but a small part
    /// of the operations of an NVMe disk, so that one computer is fast and cannot starve the host. Lists of
    /// workspaces, clients and people are returned in one response, which bounds their number. Files are as
    /// many as can be searched quickly, and as large as a hundred of the largest exports. An hour is several times the
    /// longest build that is known.
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
            disk_overcommit: DISK_OVERCOMMIT,
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
            build_seconds: 3600,
        }
    }
}

impl Limits {
    /// Returns the allowance of an account without a plan; use [`Config::plans`](super::Config::plans) for
    /// all accounts.
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

    /// Returns the longest time of a build.
    pub fn build_timeout(&self) -> Duration {
        Duration::from_secs(self.build_seconds.into())
    }

    /// Returns the quota of such an account besides computers.
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
