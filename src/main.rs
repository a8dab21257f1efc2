//! The composition root: arguments in, exit code out.

fn main() {}
