//! Identity: accounts, people, authentication, OAuth, passkeys, sign-in by a provider, secrets, HTML pages.

pub mod accounts;
pub mod auth;
pub mod mail;
pub mod oauth;
pub mod oidc;
pub mod pages;
pub mod passkeys;
pub mod people;
pub mod secrets;
