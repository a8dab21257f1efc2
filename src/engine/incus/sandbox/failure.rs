//! Record of a boot that failed, by which the launcher tells the controller the reason after its end.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::FAILURE_FILE;
use crate::EngineError;
use crate::host::files::write_for_this_boot;

/// Why a boot failed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BootFailure {
    /// The generation of the boot.
    pub(super) generation: u64,
    /// Whether the saved memory is not whole.
    is_damaged: bool,
    reason: String,
}

impl BootFailure {
    /// Stores the failure of a boot. A failure to do so is only printed: the boot has failed anyway.
    pub(super) fn store(generation: u64, error: &EngineError) {
        let is_damaged = matches!(error, EngineError::Damaged(_));
        let failure = Self { generation, is_damaged, reason: format!("{error:#}") };
        let stored = serde_json::to_vec(&failure)
            .map_err(std::io::Error::from)
            .and_then(|text| write_for_this_boot(Path::new(FAILURE_FILE), &text));
        if let Err(error) = stored {
            eprintln!("{FAILURE_FILE}: {error}");
        }
    }

    /// The error of the engine.
    pub(super) fn into_error(self, step: &'static str) -> EngineError {
        if self.is_damaged {
            EngineError::Damaged(self.reason)
        } else {
            EngineError::failed(step, self.reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_stays_damage() {
        for (is_damaged, reason) in [(true, "pages.img differs"), (false, "no memory")] {
            let failure = BootFailure { generation: 7, is_damaged, reason: reason.to_owned() };
            let text = serde_json::to_vec(&failure).unwrap();
            let read: BootFailure = serde_json::from_slice(&text).unwrap();
            let error = read.into_error("try");
            assert_eq!(matches!(error, EngineError::Damaged(_)), is_damaged);
            assert!(format!("{error:#}").contains(reason), "{error:#}");
        }
    }
}
