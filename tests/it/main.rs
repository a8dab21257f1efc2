//! The integration tests: a real controller and real agents, booted on port 0 in a temporary folder.

mod display;
mod floors;
