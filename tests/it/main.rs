//! The integration tests: a real controller and real agents, booted on port 0 in a temporary folder.

mod access;
mod actions;
mod agent;
mod channels;
mod cli;
mod clients;
mod computers;
mod crash;
mod display;
mod elements;
mod engines;
mod execution;
mod files;
mod floors;
mod guest_files;
mod harness;
mod hostile;
mod lifecycle;
mod openapi;
mod proxy;
mod schemathesis;
mod screens;
mod vnc;
mod windows;
mod workspaces;
