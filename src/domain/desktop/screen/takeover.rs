//! Takeover of a screen: who may take it from whom, while it is held.

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::identity::access::actor::Actor;
use crate::identity::access::{Role, check_role};

/// From whom a taker may take a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeFrom {
    /// From nobody: the screen must be free, or the taker's own.
    Nobody,
    /// From programs: keys, MCP clients, runs of models and the template.
    Programs,
    /// From every holder.
    Anybody,
}

impl TakeFrom {
    /// Returns from whom an actor with this role in the computer's workspace takes a screen by force. A
    /// person goes before programs; only admins and the owner go before people.
    ///
    /// # Errors
    /// `Forbidden` for a viewer, and for a program whose account is no admin.
    pub fn forced(by: Actor, role: Role) -> Result<Self> {
        if role == Role::Member && matches!(by, Actor::Person(_)) {
            return Ok(Self::Programs);
        }
        check_role(role, Role::Admin)?;
        Ok(Self::Anybody)
    }

    /// Whether the screen may be taken from this holder.
    pub fn allows(self, holder: Actor) -> bool {
        let is_program = match holder {
            Actor::Key(_) | Actor::Connection(_) | Actor::Thread(_) | Actor::Template => true,
            // Somebody with the password may be a person.
            Actor::Person(_) | Actor::Password => false,
        };
        match self {
            Self::Nobody => false,
            Self::Programs => is_program,
            Self::Anybody => true,
        }
    }

    /// Returns the error of a forced take for its taker: a holder from whom it may not take the screen is a
    /// matter of permission, and waiting would not help.
    pub fn refusal(self, error: Error) -> Error {
        if self != Self::Programs || error.code != Some(ErrorCode::ControlHeld) {
            return error;
        }
        Error::forbidden(
            "Access denied: a person has the screen, and only an admin or the owner of the workspace may \
             take it from them",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use hotdesk_base::ids::{AccountId, GrantId, KeyId, ThreadId};

    fn actors() -> [Actor; 6] {
        [
            Actor::Person(AccountId::random()),
            Actor::Key(KeyId::random()),
            Actor::Connection(GrantId::random()),
            Actor::Thread(ThreadId::random()),
            Actor::Template,
            Actor::Password,
        ]
    }

    #[test]
    fn people_go_before_programs_and_admins_before_all() {
        let [person, key, connection, thread, template, password] = actors();
        let programs = [key, connection, thread, template];
        for (by, role, expected) in [
            (person, Role::Viewer, None),
            (person, Role::Member, Some(TakeFrom::Programs)),
            (person, Role::Admin, Some(TakeFrom::Anybody)),
            (person, Role::Owner, Some(TakeFrom::Anybody)),
            (key, Role::Viewer, None),
            (key, Role::Member, None),
            (key, Role::Admin, Some(TakeFrom::Anybody)),
            (key, Role::Owner, Some(TakeFrom::Anybody)),
            (connection, Role::Member, None),
            (connection, Role::Admin, Some(TakeFrom::Anybody)),
            (thread, Role::Member, None),
            (template, Role::Member, None),
            (password, Role::Member, None),
        ] {
            let decided = TakeFrom::forced(by, role);
            assert_eq!(decided.as_ref().ok(), expected.as_ref(), "{by} as {role:?}");
            assert!(decided.is_ok() || decided.is_err_and(|error| error.kind == Kind::Forbidden));
        }
        for holder in programs {
            let allowed =
                [TakeFrom::Nobody, TakeFrom::Programs, TakeFrom::Anybody].map(|it| it.allows(holder));
            assert_eq!(allowed, [false, true, true], "{holder}");
        }
        for holder in [person, password] {
            let allowed =
                [TakeFrom::Nobody, TakeFrom::Programs, TakeFrom::Anybody].map(|it| it.allows(holder));
            assert_eq!(allowed, [false, false, true], "{holder}");
        }
    }

    #[test]
    fn a_member_who_meets_a_person_is_told_who_may_take_the_screen() {
        let held = || Error::conflict("held").code(ErrorCode::ControlHeld);
        let refused = TakeFrom::Programs.refusal(held());
        assert_eq!((refused.kind, refused.code, refused.retry_after), (Kind::Forbidden, None, None));
        assert!(refused.message.contains("admin"), "{}", refused.message);
        // Who may take it from everybody is told what happened.
        assert_eq!(TakeFrom::Anybody.refusal(held()).kind, Kind::Conflict);
        assert_eq!(TakeFrom::Programs.refusal(Error::unavailable("down")).kind, Kind::Unavailable);
    }
}
