//! The integration tests: a real controller and real agents, booted on port 0 in a temporary folder.

mod access;
mod agent;
mod cli;
mod clients;
mod crash;
mod engines;
mod floors;
mod harness;
mod hostile;
mod openapi;
mod workspaces;
