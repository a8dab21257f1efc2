//! `hotdesk screenshot`: image of the screen of a computer.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::{Failure, Outcome};
use crate::output;

/// `hotdesk screenshot`.
#[derive(Debug, Args)]
pub struct Options {
    /// Computer: id, instance id or name.
    computer: String,
    /// Output file; `-` is standard output. Default: a file named by the local time.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Screen id; default: the boot screen.
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
    /// Image format; default: by the file extension, else png.
    #[arg(long)]
    format: Option<Format>,
    /// Scale factor for width and height, above 0 and at most 1.
    #[arg(long)]
    scale: Option<f64>,
}

/// Image format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Png,
    Jpeg,
}

impl Format {
    fn from_extension(file: &Path) -> Option<Self> {
        match file.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "png" => Some(Self::Png),
            "jpg" | "jpeg" => Some(Self::Jpeg),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
        }
    }
}

/// Takes a screenshot and writes it.
///
/// # Errors
/// When the options conflict, the server refuses the request or is unreachable, or the file cannot be written.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    let file = options.output.as_deref().filter(|file| *file != Path::new("-"));
    let to_stdout = options.output.is_some() && file.is_none();
    if session.json && options.output.is_some() {
        let text = "--json prints the image as base64 and cannot be combined with --output: drop one of them";
        return Err(Failure::Usage(text.to_owned()));
    }
    if to_stdout && std::io::stdout().is_terminal() {
        return Err(Failure::Usage(
            "standard output is a terminal and cannot show an image: use --output FILE".to_owned(),
        ));
    }
    let format = options.format.or_else(|| file.and_then(Format::from_extension)).unwrap_or(Format::Png);
    let id = resolve::computer(&session.api, &options.computer).await?;
    let scale = options.scale.map(|scale| scale.to_string());
    let mut query = vec![("format", format.name())];
    query.push(("response_format", if session.json { "base64" } else { "binary" }));
    query.extend(options.screen.as_deref().map(|screen| ("screen", screen)));
    query.extend(scale.as_deref().map(|scale| ("scale", scale)));
    let response = session.api.get(&["computers", &id, "screenshot"], &query, REQUEST_TIMEOUT).await?;
    session.show(&response, || {
        if to_stdout {
            return output::bytes(response.body());
        }
        let file = options.output.clone().unwrap_or_else(|| default_file(format));
        std::fs::write(&file, response.body())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        output::line(&format!("{} ({} bytes)", file.display(), response.body().len()))
    })
}

fn default_file(format: Format) -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
    let extension = if format == Format::Jpeg { "jpg" } else { "png" };
    PathBuf::from(format!("hotdesk-{now}.{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_extension_selects_the_format() {
        for (file, expected) in [
            ("a.png", Some(Format::Png)),
            ("a.b/c.JPG", Some(Format::Jpeg)),
            ("a.jpeg", Some(Format::Jpeg)),
            ("a.gif", None),
            ("png", None),
        ] {
            assert_eq!(Format::from_extension(Path::new(file)), expected, "{file}");
        }
    }
}
