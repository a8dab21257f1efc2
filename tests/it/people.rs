//! Are exactly the right people let in? Set-up, passwords, members, invitations, and programs that a person approves.

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
