//! The integration tests: a real controller and real agents, booted on port 0 in a temporary folder.

mod agent;
mod cli;
mod clients;
mod display;
mod engines;
mod floors;
mod harness;
mod workspaces;
