//! Copies of computers: clones, and forks with memory.

mod clone;
pub(in crate::computers) mod fork;
