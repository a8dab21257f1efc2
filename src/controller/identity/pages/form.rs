//! Fields and times that several pages show.

use maud::{Markup, html};

use crate::identity::auth::session::{MIN_PASSWORD, SignedIn};
use hotdesk_base::time::UnixMillis;

/// Renders a form field with its label, name, type, value and `autocomplete`.
pub fn field(label: &str, name: &str, kind: &str, value: &str, autocomplete: &str) -> Markup {
    html! {
        label.field {
            span { (label) }
            input type=(kind) name=(name) value=(value) autocomplete=(autocomplete) required;
        }
    }
}

/// Renders the field of a new password.
pub fn new_password() -> Markup {
    html! {
        label.field {
            span { "New password (at least " (MIN_PASSWORD) " characters)" }
            input type="password" name="password" minlength=(MIN_PASSWORD) autocomplete="new-password" required;
        }
    }
}

/// Renders the hidden token that every form of a signed-in person carries.
pub fn csrf(who: &SignedIn) -> Markup {
    html! { input type="hidden" name="csrf" value=(who.csrf); }
}

/// Renders a time to the minute: `2026-11-22 04:05 UTC`.
pub fn moment(time: UnixMillis) -> Markup {
    let stamp = time.iso8601();
    let (day, time) = stamp.split_once('T').unwrap_or_default();
    html! { time datetime=(stamp) { (day) " " (time.get(..5).unwrap_or_default()) " UTC" } }
}
