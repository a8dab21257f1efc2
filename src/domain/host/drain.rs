//! Drains of hosts, and the status of a host.
//!
//! ```text
//!   (none) -- drain --> draining -- no computer left --> drained
//!     ^                    |  ^-- a computer appears ------|
//!     +----- restore ------+-------------------------------+
//! ```

/// State of a drain. A host without one takes new computers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainState {
    /// Its computers are being moved to other hosts.
    Draining,
    /// It has no computers.
    Drained,
}

impl DrainState {
    /// Every state.
    pub const ALL: [Self; 2] = [Self::Draining, Self::Drained];

    /// Returns the name in the API and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }

    /// Parses a name of the store.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Returns the state of a drain of a host that has this many computers.
    pub fn of(computers: usize) -> Self {
        if computers == 0 { Self::Drained } else { Self::Draining }
    }
}

/// Status of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStatus {
    /// It answers, and takes new computers.
    Online,
    /// It does not answer. Its computers may still run.
    Offline,
    /// Its computers are being moved to other hosts.
    Draining,
    /// It has no computers, and takes none.
    Drained,
    /// The operator confirmed that it runs nothing any more.
    Gone,
}

impl HostStatus {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Online, Self::Offline, Self::Draining, Self::Drained, Self::Gone];

    /// Returns the status of a host. What the operator said of it shows also while it does not answer.
    pub fn of(is_online: bool, drain: Option<DrainState>, is_gone: bool) -> Self {
        if is_gone {
            return Self::Gone;
        }
        match (drain, is_online) {
            (Some(DrainState::Draining), _) => Self::Draining,
            (Some(DrainState::Drained), _) => Self::Drained,
            (None, true) => Self::Online,
            (None, false) => Self::Offline,
        }
    }

    /// Returns the name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Offline => "offline",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Gone => "gone",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_computers_is_drained() {
        for (computers, state) in [(0, DrainState::Drained), (1, DrainState::Draining)] {
            assert_eq!(DrainState::of(computers), state);
            assert_eq!(DrainState::parse(state.name()), Some(state));
        }
        assert_eq!(DrainState::parse("gone"), None);
    }

    #[test]
    fn what_the_operator_said_shows_before_the_silence_of_a_host() {
        for (is_online, drain, is_gone, expected) in [
            (true, None, false, "online"),
            (false, None, false, "offline"),
            (true, Some(DrainState::Draining), false, "draining"),
            (false, Some(DrainState::Draining), false, "draining"),
            (false, Some(DrainState::Drained), false, "drained"),
            (false, None, true, "gone"),
            (false, Some(DrainState::Draining), true, "gone"),
        ] {
            assert_eq!(HostStatus::of(is_online, drain, is_gone).name(), expected, "{is_online} {drain:?}");
        }
    }
}
