//! Templates: references to them, and the rules of single values of a definition file (docs/templates.md).

pub mod bounds;
pub mod build;
pub mod fault;
pub mod hardware;
pub mod health;
pub mod hook;
pub mod interpolation;
pub mod name;
pub mod network;
pub mod path;
pub mod reference;
pub mod saving;
pub mod timing;
pub mod trigger;

pub use reference::{PLAIN_DESKTOP, TemplateRef, requested_template};
