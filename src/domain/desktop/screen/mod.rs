//! Rules about a screen: who controls it and takes it over, and the timeline of the actions on it.

pub mod control;
pub mod takeover;
pub mod timeline;
