//! Failures of calls to Incus, and their meaning for an engine.

use std::fmt;

use crate::{EngineError, Shortage};

/// Why a call to Incus failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::incus) enum ClientError {
    /// The server cannot be reached, or its answer was not understood.
    Unreachable(String),
    /// The server refused the call, or its operation failed.
    Refused {
        /// Status of HTTP, or of the operation.
        status: u16,
        /// The server's text.
        message: String,
    },
}

impl ClientError {
    /// Whether the thing that the call names does not exist.
    pub(in crate::incus) fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    /// Whether the server works on the same instance for somebody else, so that a later call may succeed.
    pub(in crate::incus) fn is_busy(&self) -> bool {
        matches!(self, Self::Refused { message, .. } if message.to_lowercase().contains("busy"))
    }

    /// Whether another instance has the name that the call wants to give.
    pub(in crate::incus) fn is_taken(&self) -> bool {
        let Self::Refused { message, .. } = self else { return false };
        let lower = message.to_lowercase();
        lower.contains("already exists") || lower.contains("unique constraint")
    }

    /// The failure of a step of an engine. A full storage pool is a lack of capacity.
    pub(in crate::incus) fn at(self, step: &'static str) -> EngineError {
        if let Self::Refused { message, .. } = &self {
            let lower = message.to_lowercase();
            if lower.contains("no space left") || lower.contains("quota exceeded") {
                return EngineError::NoCapacity(Shortage::DiskSpace, format!("{step}: {self}"));
            }
        }
        EngineError::failed(step, self)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "Incus does not answer: {why}"),
            Self::Refused { status, message } => write!(f, "Incus refused ({status}): {message}"),
        }
    }
}

impl std::error::Error for ClientError {}

/// Converts an error of a transport.
pub(super) fn unreachable(error: impl fmt::Display) -> ClientError {
    ClientError::Unreachable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, message: &str) -> ClientError {
        ClientError::Refused { status, message: message.to_owned() }
    }

    #[test]
    fn failures_keep_their_meaning() {
        assert!(refused(404, "Instance not found").is_missing());
        assert!(!refused(500, "x").is_missing() && !unreachable("x").is_missing());
        assert!(refused(400, "Instance is busy running a \"stop\" operation").is_busy());
        assert!(!refused(400, "The instance is already running").is_busy());
        for (error, is_taken) in [
            (refused(409, "Instance \"x\" already exists"), true),
            (refused(500, "UNIQUE constraint failed: instances.project_id, instances.name"), true),
            (refused(404, "Instance not found"), false),
            (unreachable("connection refused"), false),
        ] {
            assert_eq!(error.is_taken(), is_taken, "{error}");
        }
        for (error, is_full) in [
            (refused(400, "write /x: no space left on device"), true),
            (refused(500, "Disk quota exceeded"), true),
            (refused(500, "Server isn't ready yet"), false),
            (unreachable("connection refused"), false),
        ] {
            let is_capacity = matches!(error.clone().at("try"), EngineError::NoCapacity(..));
            assert_eq!(is_capacity, is_full, "{error}");
        }
        assert_eq!(
            format!("{:#}", refused(409, "taken").at("try")),
            "could not try: Incus refused (409): taken"
        );
    }
}
