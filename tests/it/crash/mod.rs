//! State after the controller's death at any moment and on a full disk (T18-T20, docs/security.md).

mod adopt;
mod arrival;
mod builds;
mod claims;
mod dead_machine;
mod full;
mod points;
pub mod remains;
pub mod repair;
mod rounds;
mod sweep;
