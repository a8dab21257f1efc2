//! Catalogue: the templates of the service, which are files of `packaging/templates` in the program.
//!
//! For each NAME there is the definition file `NAME.yaml` and a picture of a computer that was launched from it, `NAME.webp`.

use std::sync::LazyLock;

use include_dir::{Dir, include_dir};

use hotdesk_base::ids::AccountId;
use hotdesk_base::step_error::StepError;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::templates::definitions::StoredTemplate;
use hotdesk_wire::template::validate;

static FILES: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../packaging/templates");
/// End of the names of definition files.
const DEFINITION: &str = "yaml";

/// A template of the catalogue.
#[derive(Debug)]
pub struct CatalogueEntry {
    /// Its reference, in the namespace of the service.
    pub reference: TemplateRef,
    digest: String,
    /// The normalised document as JSON.
    document: String,
}

static ENTRIES: LazyLock<std::result::Result<Vec<CatalogueEntry>, StepError>> = LazyLock::new(|| {
    let files = FILES.files().filter(|file| file.path().extension().is_some_and(|end| end == DEFINITION));
    let mut entries = Vec::new();
    for file in files {
        let name = file.path().display();
        let definition = validate(file.contents()).map_err(|errors| {
            let first = errors.first().map(|error| error.sentence()).unwrap_or_default();
            StepError::new(format!("the template {name} of the service is invalid: {first}"))
        })?;
        let document =
            serde_json::to_string(&definition).map_err(|error| StepError::new(format!("{name}: {error}")))?;
        let own = definition.reference();
        entries.push(CatalogueEntry {
            reference: TemplateRef::system(&own.name, &own.version),
            digest: definition.digest(),
            document,
        });
    }
    entries.sort_by(|one, other| one.reference.name.cmp(&other.reference.name));
    Ok(entries)
});

/// Returns all templates, sorted by name.
///
/// # Errors
/// `Internal` when a file of the program is no definition, which a test excludes.
pub fn entries() -> Result<&'static [CatalogueEntry]> {
    ENTRIES.as_deref().map_err(Error::internal)
}

/// Returns the template of this reference.
///
/// # Errors
/// Those of [`entries`].
pub fn find(reference: &TemplateRef) -> Result<Option<&'static CatalogueEntry>> {
    Ok(entries()?.iter().find(|entry| entry.reference == *reference))
}

/// Returns the picture of a template (WebP); `None` when there is none.
pub fn picture(name: &str) -> Option<&'static [u8]> {
    FILES.get_file(format!("{name}.webp")).map(|file| file.contents())
}

impl CatalogueEntry {
    /// Returns the template as one of the operator's account.
    pub fn stored(&self, operator: AccountId) -> StoredTemplate {
        StoredTemplate {
            account: operator,
            reference: self.reference.clone(),
            digest: self.digest.clone(),
            definition: self.document.clone(),
            saved: false,
            created_at: UnixMillis::new(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_domain::computer::template::PLAIN_DESKTOP;

    #[test]
    fn every_file_is_a_valid_template_and_is_named_like_it() {
        let entries = entries().unwrap();
        assert!(entries.iter().any(|entry| entry.reference.to_string() == PLAIN_DESKTOP));
        for entry in entries {
            let name = format!("{}.{DEFINITION}", entry.reference.name);
            let file =
                FILES.get_file(&name).unwrap_or_else(|| panic!("{} is not in {name}", entry.reference));
            let definition = validate(file.contents()).unwrap();
            assert!(definition.template.description.is_some(), "{name} says what it is");
        }
        assert_eq!(find(&TemplateRef::system("none", "1.0.0")).unwrap().map(|entry| &entry.reference), None);
    }

    #[test]
    fn no_file_names_one_architecture_alone() {
        const NAMES: [&[&str]; 2] = [&["amd64", "x86_64", "-x64"], &["arm64", "aarch64"]];
        for file in FILES.files() {
            let Some(text) = file.contents_utf8() else { continue };
            let [intel, arm] = NAMES.map(|names| names.iter().any(|name| text.contains(name)));
            assert_eq!(intel, arm, "{}", file.path().display());
        }
    }
}
