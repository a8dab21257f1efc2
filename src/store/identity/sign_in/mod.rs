//! Tables of the sign-in of people: browser sessions, links that begin one, second factors,
//! and persons at a provider, and passkeys.

pub mod links;
pub mod passkeys;
pub mod provider_identities;
pub mod second_factors;
pub mod sessions;
