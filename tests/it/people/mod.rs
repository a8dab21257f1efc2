//! Accounts of people: set-up, passwords, second factors, sessions, sign-in links, members, invitations and device authorization.

mod addresses;
pub mod chromium;
mod device;
mod device_ends;
mod invitations;
mod late;
mod log;
pub mod loss;
mod loss_under_way;
pub mod members;
mod passkeys;
mod passwords;
mod provider;
pub mod second_factors;
mod sessions;
mod set_up;
mod settings;
mod sign_in_links;
mod streams;
