//! Build steps and files of a template.

use std::cell::RefCell;

use hotdesk_domain::computer::template::bounds::{MAX_ENTRIES, MAX_SCRIPT_BYTES, MAX_STEPS};
use hotdesk_domain::computer::template::fault::{Fault, FaultCode};
use hotdesk_domain::computer::template::{name, network, path};
use schemars::JsonSchema;
use serde::Serialize;

use super::choice::choices;
use super::is_default;
use super::reader::{FieldReader, NameKind, ObjectReader};

/// Path of the wallpaper in the guest image: `wallpaper` becomes a file of this path.
const WALLPAPER: &str = "/usr/share/backgrounds/hotdesk.png";

/// Software that is installed, and steps that are run, when the template is built.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildSteps {
    /// Packages of Debian.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub apt: Vec<String>,
    /// Packages of Python.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub pip: Vec<String>,
    /// Packages of Node.js, installed globally.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub npm: Vec<String>,
    /// Shell scripts, which run in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub run: Vec<String>,
}

choices! {
    /// When a file is written.
    #[derive(Default)]
    FileMoment {
        /// When the template is built: the file is in the snapshot.
        #[default]
        Build = "build",
        /// When a computer is launched.
        Runtime = "runtime",
    }
}

/// A file that the template puts into the computer. It has exactly one of `from` and `inline`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateFile {
    /// Path in the computer: absolute or with `~/`, without `..`.
    pub to: String,
    /// Source: a URL (`https://`, `http://`, `git+https://`, `git://`, `s3://`), `secret://NAME`, or for the command line
    /// a path beside the definition file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// Mode in octal digits, such as `"0644"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::schema::mode")]
    pub mode: Option<String>,
    /// Owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// When it is written: `build` by default, `runtime` for a secret.
    #[serde(default, skip_serializing_if = "is_default")]
    pub when: FileMoment,
}

/// Reads `build`.
pub(super) fn read_build(field: &FieldReader<'_>) -> Option<BuildSteps> {
    let package = |field: &FieldReader<'_>| field.interpolated_as(name::package);
    field.object(|object| {
        Some(BuildSteps {
            apt: object.list("apt", MAX_ENTRIES, package),
            pip: object.list("pip", MAX_ENTRIES, package),
            npm: object.list("npm", MAX_ENTRIES, package),
            run: object.list("run", MAX_STEPS, |line| line.interpolated(MAX_SCRIPT_BYTES)),
        })
    })
}

/// Reads `files`, and `wallpaper`, which becomes the last of them.
pub(super) fn read_files(object: &ObjectReader<'_>) -> Vec<TemplateFile> {
    let mut files = object.get("files").map(|field| read_list_or_map(&field)).unwrap_or_default();
    if let Some(field) = object.get("wallpaper") {
        if files.len() >= MAX_ENTRIES {
            let message = format!("would be one file too many: a template has at most {MAX_ENTRIES}");
            field.report(Fault::new(FaultCode::TooLarge, message));
        }
        files.extend(read_wallpaper(&field));
    }
    files
}

/// Reads `files`: a list, or a map of paths to contents, which has no order.
fn read_list_or_map(field: &FieldReader<'_>) -> Vec<TemplateFile> {
    if !field.is_map() {
        return field.list(MAX_ENTRIES, read_file);
    }
    let entries = field.map(
        |key| key.interpolated_as(|to| field.unique(NameKind::File, path::target(to)?)),
        |text| text.content(|_| Ok(())),
    );
    let file = |(to, inline)| TemplateFile { inline: Some(inline), ..TemplateFile::empty(to) };
    let mut files: Vec<TemplateFile> = entries.into_iter().map(file).collect();
    files.sort_by(|a, b| a.to.cmp(&b.to));
    files
}

/// Reads `wallpaper`: the URL of a picture.
fn read_wallpaper(field: &FieldReader<'_>) -> Option<TemplateFile> {
    let from = field.interpolated_as(network::http_url)?;
    let to = field.accept(field.unique(NameKind::File, WALLPAPER.to_owned()))?;
    Some(TemplateFile { from: Some(from), ..TemplateFile::empty(to) })
}

/// What the source of a file means for its other fields.
enum FileContent {
    /// It is written at each boot, because the value is in no layer.
    Secret,
    /// It is cloned by the build alone.
    Repository,
    /// It is downloaded at any moment.
    Url,
    /// It becomes this text.
    Text(String),
}

fn read_file(field: &FieldReader<'_>) -> Option<TemplateFile> {
    field.object(|object| {
        let to =
            object.need("to", |to| to.interpolated_as(|text| to.unique(NameKind::File, path::target(text)?)));
        let (from, kind) = read_source(object);
        let inline = object.read("inline", |inline| inline.content(|_| Ok(())));
        let mode = object.read("mode", |mode| mode.digits(name::mode));
        let owner = object.read("owner", |owner| owner.plain(name::user));
        let group = object.read("group", |group| group.plain(name::user));
        let when = object.read("when", |when| read_moment(when, kind.as_ref()));
        let default = match kind {
            Some(FileContent::Secret) => FileMoment::Runtime,
            Some(FileContent::Repository | FileContent::Url | FileContent::Text(_)) | None => {
                FileMoment::Build
            }
        };
        let (from, inline) = match kind {
            Some(FileContent::Text(text)) => (None, Some(text)),
            Some(FileContent::Secret | FileContent::Repository | FileContent::Url) | None => (from, inline),
        };
        Some(TemplateFile { to: to?, from, inline, mode, owner, group, when: when.unwrap_or(default) })
    })
}

/// Reads the source of a file, and what it means. Reports when the file has no content or two.
fn read_source(object: &ObjectReader<'_>) -> (Option<String>, Option<FileContent>) {
    match (object.get("from").is_some(), object.get("inline").is_some()) {
        (true, false) | (false, true) => {}
        (has_from, _) => {
            let (code, found) =
                if has_from { (FaultCode::Conflict, "both") } else { (FaultCode::Required, "neither") };
            object.itself().report(Fault::new(code, format!("must have from or inline, not {found}")));
        }
    }
    let kind = RefCell::new(None);
    let from = object.read("from", |from| {
        from.interpolated_as(|text| {
            let found = match path::source(text)? {
                path::FileSource::Secret(name) => {
                    from.refer(NameKind::Secret, &name);
                    FileContent::Secret
                }
                path::FileSource::Repository { .. } => FileContent::Repository,
                path::FileSource::Url(_) => FileContent::Url,
                path::FileSource::Beside(path) => FileContent::Text(from.text_beside(path)?),
            };
            *kind.borrow_mut() = Some(found);
            Ok(text.to_owned())
        })
    });
    (from, kind.into_inner())
}

fn read_moment(field: &FieldReader<'_>, content: Option<&FileContent>) -> Option<FileMoment> {
    let moment = field.choice()?;
    match (content, moment) {
        (Some(FileContent::Secret), FileMoment::Build) => {
            let message = "must be runtime for a secret, which would otherwise be in the snapshot";
            field.report(Fault::new(FaultCode::Conflict, message).hint("write runtime, or leave it out"));
        }
        (Some(FileContent::Repository), FileMoment::Runtime) => {
            let message = "must be build for a repository, which is cloned once";
            field.report(Fault::new(FaultCode::Unsupported, message).hint("clone it in a hook"));
        }
        (_, FileMoment::Build | FileMoment::Runtime) => {}
    }
    Some(moment)
}

impl TemplateFile {
    /// A file of a path, without content.
    fn empty(to: String) -> Self {
        Self { to, from: None, inline: None, mode: None, owner: None, group: None, when: FileMoment::Build }
    }
}
