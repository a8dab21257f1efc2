//! Does the house stand when a computer lies or a host fails? (threats.md T4, T18)

mod attack;
mod faults;
mod flood;
mod lies;
