//! Tables of the sign-in of people: browser sessions, links that begin one, and second factors.

pub mod links;
pub mod second_factors;
pub mod sessions;
