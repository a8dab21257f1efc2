//! Identity: accounts, people, authentication, OAuth and their HTML pages.

pub mod accounts;
pub mod auth;
pub mod mail;
pub mod oauth;
pub mod pages;
pub mod people;
