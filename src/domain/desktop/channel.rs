//! Which live channels does a computer have, and with which code does each close a socket?

use std::borrow::Cow;

/// Nothing more comes; all is well (RFC 6455 section 7.4.1).
pub const NORMAL: u16 = 1000;
/// The service shuts down or the computer stops (interface.md "Close codes").
pub const GOING_AWAY: u16 = 1001;
/// The peer broke the rules of WebSocket itself (RFC 6455 section 7.4.1).
pub const PROTOCOL_ERROR: u16 = 1002;
/// A text message is not UTF-8 (RFC 6455 section 7.4.1).
pub const NOT_UTF8: u16 = 1007;
/// A message is larger than is taken (RFC 6455 section 7.4.1).
pub const TOO_LARGE: u16 = 1009;

/// What a close with [`GOING_AWAY`] says when a computer stops, with why where the service ended it by itself.
pub fn stopping(because: Option<&'static str>) -> Cow<'static, str> {
    const STOPPING: &str = "computer stopping";
    because.map_or(Cow::Borrowed(STOPPING), |because| Cow::Owned(format!("{STOPPING}: {because}")))
}

/// A live channel of a computer, by WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// What happens on the computer (interface.md "Events").
    Events,
    /// An interactive shell (wire.md 10.4).
    Terminal,
    /// What the computer plays (wire.md 10.5).
    Audio,
    /// RFB, the VNC protocol (wire.md 10.3).
    Websockify,
}

/// Why a channel is refused or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No token, or a wrong one.
    Unauthenticated,
    /// The credential of a computer of another workspace.
    ElsewhereOnly,
    /// No such computer.
    Unknown,
    /// The computer does not run.
    NotRunning,
    /// Nothing moved for too long.
    Idle,
    /// The source on the computer failed.
    Failed,
    /// The computer cannot be reached.
    Unreachable,
}

impl Channel {
    /// Every channel.
    pub const ALL: [Self; 4] = [Self::Events, Self::Terminal, Self::Audio, Self::Websockify];

    /// The last segment of its path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Terminal => "terminal",
            Self::Audio => "audio",
            Self::Websockify => "websockify",
        }
    }

    /// The channel of a path's last segment.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|channel| channel.name() == name)
    }

    /// The close code of a failure: VNC has codes of its own (wire.md 10.3), the others share theirs (interface.md).
    pub fn close_code(self, failure: Failure) -> u16 {
        match (self, failure) {
            (Self::Websockify, Failure::Unauthenticated) => 4001,
            (Self::Websockify, Failure::NotRunning) => 4003,
            (Self::Websockify, Failure::Unknown) => 4004,
            (Self::Websockify, Failure::ElsewhereOnly) => 4006,
            (Self::Websockify, Failure::Idle) => 4008,
            (Self::Websockify, Failure::Unreachable) => 4502,
            (_, Failure::Unauthenticated | Failure::ElsewhereOnly) => 4401,
            (_, Failure::Unknown | Failure::NotRunning) => 4404,
            (_, Failure::Idle) => NORMAL,
            (_, Failure::Failed | Failure::Unreachable) => 4500,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_that_clients_know() {
        let table = [
            (Failure::Unauthenticated, 4401, 4001),
            (Failure::ElsewhereOnly, 4401, 4006),
            (Failure::Unknown, 4404, 4004),
            (Failure::NotRunning, 4404, 4003),
            (Failure::Idle, 1000, 4008),
            (Failure::Failed, 4500, 4500),
            (Failure::Unreachable, 4500, 4502),
        ];
        for (failure, common, vnc) in table {
            for channel in Channel::ALL {
                let expected = if channel == Channel::Websockify { vnc } else { common };
                assert_eq!(channel.close_code(failure), expected, "{channel:?} {failure:?}");
            }
        }
    }

    #[test]
    fn a_close_says_why_where_there_is_a_reason_of_the_service_s() {
        assert_eq!(stopping(None), "computer stopping");
        assert_eq!(stopping(Some("trial_ended")), "computer stopping: trial_ended");
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for channel in Channel::ALL {
            assert_eq!(Channel::parse(channel.name()), Some(channel));
        }
        assert_eq!(Channel::parse("Events"), None);
    }
}
