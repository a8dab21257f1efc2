//! Changes of a machine, which may run: its hardware, and its egress policy.

pub(super) mod egress;
pub(super) mod resize;
