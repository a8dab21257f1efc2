//! Shell text that installs Debian packages in a build.

/// Installs Debian packages without questions. The package lists do not stay: they are large and grow old.
pub(super) const APT: &str = "export DEBIAN_FRONTEND=noninteractive\n\
    apt-get -q update\n\
    apt-get -qy -o Dpkg::Options::=--force-confold install --no-install-recommends -- ";
pub(super) const APT_CLEAN: &str = "\napt-get clean\nrm -rf /var/lib/apt/lists/*\n";
