//! Identity: accounts, people, authentication, the console's tokens, OAuth, passkeys, sign-in by a provider,
//! secrets, HTML pages.

pub mod accounts;
pub mod auth;
pub mod console_tokens;
pub mod mail;
pub mod oauth;
pub mod oidc;
pub mod pages;
pub mod passkeys;
pub mod people;
pub mod secrets;
