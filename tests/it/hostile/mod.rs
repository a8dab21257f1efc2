//! Tests of hostile computers and failing hosts: T4, T18 (docs/security.md).

mod attack;
mod faults;
mod flood;
mod lies;
mod pictures;
mod sign_in;
mod unread;
