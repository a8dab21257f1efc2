//! Accessibility elements of a real GTK program on a real screen.

mod stage;

mod acting;
mod guests;
mod listing;
mod marked;
