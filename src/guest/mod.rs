//! Floor module.
