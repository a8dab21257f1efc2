//! Errors of engines.

/// What every operation of an engine returns.
pub type EngineResult<T> = Result<T, EngineError>;

/// Why an engine refused or failed. The text is for the log; the controller chooses what a client reads.
#[derive(Clone, Debug)]
pub enum EngineError {
    /// The host has not enough disk, memory, slots or loop devices; the text names what is short.
    NoCapacity(String),
    /// The machine does not exist.
    Absent,
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
        Self::Failed { step, detail: detail.to_string() }
    }
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoCapacity(what) => write!(f, "no capacity: {what}"),
            Self::Absent => f.write_str("no such machine"),
            Self::Unsupported(what) => write!(f, "the engine cannot {what}"),
            Self::Damaged(what) => write!(f, "the saved state is damaged: {what}"),
            Self::Failed { step, detail } => write!(f, "could not {step}: {detail}"),
        }
    }
}

impl std::error::Error for EngineError {}
