//! Reasons for which the service itself ends or freezes a computer (docs/lifecycle.md#states).

/// Reason of a computer's status, where the service and no client caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusReason {
    /// Its trial ended.
    TrialEnded,
    /// It was idle for its auto-stop time.
    AutoStop,
    /// It wrote much while the host's disk was nearly full. A computer that runs is frozen for it, which is not stored;
    /// one that is stopped was killed, because it still grew.
    HostDiskFull,
    /// Its host does not answer. The computer may still run; this is not stored.
    HostUnreachable,
    /// The operator confirmed that its host is gone.
    HostGone,
}

impl StatusReason {
    /// Every reason.
    pub const ALL: [Self; 5] =
        [Self::TrialEnded, Self::AutoStop, Self::HostDiskFull, Self::HostUnreachable, Self::HostGone];

    /// Returns the name in the API and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::TrialEnded => "trial_ended",
            Self::AutoStop => "auto_stop",
            Self::HostDiskFull => "host_disk_full",
            Self::HostUnreachable => "host_unreachable",
            Self::HostGone => "host_gone",
        }
    }

    /// Parses a name of the store.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}
