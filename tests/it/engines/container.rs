//! Does the container engine keep the contract, and does it hold a hostile guest?

use super::conformance::keeps_its_promises;
use super::host::Containers;

keeps_its_promises!(Containers::lonely());
