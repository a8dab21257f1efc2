//! Members, invitations and workspaces: what the API and the HTML pages share.

pub mod invitations;
pub mod members;
pub mod operator;
pub mod second_factors;
pub mod sign_in_links;
pub mod workspaces;
