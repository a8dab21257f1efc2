//! Confirmation by the operator that a host is gone, after which its computers may begin from their replicas.

use super::outage::HostState;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Checks a confirmation that a host is gone. `state` is what the cluster says now; `None` where it has no such host. One that
/// was removed can be gone, as long as a computer can begin from its replica.
///
/// # Errors
/// `NotFound` for an unknown host; `Invalid` when `confirm` is not its name; `Conflict` (`host_not_offline`) while the cluster
/// has not given it up: its computers would run twice.
pub fn check_gone(name: &str, confirm: &str, state: Option<HostState>) -> Result<()> {
    let state = state.ok_or_else(|| Error::not_found(format!("There is no host {name:?}")))?;
    if confirm != name {
        return Err(Error::invalid(format!(
            "confirm must be the name of the host, {name:?}: its computers may begin elsewhere afterwards"
        )));
    }
    match state {
        HostState::Offline | HostState::Removed => Ok(()),
        HostState::Online => {
            Err(not_offline(format!("Host {name} answers; only a host that is offline can be gone")))
        }
        HostState::Silent => Err(not_offline(format!(
            "Host {name} does not answer, but its cluster does not count it as offline yet; retry in a minute"
        ))),
    }
}

fn not_offline(message: String) -> Error {
    Error::conflict(message).code(ErrorCode::HostNotOffline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn only_an_offline_host_can_be_confirmed_by_its_name() {
        for (confirm, state, expected) in [
            ("m2", Some(HostState::Offline), None),
            ("m2", Some(HostState::Removed), None),
            ("m2", Some(HostState::Silent), Some(Kind::Conflict)),
            ("m2", Some(HostState::Online), Some(Kind::Conflict)),
            ("m3", Some(HostState::Offline), Some(Kind::Invalid)),
            ("", Some(HostState::Offline), Some(Kind::Invalid)),
            ("m2", None, Some(Kind::NotFound)),
        ] {
            let checked = check_gone("m2", confirm, state);
            assert_eq!(checked.err().map(|error| error.kind), expected, "{confirm} {state:?}");
        }
    }
}
