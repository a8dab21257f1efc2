//! Commands that run on the host itself: the controller, accounts and diagnosis.

pub mod add_host;
pub mod admin;
pub mod agent;
mod allocator;
pub mod doctor;
pub mod host;
pub mod image;
mod privileges;
pub mod repair;
pub mod secrets;
pub mod serve;
pub mod settings;
pub mod store;
pub mod up;
