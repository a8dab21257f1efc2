//! `hotdesk image`: builds of the guest image and of the virtual machines' kernel by the installed scripts, imported images, and
//! publication in Incus.

mod import;
mod layout;
mod own_paths;
mod publish;
mod reference;
mod registry;
mod unpack;

use std::path::{Path, PathBuf};
use std::process::Command as Program;

use clap::{Subcommand, ValueEnum};

use crate::failure::{Failure, Outcome};
use crate::operator::serve;

/// Subcommand of `hotdesk image`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build the guest image unless it exists; print its folder. Takes minutes and needs root, mmdebstrap and Debian's mirror.
    Build {
        /// Contents of the image.
        #[arg(long, value_enum, default_value = "full")]
        variant: Variant,
        /// Folder of the images [default: /var/cache/hotdesk/images].
        #[arg(long, value_name = "DIR")]
        cache: Option<PathBuf>,
    },
    /// Build the kernel of virtual machines unless it exists (engine qemu).
    Kernel {
        /// Folder of the kernel [default: /var/cache/hotdesk/vm].
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Publish the guest image, with this program as its agent, on all members of Incus that lack it; print its name
    /// (engines.incus).
    Publish(Box<serve::Options>),
    /// Remove the images that this data folder published in Incus and that no computer needs (engines.incus).
    Prune(Box<serve::Options>),
    /// Import an OCI image with Debian or Ubuntu, on which templates are built (`base: NAME`). Needs root.
    Import {
        #[command(flatten)]
        options: Box<serve::Options>,
        /// Name for templates: lower-case letters, digits and single dashes.
        name: String,
        /// Archive or folder with an OCI layout, or a reference to a registry, such as docker.io/library/debian:13.
        source: String,
        /// Most megabytes of its files.
        #[arg(long, value_name = "MB", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        max_mb: u64,
    },
    /// List the imported images.
    List(Box<serve::Options>),
    /// Remove an imported image. What was built from it stays.
    Remove {
        #[command(flatten)]
        options: Box<serve::Options>,
        /// Name of the image.
        name: String,
    },
}

/// Contents of a guest image.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Variant {
    /// Desktop, browser, viewers, development tools and Python packages.
    Full,
    /// The desktop alone.
    Small,
}

/// Runs `hotdesk image`. The progress goes to standard error.
///
/// # Errors
/// When the scripts are not installed, cannot be run, or fail; they print the reason. Those of [`import::import`],
/// [`import::list`], [`import::remove`], [`publish::publish`] and [`publish::prune`].
pub fn run(command: Command, json: bool) -> Outcome<()> {
    let (script, arguments) = match command {
        Command::Build { variant, cache } => {
            let name = variant.to_possible_value().expect("every variant has a name");
            let mut arguments = vec!["--variant".into(), name.get_name().into()];
            arguments
                .extend(cache.into_iter().flat_map(|folder| ["--cache".into(), folder.into_os_string()]));
            ("image/build", arguments)
        }
        Command::Import { options, name, source, max_mb } => {
            return import::import(&options.load()?.data_dir, &name, &source, max_mb * 1_000_000);
        }
        Command::Publish(options) => return publish::publish(&options.load()?, json),
        Command::Prune(options) => return publish::prune(&options.load()?, json),
        Command::List(options) => return import::list(&options.load()?.data_dir, json),
        Command::Remove { options, name } => return import::remove(&options.load()?.data_dir, &name),
        Command::Kernel { folder } => ("vm/build", folder.map(PathBuf::into_os_string).into_iter().collect()),
    };
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let script = share_folder(&program).join(script);
    let status = Program::new(&script).args(&arguments).status().map_err(|error| {
        format!(
            "cannot run {}: {error}. The Debian package and the archive install it; in the source tree run \
             `make image`",
            script.display()
        )
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Failed(format!("{} failed: {status}", script.display())))
    }
}

/// `PREFIX/share/hotdesk` of a program in `PREFIX/bin`.
fn share_folder(program: &Path) -> PathBuf {
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/usr"));
    prefix.join("share/hotdesk")
}
