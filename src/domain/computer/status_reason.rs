//! Reasons for which the service itself ends a computer (docs/lifecycle.md#states).

/// Reason of a computer's status, where the service and no client caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusReason {
    /// Its trial ended.
    TrialEnded,
    /// It was idle for its auto-stop time.
    AutoStop,
}

impl StatusReason {
    /// Every reason.
    pub const ALL: [Self; 2] = [Self::TrialEnded, Self::AutoStop];

    /// Returns the name in the API and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::TrialEnded => "trial_ended",
            Self::AutoStop => "auto_stop",
        }
    }

    /// Parses a name of the store.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}
