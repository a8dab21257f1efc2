//! Errors of engines.

use serde::{Deserialize, Serialize};

/// Result of every operation of an engine.
pub type EngineResult<T> = Result<T, EngineError>;

/// Resource of which a host has too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shortage {
    /// Free space on the disk with the state folder.
    DiskSpace,
    /// Slots, each with a network address and a range of user ids.
    Slots,
    /// Loop devices of the kernel.
    LoopDevices,
    /// inotify instances of the kernel.
    InotifyInstances,
}

impl std::fmt::Display for Shortage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::DiskSpace => "disk space",
            Self::Slots => "slots for computers",
            Self::LoopDevices => "loop devices",
            Self::InotifyInstances => "inotify instances",
        })
    }
}

/// Why an engine refused or failed. `{}` names the step; `{:#}` adds which thing and why, for the log. The
/// controller chooses what a client reads.
#[derive(Clone, Debug)]
pub enum EngineError {
    /// The host has too little of something; the text says how much there is.
    NoCapacity(Shortage, String),
    /// The machine does not exist.
    Absent,
    /// The machine uses more memory than a new limit gives it, also after the kernel has reclaimed.
    MemoryInUse {
        /// Bytes in use.
        used: u64,
        /// Bytes of the new limit.
        limit: u64,
    },
    /// This engine, or this machine as it is configured, cannot do it. Completes the sentence "the engine
    /// cannot …".
    Unsupported(&'static str),
    /// Saved state differs from what was written: a checksum does not match, or a file is missing. It was not
    /// booted.
    Damaged(String),
    /// A step failed.
    Failed {
        /// The step, completing "could not …", for example `mount the overlay`.
        step: &'static str,
        /// Which thing and why: usually a path and the kernel's or the tool's error.
        detail: String,
    },
}

impl EngineError {
    /// A step that failed, with which thing and why.
    pub fn failed(step: &'static str, detail: impl std::fmt::Display) -> Self {
        Self::Failed { step, detail: format!("{detail:#}") }
    }

    fn detail(&self) -> Option<&str> {
        match self {
            Self::NoCapacity(_, detail) | Self::Damaged(detail) | Self::Failed { detail, .. } => Some(detail),
            Self::Absent | Self::MemoryInUse { .. } | Self::Unsupported(_) => None,
        }
    }
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoCapacity(short, _) => write!(f, "no capacity: {short}")?,
            Self::Absent => f.write_str("no such machine")?,
            Self::MemoryInUse { used, limit } => {
                write!(f, "the machine uses {} MiB of memory, more than {} MiB", used >> 20, limit >> 20)?;
            }
            Self::Unsupported(what) => write!(f, "the engine cannot {what}")?,
            Self::Damaged(_) => f.write_str("the saved state is damaged")?,
            Self::Failed { step, .. } => write!(f, "could not {step}")?,
        }
        match self.detail() {
            Some(detail) if f.alternate() => write!(f, ": {detail}"),
            Some(_) | None => Ok(()),
        }
    }
}

impl std::error::Error for EngineError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detail_is_in_the_alternate_form_only() {
        let error = EngineError::failed("mount the overlay", "/x: no");
        assert_eq!(error.to_string(), "could not mount the overlay");
        assert_eq!(format!("{error:#}"), "could not mount the overlay: /x: no");
        let outer = EngineError::failed("start", &error);
        assert_eq!(format!("{outer:#}"), format!("could not start: {error:#}"));
        assert_eq!(EngineError::Damaged("/x".into()).to_string(), "the saved state is damaged");
    }
}
