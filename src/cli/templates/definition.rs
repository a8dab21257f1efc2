//! Definition files of templates: read and checked on this host.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use crate::failure::Outcome;
use crate::output;
use hotdesk_domain::computer::template::bounds::{MAX_DOCUMENT_BYTES, MAX_SCRIPT_BYTES};
use hotdesk_domain::computer::template::fault::{Fault, RuleResult};
use hotdesk_domain::computer::template::path::{BY_URL, too_large};
use hotdesk_wire::template::{
    InvalidTemplate, TemplateDefinition, TemplateError, ValidTemplate, validate, validate_with_files,
};

/// Checks a definition file without a server. The exit code is 1 for an invalid file.
///
/// # Errors
/// When the file cannot be read, or the result cannot be printed.
pub fn check(file: &Path, json: bool) -> Outcome {
    match load(file)? {
        Ok((definition, _)) => {
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

/// A valid definition, and its document as a server reads it.
pub type LoadedDefinition = (TemplateDefinition, Vec<u8>);

/// Reads and checks a definition file with the texts beside it. Where it names such texts, the document has them as `inline`;
/// else it is as it is written.
///
/// # Errors
/// When the definition file cannot be read. The inner result has the errors of its content.
pub fn load(file: &Path) -> Outcome<Result<LoadedDefinition, Vec<TemplateError>>> {
    let document = read(file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.to_owned();
    let files = Box::new(move |path: &str| read_text(&folder, path));
    let definition = match validate_with_files(&document, files) {
        Ok(definition) => definition,
        Err(errors) => return Ok(Err(errors)),
    };
    if validate(&document).is_ok() {
        return Ok(Ok((definition, document)));
    }
    let document = serde_json::to_vec(&definition).map_err(|error| error.to_string())?;
    Ok(Ok((definition, document)))
}

/// Reads a file that becomes a text of a definition. Returns why it cannot. The definition may be somebody else's: it must not publish
/// a file from elsewhere on this host through a symbolic link.
fn read_text(folder: &Path, path: &str) -> RuleResult<String> {
    let refused = |why: &str| Fault::invalid(format!("names {path}, which {why}"));
    let unreadable = |error: std::io::Error| refused(&format!("cannot be read: {error}"));
    let folder = folder.canonicalize().map_err(unreadable)?;
    let place = folder.join(path).canonicalize().map_err(unreadable)?;
    if !place.starts_with(&folder) {
        let fault = refused("leads out of the folder of the definition file");
        return Err(fault.hint("copy the file into the folder"));
    }
    if !place.is_file() {
        return Err(refused("is no regular file"));
    }
    let mut bytes = Vec::new();
    let open =
        File::open(place).and_then(|open| open.take(MAX_SCRIPT_BYTES as u64 + 1).read_to_end(&mut bytes));
    open.map_err(unreadable)?;
    if bytes.len() > MAX_SCRIPT_BYTES {
        return Err(too_large(path));
    }
    let text = String::from_utf8(bytes).ok();
    let text = text.filter(|text| !text.chars().any(|c| c.is_control() && !['\t', '\n', '\r'].contains(&c)));
    text.ok_or_else(|| refused("is no text, and a definition file has only texts").hint(BY_URL))
}

/// Reads a file or standard input, up to one byte more than a document has, which the validation refuses.
///
/// # Errors
/// When it cannot be read.
fn read(file: &Path) -> Outcome<Vec<u8>> {
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
