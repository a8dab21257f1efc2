//! The floors of hotdesk under one name, for the binary, the integration tests and the benchmarks.
//!
//! Two invariants hold this house together:
//! 1. The controller reaches a guest only through [`guest`], a typed client of the agent's API. The agent never knows that a
//!    controller exists: started by hand on any Xvfb it is useful alone.
//! 2. Only the API layers know HTTP; only [`store`] knows SQL; only `engine/*` knows how a machine is made; only
//!    `agent/display` knows X.
//!
//! Each floor is a crate of the workspace and depends only on lower floors: 7 `cli` and the binary; 6 `controller`;
//! 5 `agent`; 4 `engine`, `store`, `guest`, `objects`; 3 `http`; 2 `wire`; 1 `domain`; 0 `base`.

pub use hotdesk_agent as agent;
pub use hotdesk_base as base;
pub use hotdesk_cli as cli;
pub use hotdesk_controller as controller;
pub use hotdesk_domain as domain;
pub use hotdesk_engine as engine;
pub use hotdesk_guest as guest;
pub use hotdesk_http as http;
pub use hotdesk_objects as objects;
pub use hotdesk_store as store;
pub use hotdesk_wire as wire;
