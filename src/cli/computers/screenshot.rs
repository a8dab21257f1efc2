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
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    /// Output file; `-` is standard output. Default: a file named by the local time.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Screen id; default: the boot screen.
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
    /// Image format; default: by the extension of the output file, else png.
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
    Webp,
}

impl Format {
    /// Returns the format that the extension of a file names; PNG without an extension.
    ///
    /// # Errors
    /// `Usage` when the extension names no image format of the service.
    fn from_extension(file: &Path) -> Outcome<Self> {
        let Some(extension) = file.extension() else { return Ok(Self::Png) };
        match extension.to_string_lossy().to_ascii_lowercase().as_str() {
            "png" => Ok(Self::Png),
            "jpg" | "jpeg" => Ok(Self::Jpeg),
            "webp" => Ok(Self::Webp),
            other => Err(Failure::Usage(format!(
                "{} has the unknown image extension {other:?}: use png, jpg or webp, or add --format",
                file.display()
            ))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Webp => "webp",
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
    let format = match (options.format, file) {
        (Some(format), _) => format,
        (None, Some(file)) => Format::from_extension(file)?,
        (None, None) => Format::Png,
    };
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
    let extension = if format == Format::Jpeg { "jpg" } else { format.name() };
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
            ("x.webp", Some(Format::Webp)),
            ("a.b/png", Some(Format::Png)),
            ("a.gif", None),
            ("a.", None),
        ] {
            assert_eq!(Format::from_extension(Path::new(file)).ok(), expected, "{file}");
        }
    }
}
