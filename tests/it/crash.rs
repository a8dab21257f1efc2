//! What is left after a controller's death, at whatever moment, and on a full disk? (threats.md T18-T20)

mod adopt;
mod arrival;
mod full;
mod points;
mod remains;
mod repair;
mod rounds;
mod sweep;
mod truth;
