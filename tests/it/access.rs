//! Is every operation guarded, are secrets kept, and are the edges of HTTP held? (access.md A, threats.md T13, T24)

mod audit;
mod cast;
mod edge;
mod keys;
mod limits;
mod locked;
mod matrix;
mod page;
mod revocation;
