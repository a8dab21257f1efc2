//! Shell text that installs Debian packages in a build.

/// Installs Debian packages without questions.
pub(super) const APT: &str = "export DEBIAN_FRONTEND=noninteractive\n\
    apt-get -q update\n\
    apt-get -qy -o Dpkg::Options::=--force-confold install --no-install-recommends -- ";
/// The package lists do not stay: they are large and grow old. Downloaded packages stay only where the build keeps them outside of
/// the layer.
pub(super) const APT_CLEAN: &str = "\nrm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin\n\
    [ -n \"${APT_CONFIG:-}\" ] || apt-get clean\n";
