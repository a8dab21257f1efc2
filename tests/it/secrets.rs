//! Are secrets where they must be and nowhere else: in the tree, in what a controller writes, and in what it shows?
//! (access.md A3, A5, A20; threats.md T24)

mod canary;
mod look;
mod machine;
mod people;
mod programs;
mod scan;
