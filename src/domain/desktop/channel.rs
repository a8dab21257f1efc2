//! WebSocket channels of a computer and their close codes (docs/channels.md).

use std::borrow::Cow;

/// Normal close (RFC 6455 section 7.4.1).
pub const NORMAL: u16 = 1000;
/// The service shuts down or the computer stops (docs/api/events.md).
pub const GOING_AWAY: u16 = 1001;
/// The peer violated the WebSocket protocol (RFC 6455 section 7.4.1).
pub const PROTOCOL_ERROR: u16 = 1002;
/// A text message is not UTF-8 (RFC 6455 section 7.4.1).
pub const NOT_UTF8: u16 = 1007;
/// The client may not use the service (RFC 6455 section 7.4.1).
pub const POLICY_VIOLATION: u16 = 1008;
/// A message is too large (RFC 6455 section 7.4.1).
pub const TOO_LARGE: u16 = 1009;
/// There are too many sockets (registered with IANA as "try again later").
pub const TRY_AGAIN_LATER: u16 = 1013;

/// Returns the close reason for [`GOING_AWAY`] when a computer stops; `because` is the reason if the service
/// ended it.
pub fn stopping(because: Option<&'static str>) -> Cow<'static, str> {
    const STOPPING: &str = "computer stopping";
    because.map_or(Cow::Borrowed(STOPPING), |because| Cow::Owned(format!("{STOPPING}: {because}")))
}

/// A WebSocket channel of a computer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Events of the computer (docs/api/events.md).
    Events,
    /// An interactive shell.
    Terminal,
    /// Sound that the computer plays.
    Audio,
    /// H.264 of a screen, without input.
    Video,
    /// RFB, the VNC protocol.
    Websockify,
    /// A byte stream of SSH. An API key opens it, the password of the computer does not.
    Ssh,
    /// A tunnel to a TCP port of the computer. An API key opens it, the password of the computer does not.
    Tcp,
}

/// Reason why a channel is refused or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The credential is missing or wrong.
    Unauthenticated,
    /// The credential belongs to a computer of another workspace.
    ElsewhereOnly,
    /// The computer does not exist.
    Unknown,
    /// The computer does not run.
    NotRunning,
    /// The idle timeout expired.
    Idle,
    /// The source on the computer failed.
    Failed,
    /// The computer cannot be reached.
    Unreachable,
    /// No program listens on the port.
    NotListening,
    /// The computer has no program that encodes video.
    NoEncoder,
}

impl Channel {
    /// Every channel.
    pub const ALL: [Self; 7] =
        [Self::Events, Self::Terminal, Self::Audio, Self::Video, Self::Websockify, Self::Ssh, Self::Tcp];
    /// The channels that the password of a computer opens.
    pub const BY_PASSWORD: [Self; 5] =
        [Self::Events, Self::Terminal, Self::Audio, Self::Video, Self::Websockify];
    /// The channels that a ticket for a screen opens.
    pub const BY_TICKET: [Self; 2] = [Self::Video, Self::Websockify];

    /// Returns the last segment of the channel's path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Terminal => "terminal",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Websockify => "websockify",
            Self::Ssh => "ssh",
            Self::Tcp => "tcp",
        }
    }

    /// Returns the channel with this last path segment.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|channel| channel.name() == name)
    }

    /// Returns the close code for a failure. VNC has codes of its own; the other channels share theirs
    /// (docs/channels.md).
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
            (_, Failure::NoEncoder) => 4501,
            (_, Failure::NotListening) => 4503,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_codes_match_the_documentation() {
        let table = [
            (Failure::Unauthenticated, 4401, 4001),
            (Failure::ElsewhereOnly, 4401, 4006),
            (Failure::Unknown, 4404, 4004),
            (Failure::NotRunning, 4404, 4003),
            (Failure::Idle, 1000, 4008),
            (Failure::Failed, 4500, 4500),
            (Failure::Unreachable, 4500, 4502),
            (Failure::NotListening, 4503, 4503),
            (Failure::NoEncoder, 4501, 4501),
        ];
        for (failure, common, vnc) in table {
            for channel in Channel::ALL {
                let expected = if channel == Channel::Websockify { vnc } else { common };
                assert_eq!(channel.close_code(failure), expected, "{channel:?} {failure:?}");
            }
        }
    }

    #[test]
    fn a_close_has_the_reason_of_the_service() {
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
