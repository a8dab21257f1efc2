//! Names of templates as people type them.

use crate::client::Session;
use crate::client::api::REQUEST_TIMEOUT;
use crate::failure::{Failure, Outcome};
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::computer::template::reference::OWN;
use hotdesk_wire::computer::template::TemplateList;

/// Parses a reference. A name without a namespace is the account's own template.
///
/// # Errors
/// When the text is no reference.
pub fn reference(template: &str) -> Outcome<TemplateRef> {
    TemplateRef::parse(&with_namespace(template)).ok_or_else(|| wrong(template))
}

fn wrong(template: &str) -> Failure {
    format!("{template} is no template: write NAME@VERSION, such as browser-lab@1.0.0").into()
}

/// Returns the whole reference that a text means. A name without a namespace is the account's own template, and one without a
/// version is the version that was published last.
///
/// # Errors
/// When the text is no name of a template, or without a version there is no such template.
pub async fn named(session: &Session, template: &str) -> Outcome<String> {
    if template.contains('@') {
        return reference(template).map(|it| it.to_string());
    }
    // Any version, to check the name.
    let any = TemplateRef::parse(&with_namespace(&format!("{template}@1.0.0")));
    let any = any.ok_or_else(|| wrong(template))?;
    let path = ["templates", &any.namespace, &any.name];
    let versions: TemplateList = session.api.get(&path, &[], REQUEST_TIMEOUT).await?.decode()?;
    let newest = versions.templates.into_iter().next_back();
    newest.map(|it| it.reference).ok_or_else(|| format!("there is no template {template}").into())
}

fn with_namespace(template: &str) -> String {
    if template.contains('/') { template.to_owned() } else { format!("{OWN}/{template}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_may_leave_out_the_namespace() {
        let whole = |text: &str| reference(text).ok().map(|it| it.to_string());
        assert_eq!(whole("lab@1.0.0").as_deref(), Some("default/lab@1.0.0"));
        assert_eq!(whole("system/desktop@1.0.0").as_deref(), Some("system/desktop@1.0.0"));
        for text in ["lab", "a/b/c@1", "", "@1.0.0", "/lab@1.0.0"] {
            assert_eq!(whole(text), None, "{text:?}");
        }
    }
}
