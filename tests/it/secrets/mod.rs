//! Secrets in the source tree, and in everything that a controller writes and shows: A3, A5, A20
//! (docs/authentication-rules.md), T24 (docs/security.md).

mod canary;
mod computers;
mod look;
mod machine;
mod older;
mod people;
mod programs;
mod rotation;
mod scan;
mod sealed;

pub use look::Canaries;
