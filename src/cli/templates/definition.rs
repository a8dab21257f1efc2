//! Definition files of templates: read and checked on this host.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use crate::failure::Outcome;
use crate::output;
use hotdesk_domain::computer::template::bounds::MAX_DOCUMENT_BYTES;
use hotdesk_wire::template::{InvalidTemplate, TemplateError, ValidTemplate, validate};

/// Checks a definition file without a server. The exit code is 1 for an invalid file.
///
/// # Errors
/// When the file cannot be read, or the result cannot be printed.
pub fn check(file: &Path, json: bool) -> Outcome {
    let document = read(file)?;
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
