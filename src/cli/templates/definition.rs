//! Definition files of templates: read and checked on this host.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use crate::failure::Outcome;
use crate::output;
use hotdesk_domain::computer::template::bounds::{MAX_DOCUMENT_BYTES, MAX_SCRIPT_BYTES};
use hotdesk_wire::template::{InvalidTemplate, TemplateError, ValidTemplate, validate};

/// Checks a definition file without a server. The exit code is 1 for an invalid file.
///
/// # Errors
/// When the file cannot be read, or the result cannot be printed.
pub fn check(file: &Path, json: bool) -> Outcome {
    let document = with_files(file, read(file)?)?;
    match validate(&document) {
        Ok(definition) => {
            let answer = ValidTemplate::from(definition);
            let text = if json {
                serde_json::json!(answer).to_string()
            } else {
                format!("{} is valid: {} {}", file.display(), answer.reference, answer.digest)
            };
            output::line(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(errors) if json => {
            output::line(&serde_json::json!(InvalidTemplate::from(errors)).to_string())?;
            Ok(ExitCode::FAILURE)
        }
        Err(errors) => {
            report(file, &errors);
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Prints each error as a line FILE:LINE:COLUMN: FIELD: MESSAGE (HINT).
pub fn report(file: &Path, errors: &[TemplateError]) {
    for error in errors {
        eprintln!("{}:{}:{}: {}", file.display(), error.line, error.column, error.sentence());
    }
}

/// Puts the files beside a definition file into it, as `inline`. A document that has none, or is not valid, stays as it is.
///
/// # Errors
/// When such a file cannot be read, is no text, is too long, or is not in the folder of the definition file.
pub fn with_files(file: &Path, document: Vec<u8>) -> Outcome<Vec<u8>> {
    let Ok(mut definition) = validate(&document) else { return Ok(document) };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut has_files = false;
    for at in 0..definition.files.len() {
        let Some(from) = &definition.files[at].from else { continue };
        let expanded = definition.values().and_then(|values| values.expand(from));
        let from = expanded.map_err(|error| error.message)?;
        let path = from.strip_prefix("file://").unwrap_or(&from);
        if path.contains("://") {
            continue;
        }
        has_files = true;
        let text = read_text(folder, path).map_err(|why| format!("files[{at}].from: {path} {why}"))?;
        let entry = &mut definition.files[at];
        // What looks like a reference is content of the file.
        (entry.from, entry.inline) = (None, Some(text.replace("${", "$${")));
    }
    if !has_files {
        return Ok(document);
    }
    Ok(serde_json::to_vec(&definition).map_err(|error| error.to_string())?)
}

/// Reads a file that becomes a text of a definition. Returns why it cannot. The definition may be somebody else's: it must not publish
/// a file from elsewhere on this host through a symbolic link.
fn read_text(folder: &Path, path: &str) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let folder = folder.canonicalize().map_err(unreadable)?;
    let path = folder.join(path).canonicalize().map_err(unreadable)?;
    if !path.starts_with(&folder) {
        return Err("leads out of the folder of the definition file: copy the file into it".to_owned());
    }
    if !path.is_file() {
        return Err("is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let open =
        File::open(path).and_then(|open| open.take(MAX_SCRIPT_BYTES as u64 + 1).read_to_end(&mut bytes));
    open.map_err(unreadable)?;
    if bytes.len() > MAX_SCRIPT_BYTES {
        return Err(format!(
            "has more than {MAX_SCRIPT_BYTES} bytes: write a URL, from which the build downloads it"
        ));
    }
    let text = String::from_utf8(bytes).ok();
    let text = text.filter(|text| !text.chars().any(|c| c.is_control() && !['\t', '\n', '\r'].contains(&c)));
    text.ok_or_else(|| {
        "is no text, and a definition file has only texts: write a URL, from which the build downloads it"
            .to_owned()
    })
}

/// Reads a file or standard input, up to one byte more than a document has, which the validation refuses.
///
/// # Errors
/// When it cannot be read.
pub fn read(file: &Path) -> Outcome<Vec<u8>> {
    let mut document = Vec::new();
    let limit = MAX_DOCUMENT_BYTES as u64 + 1;
    let done = if file == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut document)
    } else {
        File::open(file).and_then(|open| open.take(limit).read_to_end(&mut document))
    };
    done.map_err(|error| format!("cannot read the template {}: {error}", file.display()))?;
    Ok(document)
}
