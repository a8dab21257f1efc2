//! Floor 5: the in-guest face. Everything that a computer does for the API, on the computer itself.

pub mod display;
pub mod routes;
