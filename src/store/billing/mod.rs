//! Tables of plans, payments, running time and spend.

pub mod payments;
pub mod plans;
pub(crate) mod quota;
pub mod runs;
pub mod spend;
pub mod usage;
