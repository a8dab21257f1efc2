//! Work of a runner for the template that its computer was launched from.

pub(in crate::computers) mod requests;
mod start;
