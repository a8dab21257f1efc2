//! Choice of the account that a person at the operator's OpenID Connect provider signs in to (docs/operating.md).
//!
//! The provider's id of the person decides. An address only connects an account that nobody can sign in to in
//! another way: addresses are given to other people, and an account with a password belongs to the person who knows it.

use hotdesk_base::ids::AccountId;

/// Account whose address the provider has verified as the person's.
#[derive(Clone, Copy, Debug)]
pub struct AddressMatch {
    /// The account.
    pub account: AccountId,
    /// Whether it is a person's account, and not an agent's.
    pub is_person: bool,
    /// Whether it is the operator's account.
    pub is_operator: bool,
    /// Whether it has a password or a passkey, or is connected with a person at a provider.
    pub has_sign_in: bool,
}

/// Claims of the provider about the person's address.
#[derive(Clone, Copy, Debug)]
pub enum ProviderAddress {
    /// None, or one that it has not verified.
    Unverified,
    /// A verified one, which no account has.
    NoAccount,
    /// A verified one of an account.
    Account(AddressMatch),
}

/// Effect of a sign-in by the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderDecision {
    /// The person signs in to an account that is connected already.
    SignIn(AccountId),
    /// The account and the person are connected; the browser is signed in to the account by then.
    Connect(AccountId),
    /// The account has no other sign-in: it and the person are connected, and the person signs in.
    ConnectAndSignIn(AccountId),
    /// Nobody signs in.
    Refuse(ProviderRefusal),
}

/// Why nobody signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderRefusal {
    /// The person is connected with another account than the one that wants to be connected.
    OfAnotherAccount,
    /// No verified address finds an account.
    Unverified,
    /// No account has the address.
    NoAccount,
    /// The account of the address has another sign-in.
    HasSignIn,
}

impl ProviderRefusal {
    /// Returns what the person reads: why, and what to do.
    pub fn message(self) -> &'static str {
        match self {
            Self::OfAnotherAccount => {
                "This person at the provider signs in to another account here already. Disconnect it there first."
            }
            Self::Unverified => {
                "The provider does not say that your e-mail address is verified. Verify it there, or connect the \
                 provider in the settings of your account."
            }
            Self::NoAccount => {
                "No account here has your e-mail address. Ask the operator for one, or a workspace's admin for an \
                 invitation."
            }
            Self::HasSignIn => {
                "The account with your e-mail address has another sign-in. Sign in that way, then connect the \
                 provider in the settings under Sign-in."
            }
        }
    }
}

/// Decides about a sign-in. `known` is the account that the person is connected with. `connecting` is the account
/// that asked for a connection, from its settings and in this browser. `address` matters only to an unknown person.
pub fn decide(
    known: Option<AccountId>,
    connecting: Option<AccountId>,
    address: ProviderAddress,
) -> ProviderDecision {
    match (known, connecting, address) {
        (Some(known), Some(connecting), _) if known != connecting => {
            ProviderDecision::Refuse(ProviderRefusal::OfAnotherAccount)
        }
        (Some(known), ..) => ProviderDecision::SignIn(known),
        (None, Some(connecting), _) => ProviderDecision::Connect(connecting),
        (None, None, ProviderAddress::Unverified) => ProviderDecision::Refuse(ProviderRefusal::Unverified),
        (None, None, ProviderAddress::NoAccount) => ProviderDecision::Refuse(ProviderRefusal::NoAccount),
        (None, None, ProviderAddress::Account(found)) => {
            // The operator's first address is a label that anybody may have elsewhere.
            if found.is_person && !found.is_operator && !found.has_sign_in {
                ProviderDecision::ConnectAndSignIn(found.account)
            } else {
                ProviderDecision::Refuse(ProviderRefusal::HasSignIn)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a85_the_provider_s_id_decides_and_an_address_takes_over_nothing() {
        let (ada, eve) = (AccountId::random(), AccountId::random());
        let of = |is_person, is_operator, has_sign_in| {
            ProviderAddress::Account(AddressMatch { account: ada, is_person, is_operator, has_sign_in })
        };
        let (free, none, unverified) =
            (of(true, false, false), ProviderAddress::NoAccount, ProviderAddress::Unverified);
        let refuse = ProviderDecision::Refuse;
        for (known, connecting, address, decision) in [
            (Some(ada), None, unverified, ProviderDecision::SignIn(ada)),
            // Another account has the address by now: the id decides.
            (Some(eve), None, free, ProviderDecision::SignIn(eve)),
            (Some(ada), Some(ada), unverified, ProviderDecision::SignIn(ada)),
            (Some(ada), Some(eve), unverified, refuse(ProviderRefusal::OfAnotherAccount)),
            (None, Some(ada), unverified, ProviderDecision::Connect(ada)),
            (None, Some(eve), free, ProviderDecision::Connect(eve)),
            (None, None, unverified, refuse(ProviderRefusal::Unverified)),
            (None, None, none, refuse(ProviderRefusal::NoAccount)),
            (None, None, free, ProviderDecision::ConnectAndSignIn(ada)),
            (None, None, of(true, false, true), refuse(ProviderRefusal::HasSignIn)),
            (None, None, of(true, true, false), refuse(ProviderRefusal::HasSignIn)),
            (None, None, of(false, false, false), refuse(ProviderRefusal::HasSignIn)),
        ] {
            assert_eq!(decide(known, connecting, address), decision, "{known:?} {connecting:?} {address:?}");
        }
    }
}
