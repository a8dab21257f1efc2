//! Who belongs to whose workspace? What the API and the console's pages ask alike.

pub mod invitations;
pub mod members;
pub mod streams;
pub mod workspaces;
