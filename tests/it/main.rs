//! The integration tests: a real controller and real agents, booted on port 0 in a temporary folder.

mod actions;
mod agent;
mod cli;
mod clients;
mod computers;
mod display;
mod engines;
mod files;
mod floors;
mod harness;
mod lifecycle;
mod proxy;
mod screens;
mod workspaces;
