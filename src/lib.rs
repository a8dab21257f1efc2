//! hotdesk: self-hosted cloud computers for programs and AI agents.
//!
//! Two invariants hold this house together:
//! 1. The controller reaches a guest only through [`guest`], a typed client of the agent's API. The agent never knows
//!    that a controller exists: started by hand on any Xvfb it is useful alone.
//! 2. Only the API layers know HTTP; only [`store`] knows SQL; only `engine/*` knows how a machine is made; only
//!    `agent/display` knows X.
//!
//! A module imports only lower floors (`tests/it/floors.rs` holds it): 7 `cli` and the binary; 6 `controller`;
//! 5 `agent`; 4 `engine`, `store`, `guest`, `objects`; 3 `http`; 2 `wire`; 1 `domain`; 0 `base`. Floors 5 and 6 never import each
//! other, nor do the adapters of floor 4.

pub mod agent;
pub mod base;
pub mod cli;
pub mod controller;
pub mod domain;
pub mod engine;
pub mod guest;
pub mod http;
pub mod objects;
pub mod store;
pub mod wire;
