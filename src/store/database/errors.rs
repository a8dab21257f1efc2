//! Kinds of database errors, from the texts of SQLite and the codes of PostgreSQL.

use sqlx::postgres::PgDatabaseError;

/// Kind of a database error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// A later try may succeed.
    Temporary,
    /// A disk is full.
    DiskFull,
    /// A text contains a character that PostgreSQL cannot store: NUL.
    Unstorable,
    /// A defect, or another program's change.
    Defect,
}

/// Returns the kind of an error.
pub(crate) fn classify(error: &sqlx::Error) -> FailureKind {
    if let sqlx::Error::Database(inner) = error {
        return match inner.try_downcast_ref::<PgDatabaseError>() {
            Some(error) => of_state(error.code()),
            None => of_message(inner.message()),
        };
    }
    let is_temporary = matches!(
        error,
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Io(_) | sqlx::Error::Tls(_)
    );
    if is_temporary { FailureKind::Temporary } else { FailureKind::Defect }
}

/// Whether a write failed because it violates a UNIQUE constraint. On PostgreSQL the transaction ends with it: callers
/// return at once.
pub(crate) fn is_duplicate(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(inner) if inner.is_unique_violation())
}

/// Kind of an error with this SQLSTATE (PostgreSQL manual, appendix A).
fn of_state(state: &str) -> FailureKind {
    match state {
        "53100" => FailureKind::DiskFull,
        "22021" => FailureKind::Unstorable,
        // Serialization failure, deadlock, lock timeout, read-only server: another one has taken over.
        "40001" | "40P01" | "55P03" | "25006" => FailureKind::Temporary,
        // Connections, resources, and an operator who stops the server or a query.
        state if ["08", "53", "57", "58"].iter().any(|class| state.starts_with(class)) => {
            FailureKind::Temporary
        }
        _ => FailureKind::Defect,
    }
}

/// Kind of an error with this text of SQLite.
fn of_message(message: &str) -> FailureKind {
    let temporary = [
        "database is locked",
        "locking protocol",
        "disk I/O error",
        "unable to open database file",
        "readonly database",
    ];
    if message.contains("disk is full") {
        FailureKind::DiskFull
    } else if temporary.iter().any(|known| message.contains(known)) {
        FailureKind::Temporary
    } else {
        FailureKind::Defect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_texts_have_their_kinds() {
        for (state, kind) in [
            ("08006", FailureKind::Temporary),
            ("53300", FailureKind::Temporary),
            ("53100", FailureKind::DiskFull),
            ("57P01", FailureKind::Temporary),
            ("40P01", FailureKind::Temporary),
            ("55P03", FailureKind::Temporary),
            ("22021", FailureKind::Unstorable),
            ("23505", FailureKind::Defect),
            ("42601", FailureKind::Defect),
            ("28P01", FailureKind::Defect),
        ] {
            assert_eq!(of_state(state), kind, "{state}");
        }
        assert_eq!(of_message("database or disk is full"), FailureKind::DiskFull);
        assert_eq!(of_message("database is locked"), FailureKind::Temporary);
        assert_eq!(of_message("no such table: x"), FailureKind::Defect);
        assert_eq!(classify(&sqlx::Error::PoolTimedOut), FailureKind::Temporary);
        assert_eq!(classify(&sqlx::Error::RowNotFound), FailureKind::Defect);
    }
}
