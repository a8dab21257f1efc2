//! The crates of hotdesk under one name, for the binary, the integration tests and the benchmarks.
//!
//! ARCHITECTURE.md has their floors ("Floors") and the rules that hold between them ("Invariants").

pub use hotdesk_agent as agent;
pub use hotdesk_base as base;
pub use hotdesk_cli as cli;
pub use hotdesk_controller as controller;
pub use hotdesk_domain as domain;
pub use hotdesk_engine as engine;
pub use hotdesk_guest as guest;
pub use hotdesk_http as http;
pub use hotdesk_model as model;
pub use hotdesk_objects as objects;
pub use hotdesk_pictures as pictures;
pub use hotdesk_store as store;
pub use hotdesk_wire as wire;
