//! Are elements what programs show, and do they do what is asked? With a real GTK program on a real screen.

mod stage;

mod acting;
mod guests;
mod listing;
mod marked;
