//! Rules for clones and forks: which sources are allowed, and the name of the copy (docs/lifecycle.md).

use crate::computer::MEMORY_SETTINGS;
use crate::computer::lifecycle::Status;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::name::{MAX_CHARACTERS, Name};

/// Returns a free name for a copy: `<name> (clone)`, or the first free `<name> (clone N)`, where `kind` is
/// `clone`.
///
/// The source's name is shortened when the result would be too long. `taken` receives folded names.
///
/// # Errors
/// `Invalid` when the source's name is not a valid name; `Internal` when every candidate is taken.
pub fn free_name(source: &str, kind: &str, taken: impl Fn(&str) -> bool) -> Result<Name> {
    for number in 1..=u32::MAX {
        let suffix = if number == 1 { format!(" ({kind})") } else { format!(" ({kind} {number})") };
        let base: String = source.chars().take(MAX_CHARACTERS - suffix.chars().count()).collect();
        let name = Name::parse(&format!("{}{suffix}", base.trim_end()))?;
        if !taken(&name.folded()) {
            return Ok(name);
        }
    }
    Err(Error::internal("every copy's name is taken"))
}

/// Checks whether a computer with this status can be cloned. During a transition the clone waits for its end.
///
/// # Errors
/// `Invalid` (`NOT_CLONABLE`) when the computer runs and the engine copies only stopped disks, or when the
/// disk is not complete.
pub fn check_source(status: Status, copy_while_running: bool) -> Result<()> {
    if status == Status::Running && !copy_while_running {
        return Err(not_clonable("This computer cannot be cloned while it runs: stop it first"));
    }
    // The disk of a suspended computer is not complete: writes that were not flushed are in its saved memory.
    if matches!(status, Status::Suspending | Status::Suspended | Status::Error | Status::Deleting) {
        return Err(not_clonable(format!("Computer cannot be cloned (status: {})", status.name())));
    }
    Ok(())
}

/// Returns the error for a source that cannot be cloned.
pub fn not_clonable(message: impl Into<String>) -> Error {
    Error::invalid(message).code(ErrorCode::NotClonable)
}

/// Checks whether a computer with this status can be forked.
///
/// # Errors
/// `Invalid` (`NOT_FORKABLE`) when the engine cannot copy memory, or when the computer does not run.
pub fn check_fork(status: Status, copies_memory: bool) -> Result<()> {
    if !copies_memory {
        return Err(copies_no_memory());
    }
    if status != Status::Running {
        return Err(not_forkable(format!("Computer cannot be forked (status: {})", status.name())));
    }
    Ok(())
}

/// Checks whether a computer can be forked from a snapshot.
///
/// # Errors
/// `Invalid` (`NOT_FORKABLE`) when the engine cannot copy memory, or the snapshot has no memory.
pub fn check_launch(holds_memory: bool, copies_memory: bool) -> Result<()> {
    if !copies_memory {
        return Err(copies_no_memory());
    }
    if !holds_memory {
        return Err(not_forkable("This snapshot cannot be forked: it holds no memory"));
    }
    Ok(())
}

/// Returns the error for an engine that cannot copy memory.
pub fn copies_no_memory() -> Error {
    not_forkable(format!("This computer cannot be forked: its engine copies no memory. {MEMORY_SETTINGS}"))
}

/// Returns the error for a source whose memory cannot be copied.
pub fn not_forkable(message: impl Into<String>) -> Error {
    Error::invalid(message).code(ErrorCode::NotForkable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_called_after_its_source_and_no_name_is_too_long() {
        let free = |source: &str, taken: &[&str]| {
            let name = free_name(source, "clone", |folded| taken.contains(&folded)).unwrap();
            assert!(name.as_str().chars().count() <= MAX_CHARACTERS);
            name.as_str().to_owned()
        };
        assert_eq!(free("Desk", &[]), "Desk (clone)");
        assert_eq!(free("Desk", &["desk"]), "Desk (clone)");
        assert_eq!(free("Desk", &["desk (clone)"]), "Desk (clone 2)");
        assert_eq!(free("Desk", &["desk (clone)", "desk (clone 2)", "desk (clone 4)"]), "Desk (clone 3)");
        assert_eq!(free("Desk (clone)", &[]), "Desk (clone) (clone)");
        for (length, kept) in [(247, 247), (248, 247), (255, 247)] {
            let expected = format!("{} (clone)", "語".repeat(kept));
            assert_eq!(free(&"語".repeat(length), &[]), expected, "{length}");
        }
        let full = "a".repeat(255);
        let first = format!("{} (clone)", "a".repeat(247));
        assert_eq!(free(&full, &[&first]), format!("{} (clone 2)", "a".repeat(245)));
        // A space at the end of the shortened name is not doubled.
        let blank = format!("{} {}", "a".repeat(246), "b".repeat(8));
        assert_eq!(free(&blank, &[]), format!("{} (clone)", "a".repeat(246)));
    }

    #[test]
    fn a_running_computer_is_forked_if_memory_can_be_copied() {
        let fork = |name: &str| free_name(name, "fork", |folded| folded == "desk (fork)").unwrap();
        assert_eq!((fork("Desk").as_str(), fork("other").as_str()), ("Desk (fork 2)", "other (fork)"));
        for status in Status::ALL {
            let codes = [true, false].map(|able| check_fork(status, able).err().and_then(|error| error.code));
            let running = if status == Status::Running { None } else { Some(ErrorCode::NotForkable) };
            assert_eq!(codes, [running, Some(ErrorCode::NotForkable)], "{}", status.name());
        }
    }

    #[test]
    fn a_snapshot_with_memory_is_forked_if_the_engine_copies_memory() {
        for (holds, copies, said) in [
            (true, true, None),
            (false, true, Some("it holds no memory")),
            (true, false, Some("its engine copies no memory")),
            (false, false, Some("its engine copies no memory")),
        ] {
            let refused = check_launch(holds, copies).err();
            assert_eq!(refused.as_ref().and_then(|error| error.code), said.map(|_| ErrorCode::NotForkable));
            assert!(refused.is_none_or(|error| said.is_some_and(|said| error.message.contains(said))));
        }
    }

    /// `.` can be cloned, `!` cannot; columns in the order of `Status::ALL`.
    #[test]
    fn the_table_of_clone_sources() {
        // columns: creating starting running stopping stopped restarting deleting error suspending suspended
        for (copy_while_running, row) in [(true, "......!!!!"), (false, "..!...!!!!")] {
            for (status, expected) in Status::ALL.into_iter().zip(row.chars()) {
                let got = match check_source(status, copy_while_running) {
                    Ok(()) => '.',
                    Err(error) => {
                        assert_eq!(error.code, Some(ErrorCode::NotClonable));
                        '!'
                    }
                };
                assert_eq!(got, expected, "{}", status.name());
            }
        }
    }
}
