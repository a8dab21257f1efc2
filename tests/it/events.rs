//! Do events reach those who subscribed, and nobody else? (interface.md "Events")

mod conversation;
mod hub;
mod python;
mod source;
