//! Event channel: subscriptions, delivery, loss and isolation (docs/api/events.md).

mod conversation;
mod hub;
mod loss;
mod python;
pub mod source;
mod through;
mod watch;
pub mod watch_audio;
mod watch_clipboard;
mod watch_figures;
mod watch_files;
mod watch_idle;
mod watch_processes;
mod watch_through;
mod watch_windows;
