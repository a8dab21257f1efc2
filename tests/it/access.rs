//! Is every operation guarded, are secrets kept, and are the edges of HTTP held? (access.md A, threats.md T13, T24)

mod edge;
mod matrix;
mod secrets;
