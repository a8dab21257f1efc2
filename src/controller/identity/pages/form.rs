//! Fields that the forms of several pages have.

use maud::{Markup, html};

use crate::identity::auth::session::{MIN_PASSWORD, SignedIn};

/// Renders a form field with its label, name, type, value and `autocomplete`.
pub fn field(label: &str, name: &str, kind: &str, value: &str, autocomplete: &str) -> Markup {
    html! {
        label {
            span { (label) }
            input type=(kind) name=(name) value=(value) autocomplete=(autocomplete) required;
        }
    }
}

/// Renders the field of a new password.
pub fn new_password() -> Markup {
    html! {
        label {
            span { "New password (at least " (MIN_PASSWORD) " characters)" }
            input type="password" name="password" minlength=(MIN_PASSWORD) autocomplete="new-password" required;
        }
    }
}

/// Renders the hidden token that every form of a signed-in person carries.
pub fn csrf(who: &SignedIn) -> Markup {
    html! { input type="hidden" name="csrf" value=(who.csrf); }
}
