//! Accounts of people: set-up, passwords, members, invitations and device authorization.

mod chromium;
mod device;
mod device_ends;
mod invitations;
mod late;
mod log;
pub mod loss;
mod loss_under_way;
mod members;
mod passwords;
mod set_up;
mod settings;
mod streams;
