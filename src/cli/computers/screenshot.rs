//! `hotdesk screenshot`: what does a computer show?

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::client::api::QUICK;
use super::client::{Session, resolve};
use super::failure::{Failure, Outcome};
use super::output;

/// `hotdesk screenshot`.
#[derive(Debug, Args)]
pub struct Options {
    /// Its id, instance id or name.
    computer: String,
    /// Where to put the image; `-` is standard output. A file named after the time when absent.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Which screen; the boot screen when absent.
    #[arg(long, value_name = "ID")]
    screen: Option<String>,
    /// Kind of image; by the file's ending when absent, else png.
    #[arg(long)]
    format: Option<Format>,
    /// Factor on both sides, above 0 and at most 1.
    #[arg(long)]
    scale: Option<f64>,
}

/// Kinds of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Png,
    Jpeg,
}

impl Format {
    fn of(file: &Path) -> Option<Self> {
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

/// Takes a screenshot.
///
/// # Errors
/// When it cannot be taken or written.
pub async fn run(options: Options, session: &Session) -> Outcome<()> {
    let file = options.output.as_deref().filter(|file| *file != Path::new("-"));
    let to_stdout = options.output.is_some() && file.is_none();
    if session.json && options.output.is_some() {
        return Err(Failure::Usage("--json prints the image as base64: leave --output out".to_owned()));
    }
    if to_stdout && std::io::stdout().is_terminal() {
        return Err(Failure::Usage("an image is not written to a terminal: use --output FILE".to_owned()));
    }
    let format = options.format.or_else(|| file.and_then(Format::of)).unwrap_or(Format::Png);
    let id = resolve::computer(&session.api, &options.computer).await?;
    let scale = options.scale.map(|scale| scale.to_string());
    let mut query = vec![("format", format.name())];
    query.push(("response_format", if session.json { "base64" } else { "binary" }));
    query.extend(options.screen.as_deref().map(|screen| ("screen", screen)));
    query.extend(scale.as_deref().map(|scale| ("scale", scale)));
    let answer = session.api.get(&["computers", &id, "screenshot"], &query, QUICK).await?;
    session.show(&answer, || {
        if to_stdout {
            return output::bytes(answer.body());
        }
        let file = options.output.clone().unwrap_or_else(|| unnamed(format));
        std::fs::write(&file, answer.body()).map_err(|error| format!("{}: {error}", file.display()))?;
        output::line(&format!("{} ({} bytes)", file.display(), answer.body().len()))
    })
}

fn unnamed(format: Format) -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y%m%d-%H%M%S");
    let ending = if format == Format::Jpeg { "jpg" } else { "png" };
    PathBuf::from(format!("hotdesk-{now}.{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_s_ending_says_its_kind() {
        for (file, expected) in [
            ("a.png", Some(Format::Png)),
            ("a.b/c.JPG", Some(Format::Jpeg)),
            ("a.jpeg", Some(Format::Jpeg)),
            ("a.gif", None),
            ("png", None),
        ] {
            assert_eq!(Format::of(Path::new(file)), expected, "{file}");
        }
    }
}
