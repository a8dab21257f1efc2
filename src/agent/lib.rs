//! In-guest agent of hotdesk: one process in a computer that owns its screens, runs its commands and moves its files.
//!
//! Every request shows the agent's token; see `docs/security.md`.
//!
//! A module uses only modules below it:
//! ```text
//! server                             set-up, start and stop
//! routes                             HTTP handlers
//! selftest   system                  self-test; process 1, kernel, identity and SSH
//! state                              what the handlers share: token, journal, activity
//! actions   programs                 what requests do on a screen
//! media   exec   elements   events   sound and video, commands, accessibility elements, desktop events
//! display   files                    X; files
//! ```

pub mod actions;
pub mod display;
pub mod elements;
pub mod events;
pub mod exec;
pub mod files;
pub mod media;
pub mod programs;
pub mod routes;
pub mod selftest;
pub mod server;
pub mod state;
pub mod system;
