//! The contract between the controller and engines: the trait, its data, its errors, and settings of every engine.

pub mod error;
pub mod settings;
pub mod traits;
pub mod types;
